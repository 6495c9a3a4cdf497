"""The effects of moving a tenant, computed before the move."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from foundation.core.actor import Actor
from tenants.access.permissions import Permission
from tenants.access.rights import Right, rights_on
from tenants.hooks import tree_effects
from tenants.hooks.tree_effects import Effect
from tenants.models import Tenant
from tenants.services.tenant_move import tenant_move_check


@dataclass(frozen=True, slots=True)
class AccessChange:
    """One user whose permissions on the tenant would change, with the roles before and after."""

    username: str
    before: tuple[Right, ...]
    after: tuple[Right, ...]
    gained: tuple[Permission, ...]
    lost: tuple[Permission, ...]

    @property
    def verdict(self) -> str:
        """The kind of change: `gains` access, `loses` it, or `changes` permissions."""
        if not any(Permission.TENANT_VIEW in right.points for right in self.before):
            return "gains"
        if not any(Permission.TENANT_VIEW in right.points for right in self.after):
            return "loses"
        return "changes"


@dataclass(frozen=True, slots=True)
class MovePreview:
    """The effects of a move: users who gain or lose rights, how many tenants move too, and the effects in
    other packages.
    """

    tenant: Tenant
    old_parent: Tenant | None
    new_parent: Tenant
    along: int
    access: tuple[AccessChange, ...]
    effects: tuple[Effect, ...]


def tenant_move_preview(*, viewer: Actor, tenant: Tenant, parent: Tenant) -> MovePreview:
    """Return the effects of a move; writes nothing. Raises: as
    `tenants.services.tenant_move.tenant_move_check`.
    """
    tenant_move_check(acting_user=viewer, tenant=tenant, parent=parent)
    before = rights_on([*tenant.ancestor_ids()])
    after = rights_on([*parent.ancestor_ids(), str(tenant.pk)])
    return MovePreview(
        tenant=tenant,
        old_parent=tenant.parent,
        new_parent=parent,
        along=Tenant.unscoped.filter(path__startswith=tenant.path).count() - 1,
        access=tuple(_changes(before, after)),
        effects=tuple(tree_effects.preview_move(viewer, tenant, parent)),
    )


def _changes(
    before: Mapping[uuid.UUID, tuple[Right, ...]], after: Mapping[uuid.UUID, tuple[Right, ...]]
) -> Iterable[AccessChange]:
    names = {pk: rights[0].username for rights_of in (before, after) for pk, rights in rights_of.items()}
    for pk, username in sorted(names.items(), key=lambda item: (item[1], item[0])):
        had, has = _points(before.get(pk, ())), _points(after.get(pk, ()))
        if had != has:
            gained, lost = tuple(sorted(has - had)), tuple(sorted(had - has))
            yield AccessChange(username, before.get(pk, ()), after.get(pk, ()), gained, lost)


def _points(rights: Iterable[Right]) -> frozenset[Permission]:
    return frozenset().union(*(right.points for right in rights))
