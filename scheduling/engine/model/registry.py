"""A typed, immutable registry of plug-ins of one kind by name.

It is immutable because a global table that imports fill depends on the order of the imports. A registry with
one more plug-in is a new registry.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar


class NamedPlugin(Protocol):
    """A plug-in with the name that configurations use."""

    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=NamedPlugin)


class ConfigError(ValueError):
    """A configuration names plug-ins that do not exist, or options that exclude each other."""


class Registry(Generic[P]):
    """Plug-ins of one kind by name."""

    def __init__(self, kind: str, plugins: Iterable[P] = ()) -> None:
        self.kind = kind
        self._plugins: dict[str, P] = {}
        for plugin in plugins:
            if plugin.name in self._plugins:
                raise ConfigError(f"two plug-ins of kind {kind} are called {plugin.name}")
            self._plugins[plugin.name] = plugin

    def __contains__(self, name: str) -> bool:
        return name in self._plugins

    def list_names(self) -> tuple[str, ...]:
        """Return all names, sorted."""
        return tuple(sorted(self._plugins))

    def get(self, name: str) -> P:
        """Return the plug-in of a name.

        Raises:
            ConfigError: when there is none; the message lists the names.
        """
        try:
            return self._plugins[name]
        except KeyError:
            raise ConfigError(
                f"there is no {self.kind} called {name!r}; there are {', '.join(self.list_names())}"
            ) from None

    def with_plugins(self, *plugins: P) -> Registry[P]:
        """Return a registry with further plug-ins.

        Raises:
            ConfigError: when a name is taken.
        """
        return Registry(self.kind, (*self._plugins.values(), *plugins))
