"""Budgets of GPU-hours: they are set above the tenant, and thresholds are notified."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import transaction
from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor
from foundation.audit import audit_log
from foundation.core.actor import SYSTEM, Actor
from foundation.core.errors import Conflict, FieldError, Invalid, PermissionDenied
from foundation.messaging import outbox
from foundation.sql.versions import advance_version
from quotas.models import Budget, BudgetAction
from quotas.models.budget import THRESHOLDS
from quotas.selectors.tenants.budget import BudgetUse, budget_uses
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

HOURS_MAX: Final = 10**9
STEPS_MAX: Final = 5
_FULL: Final = 100


@transaction.atomic
def budget_create(
    *,
    acting_user: Actor,
    tenant: Tenant,
    flavor: Flavor | None,
    gpu_hours: int,
    action: BudgetAction = BudgetAction.WARN,
    thresholds: Sequence[int] = THRESHOLDS,
) -> Budget:
    """Create a budget of GPU-hours per calendar month for a tenant, of one flavor or of all together.

    Earlier use in the month counts. Raises: NotFound; PermissionDenied for a user without the permission
    above the tenant; Invalid; Conflict if the tenant has such a budget.
    """
    _require(acting_user, tenant)
    _check(gpu_hours, thresholds)
    if Budget.unscoped.filter(tenant=tenant, flavor=flavor).exists():
        message = _("A budget already exists. Edit it instead.")
        errors = [FieldError("flavor", "EXISTS", message)]
        raise Conflict(message, code="BUDGET_EXISTS", errors=errors)
    budget = Budget.unscoped.create(
        tenant=tenant, flavor=flavor, gpu_hours=gpu_hours, action=action, thresholds=sorted(thresholds)
    )
    _done(acting_user, "budget.create", budget, before={}, after=_budget_facts(budget))
    return budget


@transaction.atomic
def budget_change(
    *, acting_user: Actor, budget: Budget, changes: Mapping[str, Any], version: int | None = None
) -> Budget:
    """Set `gpu_hours`, `action` or `thresholds`; thresholds that are already crossed are notified again.

    Raises: NotFound, PermissionDenied; Invalid; PreconditionFailed for another version.
    """
    _require(acting_user, budget.tenant)
    advance_version(budget, expected=version)
    before = _budget_facts(budget)
    for name, value in changes.items():
        setattr(budget, name, sorted(value) if name == "thresholds" else value)
    _check(budget.gpu_hours, budget.thresholds)
    budget.notified_percent = 0
    budget.save(update_fields=["gpu_hours", "action", "thresholds", "notified_percent"])
    _done(acting_user, "budget.change", budget, before=before, after=_budget_facts(budget))
    return budget


@transaction.atomic
def budget_delete(*, acting_user: Actor, budget: Budget, version: int | None = None) -> None:
    """Delete a budget; the recorded use stays.

    Raises: NotFound, PermissionDenied; PreconditionFailed for another version.
    """
    _require(acting_user, budget.tenant)
    advance_version(budget, expected=version)
    _done(acting_user, "budget.delete", budget, before=_budget_facts(budget), after={})
    budget.delete()


def budgets_watch(*, now: datetime) -> int:
    """Notify of each threshold and of 100 %, once in a month; return the number of notifications."""
    budgets = list(Budget.unscoped.select_related("tenant", "flavor").order_by("pk"))
    return sum(_watch(use) for use in budget_uses(budgets, now=now))


@transaction.atomic
def _watch(use: BudgetUse) -> int:
    """Record the newly crossed thresholds and notify of them. Of two concurrent calls only one updates the
    row.
    """
    budget = use.budget
    before = budget.notified_percent if budget.notified_month == use.month else 0
    crossed = [step for step in (*budget.thresholds, _FULL) if before < step <= use.percent]
    news = {"notified_month": use.month, "notified_percent": max(crossed, default=before)}
    if (budget.notified_month, budget.notified_percent) == (use.month, news["notified_percent"]):
        return 0
    rows = Budget.unscoped.filter(pk=budget.pk, version=budget.version, notified_month=budget.notified_month)
    if not rows.filter(notified_percent=budget.notified_percent).update(**news):
        return 0
    for step in crossed:
        after = {
            **_budget_facts(budget),
            "percent": step,
            "month": f"{use.month:%Y-%m}",
            "used_gpu_hours": use.used_hours,
        }
        audit_log.record_action(
            SYSTEM,
            "budget.exhausted" if step == _FULL else "budget.threshold",
            entity="budget",
            entity_id=budget.pk,
            tenant_id=budget.tenant_id,
            after=after,
        )
    _hint()
    return len(crossed)


def _require(acting_user: Actor, tenant: Tenant) -> None:
    """Check the permission above the tenant, so that no tenant admin raises the tenant's own budget.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(acting_user, Permission.QUOTA_VIEW, tenant)
    if not permissions.has_permission(acting_user, Permission.QUOTA_EDIT, tenant.parent):
        message = _("Limits of %(tenant)s are managed by a parent admin.")
        raise PermissionDenied(message % {"tenant": tenant})


def _check(gpu_hours: int, thresholds: Sequence[int]) -> None:
    if not 0 <= gpu_hours <= HOURS_MAX:
        message = _("GPU-hours must be a whole number from 0 to 1,000,000,000.")
        raise Invalid(message, errors=[FieldError("gpu_hours", "RANGE", message)])
    steps = list(thresholds)
    if len(set(steps)) < len(steps) or len(steps) > STEPS_MAX or any(not 0 < s < _FULL for s in steps):
        message = _("Thresholds must be up to five different percentages from 1 to 99.")
        raise Invalid(message, errors=[FieldError("thresholds", "RANGE", message)])


def _budget_facts(budget: Budget) -> dict[str, Any]:
    return {
        "tenant": budget.tenant.slug,
        "flavor": budget.flavor.name if budget.flavor else "",
        "gpu_hours": budget.gpu_hours,
        "action": str(budget.action),
        "thresholds": budget.thresholds,
    }


def _done(
    acting_user: Actor, action: str, budget: Budget, *, before: dict[str, Any], after: dict[str, Any]
) -> None:
    audit_log.record_action(
        acting_user,
        action,
        entity="budget",
        entity_id=budget.pk,
        tenant_id=budget.tenant_id,
        before=before,
        after=after,
    )
    _hint()


def _hint() -> None:
    """Request a cycle: jobs that a budget blocked may start, or running out may block others."""
    for cell_id in Cell.unscoped.order_by("pk").values_list("pk", flat=True):
        outbox.add_hint(outbox.Topic.CYCLE, cell_id)
