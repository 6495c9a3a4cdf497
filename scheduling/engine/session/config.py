"""This module defines the configuration of one engine: actions, plug-ins and limits by name, checked when it
is resolved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from scheduling.engine.model.options import (
    BackfillOptions,
    ConsolidationOptions,
    ElasticOptions,
    FairSharing,
    NoRoomOptions,
    PreemptionOptions,
    UserShares,
)
from scheduling.engine.model.registry import ConfigError
from scheduling.engine.order.orders import fair_chain
from scheduling.engine.order.protocols import Order
from scheduling.engine.placement.filters.vetoes import VETOES
from scheduling.engine.placement.placer import PlacementRule
from scheduling.engine.session.plugin_sets import PluginSet, ResolvedPlugins


class ExplainScope(StrEnum):
    """`all` gives an outcome to every pending job, `considered` only to those that were evaluated."""

    ALL = "all"
    CONSIDERED = "considered"


# The weight of a preference against expected fragmentation, which counts in cards: one hundredth of a
# preference outweighs all fragmentation, so packing decides only among nodes that meet a task's preferences
# equally.
PREFERENCE_WEIGHT = 1_000
DEFAULT_POLICIES = (
    ("compact", (("compact", 1), ("affinity", 10))),
    ("spread", (("spread", 1), ("affinity", 10))),
    ("default", (("foresight", 1), ("affinity", PREFERENCE_WEIGHT), ("topology", PREFERENCE_WEIGHT))),
    ("affinity", (("affinity", 10), ("compact", 1))),
    ("topology", (("topology", 10), ("affinity", 10), ("compact", 1))),
    ("balance", (("balance", 1), ("affinity", 10))),
)
DEFAULT_ORDERINGS = (
    ("fifo", ("priority", "submitted")),
    ("shortest", ("run-time", "submitted")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineConfig:
    """The configuration of a cell's engine.

    `policies` maps a flavor's policy to weighted scores, `orderings` a queue's ordering to criteria, and
    `cycle_order` orders the heads of different queues; under fair sharing the share replaces the borrow
    level. `heads_per_queue` bounds how many jobs of different classes of a best-effort queue may be refused
    in one cycle (None: no bound). `refill` evaluates the next job of a queue in the same cycle after its head
    was admitted.

    `stop_without_free_capacity` ends the round once no remaining job fits in free capacity, although others
    might be evicted for one of them; it is meant for short cycles between whole ones. `fair_sharing` (None:
    classical) says how queues are ordered and which jobs they may preempt, `user_shares` whether users' past
    usage counts, `backfill` when a start is reserved for a job that does not fit, and `no_room` the
    options for a job that fits its quota but not the nodes.

    `advise_for` is the id of the only job for which recommendations are tried (None: all jobs; empty: no
    job). `stopwatch`, if given, returns seconds and is read
    around each action; results do not depend on it. A cycle that has not ended at `deadline`, in seconds of
    the stopwatch (None: no limit), raises `DeadlineExceededError` at the next job that it would evaluate.
    """

    actions: tuple[str, ...] = ("allocate",)
    vetoes: tuple[str, ...] = tuple(veto.name for veto in VETOES)
    policies: tuple[tuple[str, tuple[tuple[str, int], ...]], ...] = DEFAULT_POLICIES
    devices: str = "best-fit"
    orderings: tuple[tuple[str, tuple[str, ...]], ...] = DEFAULT_ORDERINGS
    cycle_order: tuple[str, ...] = ("borrow-level", "priority", "submitted")
    heads_per_queue: int | None = 64
    refill: bool = True
    stop_without_free_capacity: bool = False
    fair_sharing: FairSharing | None = None
    user_shares: UserShares | None = None
    preemption: PreemptionOptions = field(default_factory=PreemptionOptions)
    backfill: BackfillOptions = field(default_factory=BackfillOptions)
    no_room: NoRoomOptions = field(default_factory=NoRoomOptions)
    consolidation: ConsolidationOptions = field(default_factory=ConsolidationOptions)
    elastic: ElasticOptions = field(default_factory=ElasticOptions)
    explain: ExplainScope = ExplainScope.ALL
    advise_for: str | None = None
    plugins: PluginSet | None = None
    stopwatch: Callable[[], float] | None = None
    deadline: float | None = None


def resolve_plugins(config: EngineConfig, plugins: PluginSet) -> ResolvedPlugins:
    """Return the plug-ins that the configuration names, out of `plugins`.

    Raises:
        ConfigError: naming what is missing, doubled or out of range.
    """
    if config.deadline is not None and config.stopwatch is None:
        raise ConfigError("a deadline needs a stopwatch")
    if config.heads_per_queue is not None and config.heads_per_queue < 1:
        raise ConfigError(f"heads_per_queue is {config.heads_per_queue}; it is at least 1, or None for all")
    for what, names in (
        ("action", config.actions),
        ("veto", config.vetoes),
        ("policy", tuple(name for name, _ in config.policies)),
        ("ordering", tuple(name for name, _ in config.orderings)),
    ):
        if len(set(names)) < len(names):
            raise ConfigError(f"a {what} is named twice: {', '.join(names)}")
    for name, scores in config.policies:
        if not scores or any(weight < 1 for _, weight in scores):
            raise ConfigError(f"policy {name} needs at least one score, each with a weight of 1 or more")
    rule = PlacementRule(
        vetoes=tuple(plugins.vetoes.get(name) for name in config.vetoes),
        policies=tuple(
            (name, tuple((plugins.scores.get(score), weight) for score, weight in scores))
            for name, scores in config.policies
        ),
        devices=plugins.device_pickers.get(config.devices),
        prefer_own_nodes=config.no_room.prefer_own_nodes,
    )
    return ResolvedPlugins(
        actions=tuple(plugins.actions.get(name) for name in config.actions),
        rule=rule,
        orderings={
            name: tuple(plugins.orders.get(order) for order in chain) for name, chain in config.orderings
        },
        cycle_order=resolve_cycle_order(config, plugins),
    )


def resolve_cycle_order(config: EngineConfig, plugins: PluginSet) -> tuple[Order, ...]:
    """Return the criteria by which heads of different queues are ordered.

    Raises:
        ConfigError: when a criterion does not exist.
    """
    chain = config.cycle_order
    if config.fair_sharing is not None:
        chain = fair_chain(chain, config.fair_sharing)
    return tuple(plugins.orders.get(name) for name in chain)
