"""The effects of a change of the tree on the packages above, which report them.

Moving or archiving a tenant concerns quotas and jobs, and this package knows neither. An upper package
registers a `TreeWatcher` when it is loaded: it foresees, in sentences and numbers, and it follows, in the
transaction of the move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from foundation.core.actor import Actor
from tenants.models import Tenant


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing that a change would do: a stable code, a sentence for the reader, and its numbers."""

    code: str
    text: str
    numbers: Mapping[str, Any] = field(default_factory=dict)


class TreeWatcher(Protocol):
    """A package that has rows per tenant."""

    def preview_move(self, viewer: Actor, tenant: Tenant, parent: Tenant) -> list[Effect]:
        """Return the effects of moving `tenant` below `parent`, as far as `viewer` may know them."""
        ...

    def refuse_move(self, actor: Actor, tenant: Tenant, parent: Tenant) -> None:
        """Check that own rows allow `tenant` to move below `parent`. Raises: Conflict."""
        ...

    def follow_move(self, actor: Actor, tenant: Tenant) -> None:
        """Bring own rows after `tenant`, which stands below its new parent already."""
        ...

    def preview_archive(self, viewer: Actor, tenant: Tenant) -> list[Effect]:
        """Return the effects of archiving that all packages report."""
        ...


_watchers: dict[str, TreeWatcher] = {}


def register_watcher(name: str, watcher: TreeWatcher) -> None:
    """Add the watcher of a package; called once from its `AppConfig.ready()`."""
    _watchers[name] = watcher


def preview_move(viewer: Actor, tenant: Tenant, parent: Tenant) -> list[Effect]:
    """Return the effects of a move in all packages, in the order of their names."""
    return [e for _, each in sorted(_watchers.items()) for e in each.preview_move(viewer, tenant, parent)]


def refuse_move(actor: Actor, tenant: Tenant, parent: Tenant) -> None:
    """Let any package refuse a move. Raises: Conflict."""
    for _, watcher in sorted(_watchers.items()):
        watcher.refuse_move(actor, tenant, parent)


def follow_move(actor: Actor, tenant: Tenant) -> None:
    """Let all packages follow a move."""
    for _, watcher in sorted(_watchers.items()):
        watcher.follow_move(actor, tenant)


def preview_archive(viewer: Actor, tenant: Tenant) -> list[Effect]:
    """Return the effects of archiving that all packages report."""
    return [e for _, each in sorted(_watchers.items()) for e in each.preview_archive(viewer, tenant)]
