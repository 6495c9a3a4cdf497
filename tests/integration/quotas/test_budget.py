"""Budgets and limits of users: the rights to set them, and the messages about them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from foundation.core.errors import AllotmentError, Conflict, Invalid, PermissionDenied, PreconditionFailed
from foundation.core.quantities import Resource
from foundation.models import AuditRecord, Hint
from quotas.models import Budget, BudgetAction, QuotaKey, UserLimit
from quotas.selectors.tenants.budget import budget_list, gpu_hours_by_month, workspace_budgets
from quotas.services.budget import budget_change, budget_create, budget_delete, budgets_watch
from quotas.services.ledger import ledger_reserve
from quotas.services.user_limit import user_limit_change, user_limit_create, user_limit_delete
from tests.builders import tenancy
from tests.integration.quotas.department import Department

pytestmark = pytest.mark.django_db
T0 = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def here(db: None) -> Department:
    return Department()


def budget(here: Department, hours: int = 100, **more: Any) -> Budget:
    who = more.pop("by", here.anna)
    values: dict[str, Any] = {"tenant": here.a, "flavor": None, "action": BudgetAction.HOLD} | more
    return budget_create(acting_user=who, gpu_hours=hours, **values)


def hold(here: Department, gpus: int, at: datetime) -> None:
    ledger_reserve({QuotaKey(here.queue_a.node_id, here.flavor.pk, "gpu.cores"): gpus * 100}, now=at)


def reported_steps() -> list[tuple[str, int]]:
    rows = AuditRecord.unscoped.filter(entity="budget", actor_name="allotment").order_by("pk")
    return [(row.action, row.after["percent"]) for row in rows]


def test_each_threshold_is_reported_once_in_a_month(here: Department) -> None:
    budget(here, thresholds=[50, 80])
    hold(here, 1, T0)
    for hours in (10, 49, 51, 60, 90, 99, 101, 300):
        with time_machine.travel(T0 + timedelta(hours=hours), tick=False):
            budgets_watch(now=T0 + timedelta(hours=hours))
    expected = [("budget.threshold", 50), ("budget.threshold", 80), ("budget.exhausted", 100)]
    assert reported_steps() == expected
    june = datetime(2026, 6, 1, tzinfo=UTC)
    for hours in (1, 60):
        budgets_watch(now=june + timedelta(hours=hours))
    assert reported_steps() == [*expected, ("budget.threshold", 50)]


def test_several_steps_that_were_crossed_at_once_are_all_reported(here: Department) -> None:
    budget(here, 10)
    hold(here, 1, T0)
    assert budgets_watch(now=T0 + timedelta(hours=20)) == 3
    assert budgets_watch(now=T0 + timedelta(hours=20)) == 0
    assert reported_steps() == [("budget.threshold", 80), ("budget.threshold", 95), ("budget.exhausted", 100)]


def test_a_larger_budget_is_reported_anew(here: Department) -> None:
    made = budget(here, 10, thresholds=[])
    hold(here, 1, T0)
    budgets_watch(now=T0 + timedelta(hours=20))
    made.refresh_from_db()
    budget_change(acting_user=here.anna, budget=made, changes={"gpu_hours": 30}, version=made.version)
    budgets_watch(now=T0 + timedelta(hours=21))
    budgets_watch(now=T0 + timedelta(hours=31))
    assert reported_steps() == [("budget.exhausted", 100)] * 2


def test_what_counts_for_a_team_is_its_own_budget_and_those_above(here: Department) -> None:
    budget(here, 10)
    budget(here, 4, tenant=here.folder, by=tenancy.platform_admin(), flavor=here.flavor)
    hold(here, 1, T0)
    found = workspace_budgets(here.ed, here.a, now=T0 + timedelta(hours=4))
    assert [(use.budget.tenant.slug, use.used_hours, use.percent, use.state) for use in found] == [
        ("research", 4.0, 100, "exhausted"),
        ("team-a", 4.0, 40, "ok"),
    ]
    assert len(budget_list(here.ed, now=T0)) == 1
    use = gpu_hours_by_month(here.ed, here.a, now=datetime(2026, 6, 1, 2, tzinfo=UTC))
    assert [(f"{row.month:%m}", row.gpu_hours) for row in use] == [("06", 2.0)]


def test_no_user_sets_their_own_budget(here: Department) -> None:
    for who in (here.adam, here.ed):
        with pytest.raises(PermissionDenied):
            budget(here, by=who)
    made = budget(here)
    with pytest.raises(PermissionDenied):
        budget_change(acting_user=here.adam, budget=made, changes={"gpu_hours": 10**6})
    with pytest.raises(PermissionDenied):
        budget_delete(acting_user=here.adam, budget=made)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"hours": -1}, "gpu_hours"),
        ({"hours": 10**30}, "gpu_hours"),
        ({"thresholds": [0]}, "thresholds"),
        ({"thresholds": [100]}, "thresholds"),
        ({"thresholds": [50, 50]}, "thresholds"),
        ({"thresholds": [1, 2, 3, 4, 5, 6]}, "thresholds"),
    ],
)
def test_budgets_that_cannot_be(here: Department, values: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        budget(here, **values)
    assert [error.field for error in refused.value.errors] == [field]


def test_there_is_one_budget_for_each_flavor_and_one_for_all(here: Department) -> None:
    budget(here)
    budget(here, flavor=here.flavor)
    for flavor in (None, here.flavor):
        with pytest.raises(Conflict):
            budget(here, flavor=flavor)
    assert Hint.unscoped.filter(topic="cycle").exists()


# Limits of users


def limit(here: Department, name: str = "ed", amount: int | None = 4, **more: Any) -> UserLimit:
    values: dict[str, Any] = {"acting_user": here.adam, "workspace": here.a} | more
    return user_limit_create(username=name, resource=Resource.GPU_CARDS, amount=amount, **values)


def test_limits_are_the_workspaces_own_matter(here: Department) -> None:
    made = limit(here)
    user_limit_change(acting_user=here.adam, limit=made, amount=None, version=made.version)
    with pytest.raises(PreconditionFailed):
        user_limit_change(acting_user=here.adam, limit=made, amount=1, version=0)
    with pytest.raises(PermissionDenied):
        user_limit_delete(acting_user=here.ed, limit=made)
    user_limit_delete(acting_user=here.adam, limit=made)
    actions = AuditRecord.unscoped.filter(entity="user-limit").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["user-limit.create", "user-limit.change", "user-limit.delete"]


def test_limits_that_cannot_be(here: Department) -> None:
    tenancy.user("stranger")
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"amount": -1}, "amount"),
        ({"amount": 10**30}, "amount"),
        ({"name": "", "amount": None}, "amount"),
        ({"name": "nobody"}, "user"),
        ({"name": "stranger"}, "user"),
    ]
    for values, field in wrong:
        with pytest.raises(Invalid) as refused:
            limit(here, **values)
        assert [error.field for error in refused.value.errors] == [field]
    with pytest.raises(AllotmentError):
        limit(here, workspace=here.folder, acting_user=here.anna, name="anna")
    limit(here, "")
    with pytest.raises(Conflict):
        limit(here, "")
    assert UserLimit.unscoped.count() == 1
