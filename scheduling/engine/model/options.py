"""The options of the engine with their defaults, which are those of the platform.

Where a default improves on the normative rules (Kueue), another value of the option is the normative rule, so
that both can be run and compared; `docs/engine-deviations.md` lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

WHOLE: Final = 1000
"""The weight 1 in thousandths."""
LOSS_WINDOW_S: Final = 30 * 24 * 3600
"""Seconds over which the share of GPU time lost to preemption is measured, in a cell and in a replay."""


class ShareStrategy(StrEnum):
    """The condition for a fair-sharing preemption between queues, by dominant resource share (KEP-1714)."""

    LESS_OR_EQUAL_FINAL_SHARE = "less-or-equal-final-share"
    LESS_INITIAL_SHARE = "less-initial-share"


class VictimOrder(StrEnum):
    """The order in which legal candidates are tried.

    `normative`: lower priority, then later admission; whole jobs only. `priority`: lower priority, then
    surplus tasks before whole jobs, then later submission. `least-loss`: lower eviction cost.
    """

    NORMATIVE = "normative"
    PRIORITY = "priority"
    LEAST_LOSS = "least-loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class FairSharing:
    """The options of fair order and fair preemption over the quota tree by dominant resource share."""

    strategies: tuple[ShareStrategy, ...] = (
        ShareStrategy.LESS_OR_EQUAL_FINAL_SHARE,
        ShareStrategy.LESS_INITIAL_SHARE,
    )
    preempt_within_nominal: bool = True
    prefer_non_borrowing: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class UserShares:
    """Decayed usage of users: half-life and sampling in seconds; weights per resource in thousandths."""

    half_life_s: float = 604_800.0
    sampling_s: float = 300.0
    resource_weights: tuple[tuple[str, int], ...] = ()

    def compute_accrued_part(self, elapsed_s: float) -> float:
        """Return the part of a present usage that counts after `elapsed_s` seconds; 0 without a half-life."""
        return 0.0 if self.half_life_s == 0 else 1.0 - 0.5 ** (max(0.0, elapsed_s) / self.half_life_s)

    def compute_load(self, amounts: Mapping[str, float], weight_milli: int = WHOLE) -> float:
        """Return a recent usage in resource units times the weights; a user of weight zero comes last."""
        if weight_milli <= 0:
            return float("inf")
        weights = dict(self.resource_weights)
        return sum(weights.get(name, WHOLE) * amounts[name] for name in sorted(amounts)) / weight_milli


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionOptions:
    """The options of the victim search.

    `final_check` retains a victim whose restoration would break the rule that allowed another one (Kueue
    leaves that open in its fill-back loop). With `borrowers_evict_borrowers_only` a job that borrows under
    classical preemption evicts from other queues only jobs that borrow as well: a job inside its nominal
    would reclaim at once, and the two would evict each other in turn. With
    `nominal_counts_non_preemptible_only` a non-preemptible job is limited by its queue's nominal less the
    usage of other non-preemptible jobs of the queue; preemptible jobs count as borrowers then (the rule of
    KAI-Scheduler). Off, all usage of the queue counts. `grace_s` is the longest protection of borrowed quota,
    and so the longest time that a job inside its queue's nominal waits for protected jobs. `eviction_cap` is
    the number of evictions after which a job no longer borrows, `search_budget` the trials of one search,
    `oracle_budget` those of a search that only compares flavors.

    A job at its cap cannot be evicted, so it counts as part of its queue's nominal. With
    `nominal_counts_unevictable_only` only such jobs and non-preemptible ones count against it there, and the
    queue's other jobs are the borrowers; off, it waits until all usage of the queue leaves room inside the
    nominal. `repeat_eviction_penalty_s` is what each earlier eviction adds to the eviction cost of a job, in
    seconds of its cards, so that jobs which just restarted are not evicted again and again.
    `requeue_penalty_s` is what the eviction of a whole job adds, in seconds of one card, whatever its size,
    because it has to wait again: a few evictions are preferred to many of jobs that have run a little less.

    Under fair sharing a queue that borrows evicts from another that borrows more only jobs which cost at most
    `max_loss_s` for each of their cards (None: any cost; 0: none), because such evictions move capacity
    between borrowers, lose work, and can form a cycle. A job that was evicted borrows only where that leaves
    `readmission_headroom_permille` of the whole tree's cards unused for each eviction, in thousandths,
    rounded down to cards: with less it would be evicted again. `BackfillOptions` bounds how long later jobs
    of its queue overtake it.

    `loss_budget_permille` is the share of the cell's GPU time that preemption may lose (`Snapshot.lost_ppm`
    is what it lost), in thousandths (0: any amount). From half of it on every job that borrows leaves a part
    of the whole tree's cards unused, which grows to `loss_headroom_permille` where all of it is lost: owners
    then find free capacity, and borrowing is limited only as far as it costs too much.
    """

    victim_order: VictimOrder = VictimOrder.LEAST_LOSS
    final_check: bool = True
    borrowers_evict_borrowers_only: bool = True
    grace_s: int = 60
    eviction_cap: int = 3
    nominal_counts_non_preemptible_only: bool = False
    nominal_counts_unevictable_only: bool = True
    repeat_eviction_penalty_s: int = 3_600
    requeue_penalty_s: int = 43_200
    max_loss_s: int | None = 0
    readmission_headroom_permille: int = 16
    loss_budget_permille: int = 10
    loss_headroom_permille: int = 100
    search_budget: int = 2_000
    oracle_budget: int = 256
    claim_timeout_s: int = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillOptions:
    """The options of the reservation for the first job of a queue that does not fit (EASY backfill).

    Once it has waited `reservation_after_s` it needs no known end: its placement and quota are computed as if
    all jobs had ended that ran in its queue then, and later jobs must keep them free (None: a start is
    reserved only if run-time limits determine it).
    """

    reservation_after_s: int | None = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class NoRoomOptions:
    """The options for a job that fits its quota but not the nodes.

    With `try_other_flavors` the queue's other flavors are tried before any eviction, and a role skips a
    flavor that a later role of its job needs. With `prefer_own_nodes` a task is placed, of equally good
    nodes, on the one with most tasks of its own queue, so that borrowed capacity can be released node by
    node; off, on the first.
    """

    try_other_flavors: bool = True
    prefer_own_nodes: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationOptions:
    """Bounds of consolidation: tasks moved per cycle, and jobs moved for one pending job (None: any).

    `max_job_shapes` is the number of job shapes for which a cycle searches, and `placement_budget` the number
    of tasks that it removes or places in simulation for all of them together (None: any number). `max_loss_s`
    bounds the work that moved tasks repeat for a job that borrows, in seconds of the cards that it requests
    (0: no moves for it); for a job inside its queue's nominal there is no such bound (None: nor for others).
    With `cheapest_first` the nodes that cost least to clear are tried before movable tasks in the order of
    priority and age. With `with_evictions` a job inside its queue's nominal that gets no room by evictions or
    moves alone may get it by both together, in each queue the first of up to `max_job_shapes` shapes:
    `max_node_sets` sets of nodes are tried, each with a victim search. With `instead_of_evictions` such a job
    that lacks only room, and would get it by evictions, gets it by moves if these lose less work; the cycle
    ends with them, so that the targets of the moves stay free. `preemptible_only` moves others only for
    preemptible jobs, `for_growth` also for the next task of an elastic job that runs. KAI-Scheduler does the
    last two and neither of the others.
    """

    moves_per_cycle: int = 100
    jobs_per_move: int | None = 32
    max_job_shapes: int = 16
    placement_budget: int | None = 256
    max_loss_s: int | None = 600
    cheapest_first: bool = True
    with_evictions: bool = True
    max_node_sets: int = 4
    instead_of_evictions: bool = True
    preemptible_only: bool = False
    for_growth: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ElasticOptions:
    """The options of elastic jobs.

    With `start_at_minimum` a job starts at its minimum and grows after the minima of all others; off, it
    starts at the largest size that fits. `max_growth_per_cycle` is the number of tasks by which all elastic
    jobs together may grow in a cycle (None: any number). `grow_past_waiting` lets elastic jobs grow into room
    that pending jobs cannot use; off, a pending job prevents growth in every flavor that it could be
    assigned.
    """

    start_at_minimum: bool = False
    max_growth_per_cycle: int | None = 64
    grow_past_waiting: bool = False
