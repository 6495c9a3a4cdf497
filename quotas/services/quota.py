"""Setting quotas, one node at a time."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor
from foundation import audit, outbox
from foundation.actor import Actor
from foundation.errors import Invalid
from foundation.quantities import Resource
from quotas.models import Quota, QuotaNode
from tenants import permissions
from tenants.models import Tenant
from tenants.permissions import Permission


@dataclass(frozen=True, slots=True)
class QuotaAmount:
    """Limits of one flavor and resource. None is unlimited; zero is nothing."""

    flavor: Flavor
    resource: Resource
    nominal: int | None
    borrowing_limit: int | None = None
    lending_limit: int | None = None


def quota_changed(cell_id: uuid.UUID) -> None:
    """Note that limits of a cell have changed, and ask for a cycle."""
    Cell.unscoped.filter(pk=cell_id).update(quota_version=F("quota_version") + 1)
    outbox.hint(outbox.Topic.CYCLE, cell_id)


@transaction.atomic
def quota_node_ensure(*, acting_user: Actor, cell: Cell, tenant: Tenant, weight: int = 1000) -> QuotaNode:
    """Return the tenant's node in the cell's tree, made below its parent's node if it is new.

    Raises: PermissionDenied.
    """
    permissions.require(acting_user, Permission.QUOTA_EDIT, tenant)
    node = QuotaNode.unscoped.filter(cell=cell, tenant=tenant, is_queue=False).first()
    if node is not None:
        return node
    parent = None
    if tenant.parent is not None:
        parent = quota_node_ensure(acting_user=acting_user, cell=cell, tenant=tenant.parent)
    node = QuotaNode.unscoped.create(cell=cell, tenant=tenant, parent=parent, weight=weight)
    audit.record(
        acting_user, "quota-node.create", entity="quota-node", entity_id=node.pk, tenant_id=tenant.pk
    )
    quota_changed(cell.pk)
    return node


@transaction.atomic
def quota_set(*, acting_user: Actor, node: QuotaNode, amounts: Iterable[QuotaAmount]) -> None:
    """Set limits of one node; amounts that are not named stay as they are.

    A limit may go below what is in use: nothing new is admitted then. What a tenant has is decided
    above it: the right is needed on its parent, so that nobody raises their own quota.
    Raises: PermissionDenied; Invalid for a negative amount or a flavor of another cell.
    """
    permissions.require(acting_user, Permission.QUOTA_EDIT, node.tenant.parent)
    Cell.unscoped.select_for_update().get(pk=node.cell_id)
    for amount in amounts:
        _check(node, amount)
        values = {
            "nominal": amount.nominal,
            "borrowing_limit": amount.borrowing_limit,
            "lending_limit": amount.lending_limit,
        }
        key: dict[str, Any] = {"node": node, "flavor": amount.flavor, "resource": amount.resource.value}
        before = Quota.unscoped.filter(**key).values(*values).first()
        if before == values:
            continue
        Quota.unscoped.update_or_create(**key, defaults=values)
        audit.record(
            acting_user,
            "quota.set",
            entity="quota-node",
            entity_id=node.pk,
            tenant_id=node.tenant_id,
            before=before,
            after={"flavor": amount.flavor.name, "resource": amount.resource.value, **values},
        )
    quota_changed(node.cell_id)


def _check(node: QuotaNode, amount: QuotaAmount) -> None:
    if amount.flavor.cluster.cell_id != node.cell_id:
        raise Invalid(_("The flavor %(flavor)s belongs to another cell.") % {"flavor": amount.flavor})
    limits = (amount.nominal, amount.borrowing_limit, amount.lending_limit)
    if any(limit is not None and limit < 0 for limit in limits):
        raise Invalid(_("A quota is not negative; write 0 for nothing and leave it empty for unlimited."))
