"""A typed, immutable registry: names to plug-ins of one kind.

Immutable on purpose: a global table that imports fill in depends on who imported what first. A
registry with one more plug-in is a new registry.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar


class Named(Protocol):
    """Anything with a name under which the configuration asks for it."""

    @property
    def name(self) -> str: ...


P = TypeVar("P", bound=Named)


class ConfigError(ValueError):
    """A configuration that names what does not exist or cannot work together."""


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

    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(sorted(self._plugins))

    def get(self, name: str) -> P:
        """The plug-in of that name.

        Raises:
            ConfigError: naming what there is.
        """
        try:
            return self._plugins[name]
        except KeyError:
            raise ConfigError(
                f"there is no {self.kind} called {name!r}; there are {', '.join(self.names())}"
            ) from None

    def adding(self, *plugins: P) -> Registry[P]:
        """This registry and further plug-ins.

        Raises:
            ConfigError: when a name is taken.
        """
        return Registry(self.kind, (*self._plugins.values(), *plugins))
