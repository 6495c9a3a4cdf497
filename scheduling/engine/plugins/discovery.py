"""Plug-ins of other packages, found through the entry-point group `allotment.engine`.

An entry point loads to one plug-in object; its kind is recognised by what it can do. Whoever builds
the configuration calls this; a cycle never looks at installed packages.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points

from scheduling.engine.plugins.protocols import DevicePicker, Order, Score, Veto
from scheduling.engine.plugins.registry import ConfigError
from scheduling.engine.plugins.sets import Action, PluginSet

GROUP = "allotment.engine"


def with_entry_points(base: PluginSet, found: Iterable[EntryPoint] | None = None) -> PluginSet:
    """A set with the plug-ins of installed packages added, in the order of their entry-point names.

    Raises:
        ConfigError: when an entry point loads to something that is no plug-in, or its name is taken.
    """
    points = entry_points(group=GROUP) if found is None else found
    plugins = base
    for point in sorted(points, key=lambda entry: (entry.name, entry.value)):
        plugins = _adding(plugins, point.load(), point)
    return plugins


def _adding(plugins: PluginSet, plugin: object, point: EntryPoint) -> PluginSet:
    match plugin:
        case Veto():
            return replace(plugins, vetoes=plugins.vetoes.adding(plugin))
        case Score():
            return replace(plugins, scores=plugins.scores.adding(plugin))
        case Order():
            return replace(plugins, orders=plugins.orders.adding(plugin))
        case DevicePicker():
            return replace(plugins, device_pickers=plugins.device_pickers.adding(plugin))
        case Action():
            return replace(plugins, actions=plugins.actions.adding(plugin))
        case _:
            raise ConfigError(f"entry point {point.name} ({point.value}) is no plug-in of the engine")
