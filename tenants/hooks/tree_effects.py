"""The effects of a change of the tree on the packages above, which report them.

Moving or archiving a tenant affects quotas and jobs, and this package knows neither. A package above
registers a `TreeWatcher` when it is loaded. The watcher previews the effects, as sentences and numbers, and
changes its own rows in the transaction of the move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from foundation.core.actor import Actor
from tenants.models import Tenant


@dataclass(frozen=True, slots=True)
class Effect:
    """One effect of a change: a stable code, a sentence for the reader, and its numbers."""

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
        """Update own rows after a move; `tenant` already has its new parent."""
        ...

    def preview_archive(self, viewer: Actor, tenant: Tenant) -> list[Effect]:
        """Return the effects of archiving on the package."""
        ...


_watchers: dict[str, TreeWatcher] = {}


def register_watcher(name: str, watcher: TreeWatcher) -> None:
    """Add the watcher of a package; called once from its `AppConfig.ready()`."""
    _watchers[name] = watcher


def preview_move(viewer: Actor, tenant: Tenant, parent: Tenant) -> list[Effect]:
    """Return the effects of a move in all packages, in the order of their names."""
    return [e for _, each in sorted(_watchers.items()) for e in each.preview_move(viewer, tenant, parent)]


def refuse_move(actor: Actor, tenant: Tenant, parent: Tenant) -> None:
    """Refuse a move if any package refuses it. Raises: Conflict."""
    for _, watcher in sorted(_watchers.items()):
        watcher.refuse_move(actor, tenant, parent)


def follow_move(actor: Actor, tenant: Tenant) -> None:
    """Update the rows of all packages after a move."""
    for _, watcher in sorted(_watchers.items()):
        watcher.follow_move(actor, tenant)


def preview_archive(viewer: Actor, tenant: Tenant) -> list[Effect]:
    """Return the effects of archiving that all packages report."""
    return [e for _, each in sorted(_watchers.items()) for e in each.preview_archive(viewer, tenant)]
