"""This module defines a set of plug-ins, and what a configuration selects from it by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, runtime_checkable

from scheduling.engine.model.registry import Registry
from scheduling.engine.order.protocols import Order
from scheduling.engine.placement.index.protocols import DevicePicker, Score, Veto
from scheduling.engine.placement.placer import PlacementRule

SessionT = TypeVar("SessionT", contravariant=True)


@runtime_checkable
class Action(Protocol[SessionT]):
    """One step of a cycle over the common session."""

    name: str

    def run(self, session: SessionT) -> None:
        """Decide; decisions and outcomes are recorded in the session."""
        ...


@dataclass(frozen=True, slots=True)
class PluginSet:
    """All plug-ins that a configuration may name."""

    vetoes: Registry[Veto]
    scores: Registry[Score]
    orders: Registry[Order]
    device_pickers: Registry[DevicePicker]
    actions: Registry[Action[Any]]


@dataclass(frozen=True, slots=True)
class ResolvedPlugins:
    """The plug-ins of one configuration, resolved and in their configured order."""

    actions: tuple[Action[Any], ...]
    rule: PlacementRule
    orderings: Mapping[str, tuple[Order, ...]]
    cycle_order: tuple[Order, ...]
