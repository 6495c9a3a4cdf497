"""The list of budgets: its columns, its lines, and actions on several of them."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core import clock
from foundation.web.listing import Column
from frontend.lists.batch import BatchAct, BatchItem
from frontend.lists.common_acts import build_delete_act
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.pages.requests import labels
from frontend.texts import formats
from quotas.models import Budget, BudgetAction
from quotas.selectors.tenants.budget import BUDGET_COLUMNS, BudgetUse, budget_get, budget_list
from quotas.services.budget import budget_change, budget_delete
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import TenantKind, User

_TONES: Final = {"ok": "running", "warning": "waiting", "exhausted": "failed"}
_STATES: Final = {
    "ok": gettext_lazy("OK"),
    "warning": gettext_lazy("Near limit"),
    "exhausted": gettext_lazy("Exhausted"),
}


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """One budget as text; `fixed` for a viewer who may not change it."""

    use: BudgetUse
    name: str
    pool: str
    action: str
    state: str
    tone: str
    numbers: str
    steps: str
    fixed: bool = True

    @property
    def id(self) -> uuid.UUID:
        return self.use.budget.pk

    @property
    def title(self) -> str:
        return f"{self.name}{_(': ')}{self.pool}"


def budget_row(use: BudgetUse, *, fixed: bool = True) -> BudgetRow:
    """Return the table row of a budget."""
    budget = use.budget
    return BudgetRow(
        use=use,
        name=budget.tenant.name,
        pool=budget.flavor.name if budget.flavor else _("All pools"),
        action=str(labels.ACTIONS[budget.action]),
        state=str(_STATES[use.state]),
        tone=_TONES[use.state],
        numbers=_("GPU-hours, %(percent)s") % {"percent": formats.format_percent(use.percent)},
        steps=", ".join(formats.format_percent(step) for step in budget.thresholds) or formats.MISSING,
        fixed=fixed,
    )


BUDGETS: Final = ListDeclaration(
    key="budgets",
    title=gettext_lazy("Budgets"),
    columns=(
        ListColumn(key="tenant", label=gettext_lazy("Tenant"), sort="name", text=lambda row: row.name),
        ListColumn(key="pool", label=gettext_lazy("Pool"), text=lambda row: row.pool),
        ListColumn(
            key="used",
            label=gettext_lazy("Used"),
            sort="percent",
            text=lambda row: row.use.used_hours,
        ),
        ListColumn(
            key="limit",
            label=gettext_lazy("GPU-hours per month"),
            sort="gpu_hours",
            number=True,
            shown=False,
            text=lambda row: row.use.budget.gpu_hours,
        ),
        ListColumn(key="state", label=gettext_lazy("State"), text=lambda row: row.state),
        ListColumn(key="action", label=gettext_lazy("When exhausted"), text=lambda row: row.action),
        ListColumn(key="thresholds", label=gettext_lazy("Alert thresholds"), text=lambda row: row.steps),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Tenant")),
        "state": FilterField(label=gettext_lazy("State"), choices=list(_STATES.items())),
        "action": FilterField(label=gettext_lazy("When exhausted"), choices=list(labels.ACTIONS.items())),
        "percent": FilterField(label=gettext_lazy("Used (%)")),
        "gpu_hours": FilterField(label=gettext_lazy("GPU-hours per month")),
    },
    fields={**BUDGET_COLUMNS, "name": Column("budget.tenant.name")},
    every_s=30,
)


def list_rows(who: User, uses: Sequence[BudgetUse]) -> list[BudgetRow]:
    """Return the lines of some budgets."""
    return [budget_row(use, fixed=not may_change(who, use.budget)) for use in uses]


def may_change(who: User, budget: Budget) -> bool:
    """Return whether the viewer may change a budget, by assigning quota above its tenant."""
    return permissions.has_permission(who, Permission.QUOTA_EDIT, budget.tenant.parent)


def batch_acts(who: User) -> list[BatchAct]:
    """Return the actions of a viewer who assigns quota in a folder; each budget is checked again."""
    folders = permissions.tenants_with(who, Permission.QUOTA_EDIT).filter(kind=TenantKind.FOLDER)
    if not folders.exists():
        return []

    def set_action(budget: Budget, choice: str) -> None:
        changes = {"action": BudgetAction(choice)}
        budget_change(acting_user=who, budget=budget, changes=changes, version=budget.version)

    return [
        BatchAct(
            key="action",
            label=_("Change action"),
            title=_("Change the action of budgets"),
            act=set_action,
            choice_label=_("When exhausted"),
            choices=list(labels.ACTIONS.items()),
            icon="gauge",
            fits=lambda _row: False,
        ),
        build_delete_act(
            _("Delete budgets"),
            lambda budget: budget_delete(acting_user=who, budget=budget, version=budget.version),
            _("Metered usage is kept. Blocked jobs can start."),
        ),
    ]


def find_budgets(who: User, ids: Collection[uuid.UUID]) -> list[BatchItem]:
    """Return the budgets as the question shows them.

    Raises: NotFound, PermissionDenied for a budget that the viewer may not see.
    """
    rows = {use.budget.pk: budget_row(use) for use in budget_list(who, now=clock.now())}
    for hidden in set(ids) - rows.keys():
        budget_get(who, hidden)
    chosen = [rows[pk] for pk in ids if pk in rows]
    return [
        BatchItem(
            id=row.id,
            name=row.title,
            row=row.use.budget,
            state=row.state,
            version=row.use.budget.version,
        )
        for row in chosen
    ]
