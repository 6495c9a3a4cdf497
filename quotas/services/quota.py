"""Changing quotas: one save is one transaction under the cell's lock, and one revision of the history."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from enum import StrEnum
from typing import Any

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor
from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import FieldError, PermissionDenied
from foundation.core.quantities import Resource
from foundation.core.sentences import join_sentences
from foundation.messaging import outbox
from foundation.sql import row_scope
from foundation.sql.versions import advance_version, require_current
from quotas.distribution.division import Keep
from quotas.hooks import job_effects
from quotas.hooks.job_effects import OverQuota
from quotas.models import PassedQuota, Quota, QuotaChange, QuotaChangeSource, QuotaNode, QuotaRevision
from quotas.selectors.tables.node_names import node_names
from quotas.services.errors import BelowUse
from quotas.services.quota_plan import (
    NodeAmounts,
    PlannedQuota,
    QuotaAmount,
    QuotaLimits,
    QuotaPlan,
    quota_plan,
)
from quotas.texts.amounts import format_amount
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

__all__ = [
    "Keep",
    "NodeAmounts",
    "QuotaAmount",
    "Shrink",
    "quota_change",
    "quota_changed",
    "quota_check",
    "quota_node_ensure",
    "quota_set",
]


class Shrink(StrEnum):
    """The choice for jobs above a lowered quota: they are evicted now, or once other jobs need the quota."""

    DRAIN = "drain"
    LET_RUN = "let_run"


def quota_changed(cell_id: uuid.UUID) -> None:
    """Record that limits of a cell have changed, and request a cycle."""
    Cell.unscoped.filter(pk=cell_id).update(quota_version=F("quota_version") + 1)
    outbox.add_hint(outbox.Topic.CYCLE, cell_id)


@transaction.atomic
def quota_node_ensure(*, acting_user: Actor, cell: Cell, tenant: Tenant, weight: int = 1000) -> QuotaNode:
    """Return the tenant's node in the cell's tree; a missing node is created below the parent's node.

    Raises: PermissionDenied.
    """
    permissions.require_permission(acting_user, Permission.QUOTA_EDIT, tenant)
    node = QuotaNode.unscoped.filter(cell=cell, tenant=tenant, is_queue=False).first()
    if node is not None:
        return node
    parent = None
    if tenant.parent is not None:
        parent = quota_node_ensure(acting_user=acting_user, cell=cell, tenant=tenant.parent)
    node = QuotaNode.unscoped.create(cell=cell, tenant=tenant, parent=parent, weight=weight)
    audit_log.record_action(
        acting_user, "quota-node.create", entity="quota-node", entity_id=node.pk, tenant_id=tenant.pk
    )
    quota_changed(cell.pk)
    return node


def quota_check(
    *, acting_user: Actor, cell_id: uuid.UUID, changes: Sequence[NodeAmounts], on_top: bool = False
) -> QuotaPlan:
    """Check everything that `quota_change` checks, except the choice for running jobs; writes nothing.

    Raises: PermissionDenied, NotFound; PreconditionFailed for another version; as `quota_plan`.
    """
    for change in changes:
        _require(acting_user, change, on_top=on_top)
    plan = quota_plan(cell_id, changes, on_top=on_top)
    versions = dict(QuotaNode.unscoped.filter(cell_id=cell_id).values_list("pk", "version"))
    for change in changes:
        change.node.version = versions[change.node.pk]
        require_current(change.node, change.version)
    return plan


@transaction.atomic
def quota_change(
    *,
    acting_user: Actor,
    cell_id: uuid.UUID,
    changes: Sequence[NodeAmounts],
    reason: str = "",
    shrink: Shrink | None = None,
    on_top: bool = False,
    source: QuotaChangeSource = QuotaChangeSource.EDIT,
    reverts: QuotaRevision | None = None,
) -> QuotaRevision | None:
    """Set limits of some nodes of a cell, all or none; other limits stay unchanged.

    What a node gains is taken from its parent, and what it loses returns to the parent: an admin divides no
    more than the tenant has. `on_top` creates quota instead, which only the platform's admins may. Returns
    the revision, None when nothing changes. Raises: as `quota_check`; BelowUse when less than is in use
    remains and `shrink` is None.
    """
    Cell.unscoped.select_for_update().get(pk=cell_id)
    plan = quota_check(acting_user=acting_user, cell_id=cell_id, changes=changes, on_top=on_top)
    if plan.over_quota and shrink is None:
        raise _below_use(plan)
    said = [change.node.pk for change in changes if change.node.is_queue and _names_limits(change)]
    if said:
        QuotaNode.unscoped.filter(pk__in=said, limits_decided=False).update(limits_decided=True)
    if not plan.changes:
        return None
    expected = {change.node.pk: change.version for change in changes}
    revision = write_plan(
        acting_user, plan, reason=reason, source=source, expected=expected, on_top=on_top, reverts=reverts
    )
    if shrink is Shrink.DRAIN:
        job_effects.get_provider().drain_over_quota(acting_user, plan.over_quota)
    return revision


def write_plan(
    acting_user: Actor,
    plan: QuotaPlan,
    *,
    reason: str,
    source: QuotaChangeSource,
    expected: Mapping[uuid.UUID, int | None] | None = None,
    on_top: bool = False,
    reverts: QuotaRevision | None = None,
) -> QuotaRevision:
    """Store a plan with its revision, audit and hint; the caller has checked it under the cell's lock."""
    revision = QuotaRevision.unscoped.create(
        cell_id=plan.cell_id,
        actor_id=acting_user.pk,
        actor_name=acting_user.get_username(),
        reason=reason,
        source=source,
        on_top=on_top,
        reverts=reverts,
    )
    _write(plan, revision, expected or {})
    write_passed(plan)
    _record(acting_user, plan, revision)
    quota_changed(plan.cell_id)
    return revision


def quota_set(
    *,
    acting_user: Actor,
    node: QuotaNode,
    amounts: Iterable[QuotaAmount],
    version: int | None = None,
    reason: str = "",
    shrink: Shrink | None = None,
    on_top: bool = False,
) -> QuotaRevision | None:
    """`quota_change` of one node."""
    return quota_change(
        acting_user=acting_user,
        cell_id=node.cell_id,
        changes=[NodeAmounts(node, list(amounts), version)],
        reason=reason,
        shrink=shrink,
        on_top=on_top,
    )


def _require(acting_user: Actor, change: NodeAmounts, *, on_top: bool) -> None:
    permissions.require_permission(acting_user, Permission.QUOTA_VIEW, change.node.tenant)
    if on_top:
        permissions.require_permission(acting_user, Permission.QUOTA_EDIT)
        return
    require_decider(acting_user, change.node, limits=_names_limits(change))


def _names_limits(change: NodeAmounts) -> bool:
    return any(
        not isinstance(limit, Keep) for a in change.amounts for limit in (a.borrowing_limit, a.lending_limit)
    )


def find_decider(node: QuotaNode, *, limits: bool) -> Tenant | None:
    """Return the tenant whose admins decide about a node; None is the platform.

    A node's nominal is decided above the node, so that no admin raises the own tenant's quota. The admins of
    a workspace divide its quota among its queues. With `limits` (of borrowing and lending) a queue, too, is
    decided about above the workspace.
    """
    return node.tenant if node.is_queue and not limits else node.tenant.parent


def require_decider(acting_user: Actor, node: QuotaNode, *, limits: bool) -> None:
    """Check that a user decides about a node. Raises: PermissionDenied."""
    decider = find_decider(node, limits=limits)
    if not permissions.has_permission(acting_user, Permission.QUOTA_EDIT, decider):
        # Tenants that the user cannot see are not named: there may be others on the path between two nodes.
        places = (node.tenant, decider)
        if not all(
            permissions.has_permission(acting_user, Permission.TENANT_VIEW, place)
            for place in places
            if place
        ):
            raise PermissionDenied(_("This quota is managed by a parent admin."))
        message = _("Quota of %(tenant)s is managed by admins of %(above)s.")
        names = {"tenant": node.tenant, "above": decider or _("the platform")}
        raise PermissionDenied(message % names)


def _write(plan: QuotaPlan, revision: QuotaRevision, expected: Mapping[uuid.UUID, int | None]) -> None:
    # The nominal of a node can change through a change of its child, without a row of its own.
    changed = {key.node_id for key in plan.rows} | {change.node.pk for change in plan.changes}
    for node in QuotaNode.unscoped.filter(pk__in=changed).order_by("pk"):
        advance_version(node, expected=expected.get(node.pk))
    for key, limits in plan.rows.items():
        Quota.unscoped.update_or_create(**key._asdict(), defaults=asdict(limits))
    QuotaChange.unscoped.bulk_create(_change_row(revision, change) for change in plan.changes)


@row_scope.whole()
def write_passed(plan: QuotaPlan) -> None:
    """Store what is passed on. Row policies are off: it may involve tenants that the user cannot see."""
    for (flavor_id, resource), wanted in plan.passed.items():
        rows = PassedQuota.unscoped.filter(
            source__cell_id=plan.cell_id, flavor=flavor_id, resource=resource.value
        )
        had = {(row.source_id, row.target_id): row for row in rows}
        removed = [row.pk for pair, row in had.items() if pair not in wanted]
        if removed:
            PassedQuota.unscoped.filter(pk__in=removed).delete()
        for (source, target), amount in wanted.items():
            row = had.get((source, target))
            if row is None:
                PassedQuota.unscoped.create(
                    source_id=source,
                    target_id=target,
                    flavor_id=flavor_id,
                    resource=resource.value,
                    amount=amount,
                )
            elif row.amount != amount:
                PassedQuota.unscoped.filter(pk=row.pk).update(amount=amount)


def _change_row(revision: QuotaRevision, change: PlannedQuota) -> QuotaChange:
    return QuotaChange(
        revision=revision,
        node=change.node,
        flavor=change.flavor,
        resource=change.resource.value,
        nominal_before=change.before.nominal,
        nominal_after=change.after.nominal,
        borrowing_before=change.before.borrowing_limit,
        borrowing_after=change.after.borrowing_limit,
        lending_before=change.before.lending_limit,
        lending_after=change.after.lending_limit,
    )


def _values(limits: QuotaLimits) -> dict[str, int | None]:
    return {
        "nominal": limits.nominal,
        "borrowing_limit": limits.borrowing_limit,
        "lending_limit": limits.lending_limit,
    }


def _record(acting_user: Actor, plan: QuotaPlan, revision: QuotaRevision) -> None:
    """One audit record per node, its limits by flavor and resource."""
    by_node: dict[uuid.UUID, list[PlannedQuota]] = {}
    for change in plan.changes:
        by_node.setdefault(change.node.pk, []).append(change)
    for node_id, changed in by_node.items():
        values: dict[str, Any] = {_limit_name(change): _values(change.after) for change in changed}
        audit_log.record_action(
            acting_user,
            "quota.set",
            entity="quota-node",
            entity_id=node_id,
            tenant_id=changed[0].node.tenant_id,
            before={_limit_name(change): _values(change.before) for change in changed},
            after=values | {"revision": str(revision.pk), "reason": revision.reason},
        )


def _limit_name(change: PlannedQuota) -> str:
    return f"{change.flavor.name} {change.resource.value}"


def _below_use(plan: QuotaPlan) -> BelowUse:
    names = node_names({over.key.node_id for over in plan.over_quota})
    flavors = {change.flavor.pk: change.flavor for change in plan.changes}
    errors = [
        FieldError("shrink", BelowUse.code, _over_quota_sentence(over, names, flavors))
        for over in plan.over_quota
    ]
    choice = _("Set shrink: drain (preempt now) or let_run (reclaim on demand).")
    first = plan.over_quota[0]
    numbers = {"reserved": first.reserved, "limit": first.limit, "resource": first.key.resource.value}
    said = join_sentences([errors[0].message, choice])
    return BelowUse(said, numbers=numbers, errors=errors)


def _over_quota_sentence(
    over: OverQuota, names: Mapping[uuid.UUID, str], flavors: Mapping[uuid.UUID, Flavor]
) -> str:
    return _("%(node)s uses %(used)s of %(flavor)s; the new quota is %(limit)s.") % {
        "node": names[over.key.node_id],
        "used": format_amount(Resource(over.key.resource), over.reserved),
        "flavor": flavors[over.key.flavor_id].name,
        "limit": format_amount(Resource(over.key.resource), over.limit),
    }
