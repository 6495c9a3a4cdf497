"""Discovery of plug-ins of other packages through the entry-point group `allotment.engine`.

An entry point loads to one plug-in object; its methods decide its kind. The code that builds the
configuration calls `with_entry_points`; a cycle never looks at installed packages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from scheduling.engine.model.registry import ConfigError
from scheduling.engine.order.protocols import Order
from scheduling.engine.placement.index.protocols import DevicePicker, Score, Veto
from scheduling.engine.plugins.guard import (
    GuardedAction,
    GuardedOrder,
    GuardedScore,
    GuardedVeto,
    guard_picker,
)
from scheduling.engine.session.plugin_sets import Action, PluginSet

GROUP = "allotment.engine"
KINDS: tuple[tuple[Any, Callable[[Any, str], Any], str], ...] = (
    (Veto, GuardedVeto, "vetoes"),
    (Score, GuardedScore, "scores"),
    (Order, GuardedOrder, "orders"),
    (DevicePicker, guard_picker, "device_pickers"),
    (Action, GuardedAction, "actions"),
)


def with_entry_points(base: PluginSet, found: Iterable[EntryPoint] | None = None) -> PluginSet:
    """Return `base` with the plug-ins of installed packages added, in the order of their entry-point names.

    A plug-in that fails in a cycle ends the cycle with a `PluginError` that names the plug-in.

    Raises:
        ConfigError: when an entry point cannot be loaded, loads to something that is not exactly one
            plug-in, or its name is taken; the message names the entry point.
    """
    points = entry_points(group=GROUP) if found is None else found
    plugins = base
    for point in sorted(points, key=lambda entry: (entry.name, entry.value)):
        plugins = _adding(plugins, _loaded(point), point)
    return plugins


def _loaded(point: EntryPoint) -> object:
    try:
        return point.load()
    except Exception as error:
        # An import may raise anything; the message must not make it look like a fault of the engine.
        what = f"{type(error).__name__}: {error}"
        raise ConfigError(f"entry point {_called(point)} cannot be loaded: {what}") from error


def _adding(plugins: PluginSet, plugin: object, point: EntryPoint) -> PluginSet:
    if isinstance(plugin, type):
        raise ConfigError(f"entry point {_called(point)} is the class of a plug-in; it must name an object")
    kinds = [kind for kind in KINDS if isinstance(plugin, kind[0])]
    if not kinds:
        raise ConfigError(f"entry point {_called(point)} is no plug-in of the engine")
    if len(kinds) > 1:
        names = " and ".join(kind[2] for kind in kinds)
        raise ConfigError(f"entry point {_called(point)} could stand among {names}; make it one of them")
    _, guard, field = kinds[0]
    try:
        registry = getattr(plugins, field).with_plugins(guard(plugin, _called(point)))
    except ConfigError as error:
        raise ConfigError(f"entry point {_called(point)} cannot be added: {error}") from error
    return replace(plugins, **{field: registry})


def _called(point: EntryPoint) -> str:
    package = "" if point.dist is None else f" of {point.dist.name}"
    return f"{point.name} ({point.value}{package})"
