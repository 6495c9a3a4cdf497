"""Placement without queues and quota: tasks arrive one by one and take the best place or none.

What a packing study needs, by the very placement that a cycle uses. Nothing is undone here, so no
snapshot is kept.
"""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.engine.config import EngineConfig, resolve_config
from scheduling.engine.model import Flavor, Node, PlacementRules, Request
from scheduling.engine.placement.placer import Placer, Seat
from scheduling.engine.placement.shape import resolve
from scheduling.engine.state.fleet import Fleet

NO_RULES = PlacementRules()


class PlacementStream:
    """Nodes of one flavor that fill up as tasks arrive.

    Raises:
        ConfigError: when the configuration names what does not exist.
    """

    def __init__(self, nodes: Iterable[Node], flavor: Flavor, config: EngineConfig) -> None:
        self.fleet = Fleet(nodes)
        self._flavor = flavor
        self._placer = Placer(self.fleet, resolve_config(config).rule)

    def place(self, request: Request, rules: PlacementRules = NO_RULES) -> Seat | None:
        """Give one task a node and cards, which it then holds; None when nothing takes it."""
        task = resolve(request, rules, self._flavor)
        seat = self._placer.choose(task, self._flavor)
        if seat is not None:
            self.fleet.hold(seat.row, self.fleet.hold_of(seat.row, task.cpu, task.memory, seat.slices))
        return seat
