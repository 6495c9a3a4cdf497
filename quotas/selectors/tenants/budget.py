"""Budgets and the GPU-hours of tenants, summed from a few rows of the ledger, never from allocations."""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import accumulate
from typing import Final

from django.db.models import Q, QuerySet, Sum
from django.utils.translation import gettext as _

from clusters.models import Flavor
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from foundation.core.months import CORE_MS_PER_GPU_HOUR, month_of, start_ms, to_ms
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from foundation.sql.prepared import read_sharing
from foundation.web.listing import Column, ColumnKind
from quotas.models import Budget, BudgetAction, GpuUse, LedgerEntry
from quotas.selectors.sight import quota_tenants
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant

_NARROW: Final = 10
"""For more tenants than this, the use of all tenants is read instead of theirs alone."""


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """A budget with its use in `month`, in percent points of a card x milliseconds."""

    budget: Budget
    month: date
    core_ms: int

    @property
    def used_hours(self) -> float:
        return round(self.core_ms / CORE_MS_PER_GPU_HOUR, 3)

    @property
    def percent(self) -> int:
        """The used percentage, rounded down, so that 100 means used up; a budget of 0 is always used up."""
        limit = self.budget.gpu_hours * CORE_MS_PER_GPU_HOUR
        return min(self.core_ms * 100 // limit, 2**31 - 1) if limit else 100

    @property
    def exhausted(self) -> bool:
        return self.percent >= 100

    @property
    def state(self) -> str:
        """`ok`, `warning` from its first threshold on, or `exhausted`."""
        if self.exhausted:
            return "exhausted"
        return "warning" if any(self.percent >= step for step in self.budget.thresholds) else "ok"


BUDGET_COLUMNS: Final = {
    "tenant": Column("budget.tenant.slug"),
    "action": Column("budget.action"),
    "state": Column("state"),
    "percent": Column("percent", ColumnKind.NUMBER),
    "gpu_hours": Column("budget.gpu_hours", ColumnKind.NUMBER),
    "used_gpu_hours": Column("used_hours", ColumnKind.NUMBER),
}
"""The columns by which a list of budgets with their use can be filtered."""


class GpuHours:
    """The use of compute in the month of `now`, by tenant path and flavor: one query."""

    @row_scope.whole()
    def __init__(self, now: datetime, below: Sequence[str] | None = None) -> None:
        """Read the use of the tenants whose paths are `below`, or of all; more may be read than asked for.
        The caller has checked that the reader may see the sums.
        """
        self.month, since = month_of(now), start_ms(month_of(now))
        rows = LedgerEntry.unscoped.filter(resource=Resource.GPU_CORES.value, month__lte=self.month)
        if below is not None and len(below) <= _NARROW:
            places = Q(pk__in=[])
            for path in below:
                places |= Q(node__tenant__path__startswith=path)
            rows = rows.filter(places)
        sums = rows.order_by().values_list("node__tenant__path", "flavor_id")
        of_month = Sum("core_ms", filter=Q(month=self.month), default=0)
        leaves: defaultdict[uuid.UUID, dict[str, int]] = defaultdict(dict)
        for path, flavor, reserved, core_ms in sums.annotate(held=Sum("reserved"), before=of_month):
            leaves[flavor][path] = int(core_ms) + int(reserved) * (to_ms(now) - since)
        self._used = {flavor: _PathSums(amounts) for flavor, amounts in leaves.items()}

    def sum_use(self, path: str, flavor_id: uuid.UUID | None = None) -> int:
        """Sum the use of a tenant and all below it, of one flavor or of all."""
        if flavor_id is not None:
            return self._used[flavor_id].sum_below(path) if flavor_id in self._used else 0
        return sum(used.sum_below(path) for used in self._used.values())

    def sum_by_flavor(self, path: str) -> Mapping[uuid.UUID, int]:
        """Return the use of a tenant and all below it, by flavor, for flavors with any use."""
        return {flavor: used.sum_below(path) for flavor, used in self._used.items() if used.has_any(path)}


class _PathSums:
    """Amounts by the path of the tenant, which can be summed for a tenant and all below it."""

    def __init__(self, amounts: Mapping[str, int]) -> None:
        self._paths = sorted(amounts)
        self._before = list(accumulate((amounts[path] for path in self._paths), initial=0))

    def sum_below(self, path: str) -> int:
        begin, end = self._find_places(path)
        return self._before[end] - self._before[begin]

    def has_any(self, path: str) -> bool:
        begin, end = self._find_places(path)
        return end > begin

    def _find_places(self, path: str) -> tuple[int, int]:
        # Paths end with "/", and "0" is the next character: paths below this one sort before that text.
        return bisect_left(self._paths, path), bisect_left(self._paths, f"{path[:-1]}0")


def budget_uses(budgets: Iterable[Budget], *, now: datetime) -> list[BudgetUse]:
    """Return budgets with their use of this month, in their order. `budget.tenant` should be selected."""
    listed = list(budgets)
    hours = GpuHours(now, sorted({budget.tenant.path for budget in listed}))
    return [
        BudgetUse(budget, hours.month, hours.sum_use(budget.tenant.path, budget.flavor_id))
        for budget in listed
    ]


def _budgets() -> QuerySet[Budget]:
    return Budget.unscoped.select_related("tenant__parent", "flavor__cluster").order_by(
        "tenant__path", "flavor__name", "pk"
    )


def budget_list(viewer: Actor, *, now: datetime) -> list[BudgetUse]:
    """Return the budgets of all tenants whose quota the viewer may see."""
    return budget_uses(read_sharing(_budgets().filter(tenant__in=quota_tenants(viewer))), now=now)


def budget_get(viewer: Actor, pk: uuid.UUID) -> Budget:
    """Return one budget. Raises: NotFound, also for a budget of a tenant out of sight; PermissionDenied."""
    budget = _budgets().filter(pk=pk).first()
    if budget is None:
        raise NotFound(_("Budget not found."))
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, budget.tenant)
    return budget


def budgets_above(workspace: Tenant) -> list[Budget]:
    """Return the budgets that a workspace counts against: its own and those of every folder above it."""
    return list(_budgets().filter(tenant__in=[uuid.UUID(pk) for pk in workspace.ancestor_ids()]))


def workspace_budgets(viewer: Actor, workspace: Tenant, *, now: datetime) -> list[BudgetUse]:
    """Return the budgets that count for a workspace, the topmost folder's first.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, workspace)
    return budget_uses(budgets_above(workspace), now=now)


@dataclass(frozen=True, slots=True)
class MonthUse:
    """GPU-hours of one flavor in one month."""

    month: date
    flavor: Flavor
    core_ms: int

    @property
    def gpu_hours(self) -> float:
        return round(self.core_ms / CORE_MS_PER_GPU_HOUR, 3)


def gpu_hours_by_month(viewer: Actor, tenant: Tenant, *, now: datetime) -> list[MonthUse]:
    """Return the use of a tenant and all below it, the present month first, then those that are over.

    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, tenant)
    sums: defaultdict[tuple[date, uuid.UUID], int] = defaultdict(int)
    hours = GpuHours(now, [tenant.path])
    for flavor, amount in hours.sum_by_flavor(tenant.path).items():
        sums[hours.month, flavor] += amount
    closed = GpuUse.unscoped.filter(node__tenant__path__startswith=tenant.path)
    for month, flavor, amount in closed.values_list("month", "flavor_id", "core_ms"):
        sums[month, flavor] += amount
    flavors = Flavor.unscoped.select_related("cluster").in_bulk({flavor for __, flavor in sums})
    found = [MonthUse(month, flavors[flavor], amount) for (month, flavor), amount in sums.items()]
    found.sort(key=lambda use: (use.flavor.name, str(use.flavor.pk)))
    return sorted(found, key=lambda use: use.month, reverse=True)


def find_blocking_budgets(budgets: Iterable[BudgetUse]) -> list[BudgetUse]:
    """Return the budgets that are used up and keep jobs from starting."""
    return [use for use in budgets if use.exhausted and use.budget.action != BudgetAction.WARN]
