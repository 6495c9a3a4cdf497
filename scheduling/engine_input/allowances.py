"""Limits of users and budgets of tenants, which the engine gets as fields of each job.

Both are read for the snapshot, and again by the commit under the cell's lock: otherwise jobs of one user that
are admitted from different snapshots could exceed a limit together.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from django.db.models import QuerySet

from clusters.models import Flavor
from foundation.core.months import CORE_MS_PER_GPU_HOUR
from foundation.sql import row_scope
from foundation.sql.prepared import PreparedQuery
from quotas.models import Budget, BudgetAction, UserLimit
from quotas.selectors.tenants.budget import BudgetUse, budget_uses, find_blocking_budgets
from scheduling.engine import model as em
from scheduling.models import Allocation
from tenants.models import Tenant

Who = tuple[uuid.UUID, uuid.UUID]
"""(workspace, user)."""


def _limits(workspaces: uuid.UUID) -> QuerySet[UserLimit]:
    return UserLimit.unscoped.filter(workspace__pk__any_of=workspaces).order_by("pk")


def _budgets(tenants: uuid.UUID) -> QuerySet[Budget]:
    acting = Budget.unscoped.filter(tenant__pk__any_of=tenants).exclude(action=BudgetAction.WARN)
    return acting.select_related("tenant").order_by("tenant__path", "pk")


_LIMITS: Final = PreparedQuery(_limits)
_LIMITS_LOCKED: Final = PreparedQuery(lambda workspaces: _limits(workspaces).select_for_update(of=("self",)))
_BUDGETS: Final = PreparedQuery(_budgets)


class AllowanceReader:
    """The limits for the jobs of some workspaces at one moment; two queries if no limit exists."""

    @row_scope.whole()
    def __init__(self, workspaces: Iterable[Tenant], *, now: datetime, locked: bool = False) -> None:
        """Read the limits; `locked` locks the rows of user limits until the transaction ends."""
        self._places = {workspace.pk: workspace for workspace in workspaces}
        limits = (_LIMITS_LOCKED if locked else _LIMITS).for_any(list(self._places))
        self._limits: defaultdict[uuid.UUID, list[UserLimit]] = defaultdict(list)
        for limit in limits:
            self._limits[limit.workspace_id].append(limit)
        self._held = _held(self._limits)
        self._spent = self._exhausted(now)
        self._caps: dict[Who, tuple[em.Allowance, ...]] = {}

    def of_user(self, workspace_id: uuid.UUID, user_id: uuid.UUID) -> tuple[em.Allowance, ...]:
        """Return the limits of one user: for each resource the user's own, else that of all users."""
        who = workspace_id, user_id
        if workspace_id not in self._limits:
            return ()
        if who not in self._caps:
            self._caps[who] = self._caps_of(who)
        return self._caps[who]

    @property
    def any(self) -> bool:
        """Return whether any user limit or used-up budget exists."""
        return bool(self._limits or self._spent)

    def apply_limits(self, job: em.Job, *, workspace_id: uuid.UUID, user_id: uuid.UUID) -> em.Job:
        """Return the job with its limits. With a used-up budget it isn't movable: it couldn't start again."""
        caps = self.of_user(workspace_id, user_id)
        gpus = any(role.request.gpu for role in job.roles)
        barred = self.barred_flavors(workspace_id, preemptible=job.preemptible) if gpus else ()
        if not caps and not barred:
            return job
        return replace(job, allowances=caps, barred=barred, movable=job.movable and not barred)

    def barred_flavors(self, workspace_id: uuid.UUID, *, preemptible: bool) -> tuple[em.BarredFlavor, ...]:
        """Return the flavors in which a job of the workspace may take no GPUs because a budget is used up.

        A budget without a flavor bars all flavors, and is reported in preference to those of one flavor.
        """
        found: dict[str, em.BarredFlavor] = {}
        for use, flavors in self._spent.get(workspace_id, ()):
            only = use.budget.action == BudgetAction.PREEMPTIBLE_ONLY
            if not (only and preemptible):
                for flavor in flavors:
                    found.setdefault(flavor, _barred(use, flavor, only=only))
        return tuple(found[flavor] for flavor in sorted(found))

    def _caps_of(self, who: Who) -> tuple[em.Allowance, ...]:
        chosen: dict[str, UserLimit] = {}
        for limit in self._limits[who[0]]:
            if limit.user_id == who[1] or (limit.user_id is None and limit.resource not in chosen):
                chosen[limit.resource] = limit
        held, name = self._held.get(who, Counter[str]()), f"{who[0]}/{who[1]}"
        return tuple(
            em.Allowance(name, resource, limit.amount, held[resource])
            for resource, limit in sorted(chosen.items())
            if limit.amount is not None
        )

    def _exhausted(self, now: datetime) -> Mapping[uuid.UUID, Sequence[tuple[BudgetUse, list[str]]]]:
        above = {pk: set(map(uuid.UUID, place.ancestor_ids())) for pk, place in self._places.items()}
        named: set[uuid.UUID] = set().union(*above.values())
        budgets = _BUDGETS.for_any(list(named))
        if not budgets:
            return {}
        spent = find_blocking_budgets(budget_uses(budgets, now=now))
        spent.sort(key=lambda use: (use.budget.flavor_id is not None, use.budget.tenant.path))
        every = list(map(str, Flavor.unscoped.exclude(card_model="").values_list("pk", flat=True)))
        found: defaultdict[uuid.UUID, list[tuple[BudgetUse, list[str]]]] = defaultdict(list)
        for pk, names in above.items():
            for use in spent:
                if use.budget.tenant_id in names:
                    flavor = use.budget.flavor_id
                    found[pk].append((use, [str(flavor)] if flavor else every))
        return found


def _held(limits: Mapping[uuid.UUID, Sequence[UserLimit]]) -> dict[Who, Counter[str]]:
    """Return the amounts that are charged to each user of the workspaces with limits, in all cells."""
    held: defaultdict[Who, Counter[str]] = defaultdict(Counter)
    if limits:
        rows = Allocation.unscoped.filter(released_at__isnull=True, attempt__job__workspace__in=list(limits))
        for place, user, charge in rows.values_list(
            "attempt__job__workspace_id", "attempt__job__submitted_by_id", "charge"
        ):
            held[place, user].update(charge)
    return dict(held)


def _barred(use: BudgetUse, flavor: str, *, only: bool) -> em.BarredFlavor:
    hours = use.core_ms // CORE_MS_PER_GPU_HOUR
    return em.BarredFlavor(flavor, use.budget.tenant.name, hours, use.budget.gpu_hours, preemptible_only=only)
