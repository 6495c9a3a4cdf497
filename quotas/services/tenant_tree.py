"""The effect of moving a tenant on quotas: its nodes follow it, and the sums of both parents change."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Mapping

from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor
from foundation.audit import audit_log
from foundation.core.actor import SYSTEM, Actor
from foundation.core.errors import Conflict
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from quotas.distribution.division import nodes_below
from quotas.models import Override, OverrideState, Quota, QuotaNode
from quotas.services.quota import quota_changed, quota_node_ensure
from quotas.services.quota_move import move_own_quota
from quotas.services.quota_plan import QuotaTables
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.hooks.tree_effects import Effect
from tenants.models import Tenant

_Sums = Mapping[tuple[uuid.UUID, str], int | None]


class QuotaTreeWatcher:
    """Keeps the quota trees of all cells in the shape of the tenant tree."""

    def preview_move(self, viewer: Actor, tenant: Tenant, parent: Tenant) -> list[Effect]:
        """Describe per flavor and resource the quota that moves along, and the new sums of both parents.

        Where the viewer does not divide quota above both parents, the quota stays with the old one. Returns
        effects only to a viewer who may see the quotas of both parents; the move is not refused here.
        """
        places = (tenant, parent, tenant.parent)
        if not all(permissions.has_permission(viewer, Permission.QUOTA_VIEW, place) for place in places):
            return []
        own = {key: amount for key, amount in _below(tenant).items() if amount != 0}
        if own and not _takes_quota_along(viewer, tenant.parent, parent):
            text = _("The quota stays with %(folder)s. Only a quota admin of a common parent can move it.")
            return [Effect("QUOTA_LEFT", text % {"folder": tenant.parent})]
        old = _below(tenant.parent) if tenant.parent else {}
        new = _below(parent)
        flavors = {flavor.pk: flavor.name for flavor in Flavor.unscoped.filter(pk__in={f for f, _ in own})}
        return [
            _effect(flavors[key[0]], key[1], own[key], old.get(key, 0), new.get(key, 0))
            for key in sorted(own, key=lambda key: (flavors[key[0]], list(Resource).index(Resource(key[1]))))
        ]

    def refuse_move(self, actor: Actor, tenant: Tenant, parent: Tenant) -> None:
        """Refuse to move a tenant with running or planned loans whose other side does not move with it.

        Otherwise the admins who decide about the loan would no longer be above both sides. Raises: Conflict.
        """
        with row_scope.whole():
            along = _takes_quota_along(actor, tenant.parent, parent)
            bound = any(_is_bound(node, along=along) for node in _nodes(tenant))
        if bound:
            message = _("%(name)s has temporary quota. End it before you move the tenant.")
            raise Conflict(message % {"name": tenant.name}, code="TENANT_HAS_LOANS")

    def follow_move(self, actor: Actor, tenant: Tenant) -> None:
        """Move the tenant's node of each cell below its new parent's, and request a cycle there."""
        for node in _nodes(tenant):
            cell = Cell.unscoped.select_for_update().get(pk=node.cell_id)
            # The user who moves the tenant has the permission on both folders, so a missing node is created
            # as SYSTEM.
            above = (
                quota_node_ensure(acting_user=SYSTEM, cell=cell, tenant=tenant.parent)
                if tenant.parent
                else None
            )
            self._leave_quota(actor, tenant, node)
            before, node.parent = node.parent_id, above
            node.save(update_fields=["parent"])
            audit_log.record_action(
                actor,
                "quota-node.move",
                entity="quota-node",
                entity_id=node.pk,
                tenant_id=tenant.pk,
                before={"parent": str(before)},
                after={"parent": str(above.pk) if above else None},
            )
            quota_changed(cell.pk)

    def _leave_quota(self, actor: Actor, tenant: Tenant, node: QuotaNode) -> None:
        """Leave the tenant's quota with the old parent where the actor may not take it along."""
        old = QuotaNode.unscoped.select_related("tenant").filter(children=node).first()
        if old is None or _takes_quota_along(actor, old.tenant, tenant.parent):
            return
        with row_scope.whole():
            tables = QuotaTables(node.cell_id)
            reason = _("%(name)s moved. Its quota stayed.") % {"name": tenant.name}
            move_own_quota(
                actor, tables, [node.pk, *nodes_below(tables.parents, node.pk)], old.pk, reason=reason
            )

    def preview_archive(self, viewer: Actor, tenant: Tenant) -> list[Effect]:
        """Report that an archived tenant keeps its quota, which may be lent."""
        own = _below(tenant) if permissions.has_permission(viewer, Permission.QUOTA_VIEW, tenant) else {}
        cards = [key for key, amount in own.items() if key[1] == Resource.GPU_CARDS.value and amount != 0]
        if not cards:
            return []
        number = sum(own[key] or 0 for key in cards)
        text = _("Its quota of %(cards)s GPUs is kept and can be borrowed. Set it to 0 to release it.")
        return [Effect("QUOTA_STAYS", text % {"cards": number}, {"cards": number})]


def _nodes(tenant: Tenant) -> list[QuotaNode]:
    return list(QuotaNode.unscoped.filter(tenant=tenant, is_queue=False).order_by("pk"))


def _takes_quota_along(actor: Actor, old: Tenant | None, new: Tenant | None) -> bool:
    """Return whether the actor divides the quota of the lowest tenant above both."""
    if old is None or new is None:
        return True
    over_both = Tenant.unscoped.filter(pk__in=set(old.ancestor_ids()) & set(new.ancestor_ids()))
    return permissions.has_permission(actor, Permission.QUOTA_EDIT, over_both.order_by("-path").first())


def _is_bound(node: QuotaNode, *, along: bool) -> bool:
    """Return whether one side of a loan, or of quota passed on from one, would move without the other.

    Without its quota moving along, a tenant is also bound by loans between nodes that move together.
    """
    tables = QuotaTables(node.cell_id)
    moved = {node.pk, *nodes_below(tables.parents, node.pk)}
    due = Override.unscoped.filter(cell=node.cell_id, state__in=(OverrideState.PLANNED, OverrideState.ACTIVE))
    pairs = [*due.values_list("lender", "borrower"), *tables.passed]
    sides = [(one in moved, other in moved) for one, other in pairs]
    return any(one != other or (one and not along) for one, other in sides)


def _below(tenant: Tenant) -> _Sums:
    """Compute the nominal of a tenant by flavor and resource; None is unlimited."""
    rows = Quota.unscoped.filter(node__tenant__path__startswith=tenant.path)
    sums: defaultdict[tuple[uuid.UUID, str], int | None] = defaultdict(int)
    for flavor_id, resource, own in rows.values_list("flavor_id", "resource", "own_nominal"):
        had = sums[flavor_id, resource]
        sums[flavor_id, resource] = None if own is None or had is None else had + own
    return sums


def _effect(flavor: str, resource: str, own: int | None, old: int | None, new: int | None) -> Effect:
    left = None if old is None or own is None else old - own
    gets = None if new is None or own is None else new + own
    numbers = {
        "flavor": flavor, "resource": resource, "moves": own,
        "old_parent": [old, left], "new_parent": [new, gets],
    }  # fmt: skip
    text = _(
        "%(flavor)s, %(resource)s: %(moves)s moves; current folder keeps %(left)s, new folder has %(gets)s."
    )
    words = {"moves": _word(own), "left": _word(left), "gets": _word(gets)}
    return Effect("QUOTA_MOVES", text % {"flavor": flavor, "resource": resource, **words}, numbers)


def _word(amount: int | None) -> str:
    return _("unlimited") if amount is None else str(amount)
