"""Named switches of the engine: each choice that could sensibly be made otherwise, with its default.

The defaults are the platform's. Where a default is an improvement on the normative rules, its other
value is the rule as it stands, so that both can be run and compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LOSS_WINDOW_S: Final = 30 * 24 * 3600
"""Seconds over which the share of GPU time lost to preemption is measured, in a cell and in a replay."""


class ShareStrategy(StrEnum):
    """When a fair-sharing preemption between two queues is just; shares are dominant resource shares."""

    LESS_OR_EQUAL_FINAL_SHARE = "less-or-equal-final-share"
    LESS_INITIAL_SHARE = "less-initial-share"


class VictimOrder(StrEnum):
    """In which order legal candidates are tried.

    `normative`: lower priority, then later admission; whole jobs only. `priority`: lower priority, then
    tasks that jobs can spare before whole jobs, then later submission.
    """

    NORMATIVE = "normative"
    PRIORITY = "priority"
    LEAST_LOSS = "least-loss"


@dataclass(frozen=True, slots=True, kw_only=True)
class FairSharing:
    """Fair order and fair preemption over the quota tree by dominant resource share."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class PreemptionOptions:
    """How victims are searched for.

    `final_check` keeps a victim whose return would break the rule that allowed another one (the open
    fill-back loop of the reference). With `lasting` a job that borrows under classical preemption takes from
    other queues only jobs that borrow as well: whom those that go before it in its queue leave room inside
    what its side owns would take it back at once, and the two would take turns. With `beside_preemptible` a
    non-preemptible job is held to its queue's nominal by what other non-preemptible jobs of the queue hold;
    preemptible ones then are the borrowers (the rule of KAI-Scheduler). Off, everything that the queue uses
    counts. `grace_s` is how long borrowed use may be protected, and how long at most a job that stays inside
    its queue's nominal waits for all who are. `eviction_cap` is after how many evictions a job no longer
    borrows, `budget` the trials of one search, `oracle_budget` those of one that only weighs flavors against
    each other.

    A job at its cap is taken by nobody, so it counts as part of its queue's nominal. With `beside_capped`
    only its like and non-preemptible jobs stand against it there, and the queue's other jobs are the
    borrowers; off, it waits until everything that the queue uses leaves room inside the nominal.
    `repeat_s` is what each earlier eviction adds to the loss of a victim, in seconds of its cards, so that
    jobs which just started again are not taken again and again. `wait_s` is what a whole job adds that
    leaves, in seconds of one card, whatever its size: it goes back into the line, so that a few jobs leave
    rather than many of which each has run a little less.

    Under fair sharing a queue that borrows takes from another that borrows more only jobs which cost at
    most `share_loss_s` for each of their cards (None: whatever they cost; 0: none): what the one gains the
    other loses, and work besides, and such evictions can go round in circles. A job that was evicted borrows
    only where that leaves `spare_permille` of the whole tree's cards unused for each eviction, in
    thousandths, rounded down to cards: into less it would be evicted again. `BackfillOptions` bounds how
    long younger jobs of its queue pass it.

    `loss_budget_permille` is how much of the GPU time of the cell preemption may throw away
    (`Snapshot.lost_ppm` is how much it did), in thousandths (0: any amount). From half of it on every job
    that borrows leaves a part of the whole tree's cards unused, which grows to `headroom_permille` where all
    of it is lost: what owners ask for they then find free, and lending ends no sooner than it costs too much.
    """

    victim_order: VictimOrder = VictimOrder.LEAST_LOSS
    final_check: bool = True
    lasting: bool = True
    grace_s: int = 60
    eviction_cap: int = 3
    beside_preemptible: bool = False
    beside_capped: bool = True
    repeat_s: int = 3_600
    wait_s: int = 43_200
    share_loss_s: int | None = 0
    spare_permille: int = 16
    loss_budget_permille: int = 10
    headroom_permille: int = 100
    budget: int = 2_000
    oracle_budget: int = 256
    claim_s: int = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillOptions:
    """How the first job of a queue that does not fit is kept a start.

    Once it has waited `hold_after_s` it needs no known end: its places and quota are worked out as if all
    had ended that ran in its queue when it had waited so long, and what starts behind it must leave it these
    (None: a start is kept only where run-time limits tell when it will be).
    """

    hold_after_s: int | None = 3_600


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomOptions:
    """What is done where quota suffices and places do not.

    With `other_flavors` the queue's other flavors are tried before anybody is asked to leave. With
    `beside_own` a task goes, of nodes that are equally good, to the one where most tasks are of its own
    queue, so that what a queue borrowed can be given back node by node; off, to the first.
    """

    other_flavors: bool = True
    beside_own: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsolidationOptions:
    """Bounds of moves: tasks moved per cycle, and jobs that may be moved for one waiting job (None: any).

    `jobs_tried` is for how many differently shaped waiting jobs a cycle searches, and `effort` how many tasks
    it lifts or seats in simulation for all of them together (None: any number). `loss_s` bounds the work
    that movers do again for a job that borrows, in seconds of the cards that it asks for (0: nobody moves
    for it); for a job inside its queue's nominal there is no such bound (None: nor for others). With
    `cheapest_first` the nodes that cost least to clear are tried before movers are taken up in the order of
    their priority and age. With `with_evictions` a job that stays inside its queue's nominal, and finds no
    room by evictions or moves alone, may get it by both together, of each queue the first of up to
    `jobs_tried` shapes: `ways_tried` sets of nodes are tried, each with a search for victims.
    With `instead_of_evictions` such a job that lacks nothing but room, and would be given it by evictions,
    is given it by moves where these lose less work; the cycle ends with them, so that the places to which
    jobs move stay free. `preemptible_only` moves others for preemptible jobs alone, `for_growth` also for
    the next task of an elastic job that runs. KAI-Scheduler does the last two and neither of the others.
    """

    moves_per_cycle: int = 100
    jobs_per_move: int | None = 32
    jobs_tried: int = 16
    effort: int | None = 256
    loss_s: int | None = 600
    cheapest_first: bool = True
    with_evictions: bool = True
    ways_tried: int = 4
    instead_of_evictions: bool = True
    preemptible_only: bool = False
    for_growth: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HousekeepingOptions:
    """Bounds that hold where a job names none of its own; negative means never.

    `stale_grace_s` is how long a gang may run below its minimum, `idle_s` how long its cards may do
    nothing. With `surplus_later` a job starts at its minimum, and surplus is handed out by growing, after
    the minima of all others; off, it starts at the largest size that fits. `grown_per_cycle` is by how many
    tasks all elastic jobs together may grow in a cycle (None: any number). `grow_past_waiting` lets
    elastic jobs grow into room that waiting jobs cannot use anyway; off, a waiting job keeps them from
    growing in every flavor that it could be given.
    """

    stale_grace_s: int = 60
    idle_s: int = -1
    surplus_later: bool = False
    grown_per_cycle: int | None = 64
    grow_past_waiting: bool = False
