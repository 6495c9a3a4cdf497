"""Past values of used budgets, from the recorded intervals in which jobs held GPUs."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final

from foundation.core.months import CORE_MS_PER_GPU_HOUR, month_of, starts_at, to_ms
from quotas.models import Budget
from quotas.selectors.tenants.budget import BudgetUse, budget_uses
from scheduling.metering.usage_rows import usage_rows
from tenants.models import Tenant

Past = Sequence[tuple[datetime, float | None]]
_Steps = defaultdict[tuple[str, uuid.UUID], list[int]]
FULL: Final = 100.0


def share_of(use: BudgetUse, core_ms: int) -> float:
    """Return the used percentage of a budget; a budget of 0 is used up from the start."""
    limit = use.budget.gpu_hours * CORE_MS_PER_GPU_HOUR
    return FULL * core_ms / limit if limit else FULL


def read_budget_past(tenant_path: str, times: Sequence[datetime]) -> tuple[list[Past], datetime | None]:
    """Compute the used percentage of each present budget at times, the last of which is now.

    Later use is subtracted from the present use. A time in an earlier month than now, or before the budget
    was created, has no value; the second result is the time since which values of this month are known, or
    None if all are.
    """
    now = times[-1]
    budgets = Budget.unscoped.filter(tenant__archived_at__isnull=True, tenant__path__startswith=tenant_path)
    uses = budget_uses(budgets.select_related("tenant", "flavor").order_by("pk"), now=now)
    begins = starts_at(month_of(now))
    known = [at for at in times if at >= begins]
    used = _sum_steps(tenant_path, known)
    unknown: list[tuple[datetime, float | None]] = [(at, None) for at in times[: len(times) - len(known)]]
    found: list[Past] = [[*unknown, *_list_shares(use, known, used)] for use in uses]
    return found, begins if unknown else None


def _list_shares(
    use: BudgetUse, times: Sequence[datetime], used: _Steps
) -> list[tuple[datetime, float | None]]:
    """Return the share of one budget at each time; none before the budget was created."""
    flavor, path = use.budget.flavor_id, use.budget.tenant.path
    own = [
        amounts
        for (workspace, pool), amounts in used.items()
        if workspace.startswith(path) and flavor in (None, pool)
    ]
    left = use.core_ms
    found: list[tuple[datetime, float | None]] = []
    for place in range(len(times) - 1, -1, -1):
        at = times[place]
        found.append((at, share_of(use, left) if at >= use.budget.created_at else None))
        left -= sum(amounts[place] for amounts in own)
    return found[::-1]


def _sum_steps(tenant_path: str, times: Sequence[datetime]) -> _Steps:
    """Sum the use between each time and the one before, by the path of the workspace and the pool."""
    bounds = [to_ms(at) for at in times]
    tenants = Tenant.unscoped.filter(path__startswith=tenant_path)
    paths = dict(tenants.values_list("pk", "path"))
    found: _Steps = defaultdict(lambda: [0] * len(bounds))
    workspaces = tenants if tenant_path else None
    for row in usage_rows(bounds[0], bounds[-1], now=times[-1], workspaces=workspaces):
        if (path := paths.get(row.workspace_id)) is not None:
            steps = found[path, row.flavor_id]
            for place, length in _split(row.begin_ms, row.end_ms, bounds):
                steps[place] += row.cores * length
    return found


def _split(begin_ms: int, end_ms: int, bounds: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield the part of a span that lies before each bound and after the one before it."""
    for place in range(1, len(bounds)):
        length = min(end_ms, bounds[place]) - max(begin_ms, bounds[place - 1])
        if length > 0:
            yield place, length
