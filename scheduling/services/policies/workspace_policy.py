"""Sets and removes the policy of a tenant."""

from __future__ import annotations

from typing import Any

from django.db import transaction

from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.sql.versions import advance_version, require_current
from scheduling.models import WorkspacePolicy
from scheduling.policy.stating import PolicyStatement, check_statement
from scheduling.selectors.policies.workspace_policy import path_policies
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant
from tenants.services.tree import require_live


@transaction.atomic
def policy_set(
    *, acting_user: Actor, tenant: Tenant, statement: PolicyStatement, expected: int | None = None
) -> WorkspacePolicy:
    """Replace the policy of a tenant for jobs at and below it. Jobs that were submitted before do not change.

    `expected` is the version that was read, 0 if there was no policy.
    Raises: NotFound, PermissionDenied; Invalid with an error for each field that is invalid, or that
    contradicts this or an ancestor's policy; PreconditionFailed; Conflict when archived.
    """
    permissions.require_permission(acting_user, Permission.POLICY_EDIT, tenant)
    require_live(tenant)
    # The tenant's row is locked, so that of two concurrent first policies the second sees the other.
    Tenant.unscoped.select_for_update().get(pk=tenant.pk)
    above = [policy for policy in path_policies(tenant) if policy.tenant_id != tenant.pk]
    check_statement(statement, tenant, above)
    found = WorkspacePolicy.unscoped.filter(tenant=tenant).first()
    before = None if found is None else _described(found)
    policy = found or WorkspacePolicy(tenant=tenant)
    require_current(policy, expected)
    for name, value in statement.stored_values().items():
        setattr(policy, name, value)
    if found is None:
        policy.version = 1
        policy.save(force_insert=True)
    else:
        advance_version(policy, expected=expected)
        policy.save(update_fields=list(statement.stored_values()))
    _note(acting_user, "policy.set", policy, before, _described(policy))
    return policy


@transaction.atomic
def policy_delete(*, acting_user: Actor, tenant: Tenant, expected: int | None = None) -> None:
    """Remove the policy of a tenant; policies of its ancestors still apply.

    Raises: NotFound, also if there is no policy; PermissionDenied; PreconditionFailed.
    """
    permissions.require_permission(acting_user, Permission.POLICY_EDIT, tenant)
    policy = WorkspacePolicy.unscoped.filter(tenant=tenant).select_related("tenant").first()
    if policy is None:
        raise NotFound
    advance_version(policy, expected=expected)
    _note(acting_user, "policy.delete", policy, _described(policy), None)
    policy.delete()


def _described(policy: WorkspacePolicy) -> dict[str, Any]:
    return {name: getattr(policy, name) for name in PolicyStatement().stored_values()}


def _note(
    actor: Actor,
    action: str,
    policy: WorkspacePolicy,
    before: dict[str, Any] | None,
    after: dict[str, Any] | None,
) -> None:
    audit_log.record_action(
        actor,
        action,
        entity="policy",
        entity_id=policy.pk,
        tenant_id=policy.tenant_id,
        before=before,
        after=after,
    )
