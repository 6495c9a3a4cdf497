"""The preview of a rule on budgets shows the metric of the last day."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.utils import translation

from alerts.metrics.quotas import read_budget_shares
from alerts.models import AlertRule
from alerts.selectors.rule_history import read_rule_history
from foundation.core import clock
from foundation.core.quantities import Resource
from frontend.pages.alerts.rule_preview import ShownPreview, describe_preview
from quotas.models import Budget, Queue, QuotaKey
from quotas.services.ledger import ledger_free, ledger_reserve
from scheduling.models import Allocation, Attempt
from tests.builders import clusters, jobs
from tests.builders.world import World, world

MIDDAY = datetime(2026, 3, 10, 12, tzinfo=UTC)
NEW_YEAR = datetime(2026, 1, 1, 6, tzinfo=UTC)


@dataclass
class Month:
    """Runs of jobs, and the metric of budgets as it was every half hour, by the name of the budget."""

    world: World
    clock: time_machine.Traveller
    seen: dict[datetime, dict[str, float | None]] = field(default_factory=dict)

    def pass_hours(self, hours: float) -> None:
        for _half in range(round(hours * 2)):
            self.clock.shift(timedelta(minutes=30))
            now = clock.now()
            self.seen[now] = {each.label: each.value for each in read_budget_shares(now)}

    def start(self, queue: Queue, gpus: int) -> Attempt:
        made = jobs.job(queue, self.world.editor, roles=[jobs.RoleOf(cards=gpus)])
        attempt = jobs.allocate(made, self.world.nodes[0])
        ledger_reserve({self._key(queue): 100 * gpus}, now=clock.now())
        return attempt

    def end(self, attempt: Attempt, queue: Queue, gpus: int) -> None:
        now = clock.now()
        Allocation.unscoped.filter(attempt=attempt).update(released_at=now)
        Attempt.unscoped.filter(pk=attempt.pk).update(ended_at=now)
        ledger_free({self._key(queue): 100 * gpus}, now=now)

    def _key(self, queue: Queue) -> QuotaKey:
        return QuotaKey(queue.node_id, self.world.flavor.pk, Resource.GPU_CORES)


@pytest.fixture
def month(db: None) -> Iterator[Month]:
    with time_machine.travel(MIDDAY, tick=False) as traveller:
        w = world()
        other = clusters.flavor(w.cluster, "idle")
        for tenant, flavor, hours in (
            (w.workspace, None, 40),
            (w.workspace, w.flavor, 20),
            (w.workspace, other, 10),
            (w.other_workspace, None, 30),
            (w.other_workspace, w.flavor, 0),
        ):
            Budget.unscoped.create(tenant=tenant, flavor=flavor, gpu_hours=hours)
        Budget.unscoped.update(created_at=datetime(2025, 1, 1, tzinfo=UTC))
        yield Month(w, traveller)


def _run_jobs(month: Month) -> None:
    mine, other = month.world.queue, month.world.other_queue
    month.pass_hours(2)
    first = month.start(mine, 2)
    month.pass_hours(16)
    second = month.start(other, 1)
    month.pass_hours(5)
    month.end(first, mine, 2)
    month.pass_hours(4)
    month.start(mine, 1)
    month.pass_hours(3)
    month.end(second, other, 1)
    month.pass_hours(2)


def _rule(**values: Any) -> AlertRule:
    facts = {"name": "r", "metric": "budget.used_percent", "comparison": "above", "hold_s": 0, "resolve_s": 0}
    return AlertRule(**facts | values)


@pytest.mark.parametrize("begin", [MIDDAY, NEW_YEAR - timedelta(days=1)], ids=["month", "turn of the year"])
def test_the_past_of_budgets_is_what_the_metric_was(month: Month, begin: datetime) -> None:
    month.clock.move_to(begin)
    _run_jobs(month)
    now = clock.now()
    known = [at for at in month.seen if at > now - timedelta(days=1) and at.month == now.month]
    for comparison, choose in (("above", max), ("below", min)):
        rule = _rule(threshold=70, comparison=comparison)
        found = read_rule_history(month.world.platform_admin, rule, now=now)
        assert found is not None and not found.unreadable
        values = dict(found.extreme)
        assert [values[at] for at in known] == pytest.approx(
            [choose(month.seen[at].values()) for at in known]
        )
        before = [at for at in values if at.month != now.month]
        assert {values[at] for at in before} <= {None}
        assert found.since == (datetime(2026, 1, 1, tzinfo=UTC) if before else None)
    assert len(known) == (48 if begin == MIDDAY else 29)


def test_a_team_sees_its_own_budgets_alone_and_how_often_they_crossed_the_threshold(month: Month) -> None:
    _run_jobs(month)
    w, now = month.world, clock.now()
    of_team = read_rule_history(w.platform_admin, _rule(threshold=100, tenant=w.workspace), now=now)
    assert of_team is not None
    own = [value for label, value in month.seen[now].items() if label.startswith("Team A")]
    assert of_team.extreme[-1][1] == pytest.approx(max(own)) and len(own) == 3
    assert of_team.fired == 2, "both budgets that count its GPUs went above 100 percent"
    told = describe_preview(w.platform_admin, _rule(threshold=100, tenant=w.workspace))
    assert "would have fired 2 times" in told.past and told.chart is not None
    Budget.unscoped.filter(tenant__path__startswith=w.workspace.path).delete()
    none = ShownPreview("This rule covers no budgets.", [], "", "", None)
    for comparison in ("above", "below"):
        rule = _rule(threshold=100, tenant=w.workspace, comparison=comparison)
        assert describe_preview(w.platform_admin, rule) == none
    assert describe_preview(w.platform_admin, _rule(threshold=100)).chart is not None, "others have budgets"
    Budget.unscoped.all().delete()
    assert describe_preview(w.platform_admin, _rule(threshold=100)) == none


def test_a_budget_has_no_past_before_it_was_created(month: Month) -> None:
    Budget.unscoped.all().delete()
    month.start(month.world.queue, 2)
    month.pass_hours(20)
    month.clock.shift(timedelta(minutes=5))
    Budget.unscoped.create(tenant=month.world.workspace, flavor=None, gpu_hours=10)
    month.pass_hours(1)
    w, now = month.world, clock.now()
    found = read_rule_history(w.platform_admin, _rule(threshold=70), now=now)
    assert found is not None and found.fired == 1
    values = dict(found.extreme)
    seen = {at: next(iter(shares.values()), None) for at, shares in month.seen.items()}
    assert [values[at] for at in seen] == [each and pytest.approx(each) for each in seen.values()]
    assert {values[at] for at in values if at < now - timedelta(hours=1, minutes=1)} == {None}
    for language, told in (
        ("en", "Values are shares of the present budgets, from their creation on."),
        ("zh-hans", "数值为占当前预算的比例，自预算创建时起计算。"),
    ):
        with translation.override(language):
            assert told in describe_preview(w.platform_admin, _rule(threshold=70)).past
