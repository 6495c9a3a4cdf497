"""A set of plug-ins, and what remains of it once a configuration has chosen by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from scheduling.engine.placement.placer import PlacementRule
from scheduling.engine.plugins.protocols import DevicePicker, Order, Score, Veto
from scheduling.engine.plugins.registry import Registry

if TYPE_CHECKING:
    from scheduling.engine.session import Session


@runtime_checkable
class Action(Protocol):
    """One step of a cycle over the common session."""

    name: str

    def run(self, session: Session) -> None:
        """Decide; decisions and outcomes go to the session."""
        ...


@dataclass(frozen=True, slots=True)
class PluginSet:
    """Everything that a configuration may name."""

    vetoes: Registry[Veto]
    scores: Registry[Score]
    orders: Registry[Order]
    device_pickers: Registry[DevicePicker]
    actions: Registry[Action]


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The plug-ins of one configuration, resolved and in their configured order."""

    actions: tuple[Action, ...]
    rule: PlacementRule
    orderings: Mapping[str, tuple[Order, ...]]
    cycle_order: tuple[Order, ...]
