"""Limits of users and budgets: which jobs the engine starts, and the GPU-hours of a month."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine

from foundation.core.months import CORE_MS_PER_GPU_HOUR, to_ms
from foundation.core.quantities import Resource
from quotas.models import Budget, BudgetAction, GpuUse, LedgerEntry, QuotaKey, Strategy, UserLimit
from quotas.selectors.tenants.budget import GpuHours
from quotas.services.ledger import LedgerMismatch, ledger_free, ledger_reserve, months_close
from scheduling.models import Allocation, Job, JobEvent, JobState
from scheduling.services.spent_budget import stop_over_budget
from tenants.models import Role
from tests.builders import jobs, quotas, tenancy
from tests.builders.stage import Stage

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 3, 10, 12, tzinfo=UTC)


@pytest.fixture
def stage(db: None) -> Stage:
    return Stage()


def submit(stage: Stage, name: str, cards: int, **fields: Any) -> Job:
    return stage.submit(name, jobs.RoleOf(cards=cards), run_s=3600, **fields)


def states(stage: Stage) -> dict[str, str]:
    return dict(Job.unscoped.values_list("name", "state"))


def why(name: str) -> tuple[str, dict[str, Any]]:
    job = Job.unscoped.get(name=name)
    return job.reason, job.reason_numbers


def limit(stage: Stage, amount: int | None, *, own: bool = True, resource: str = "gpu.cards") -> UserLimit:
    user = stage.user if own else None
    place = stage.queue.workspace
    return UserLimit.unscoped.create(workspace=place, user=user, resource=resource, amount=amount)


def budget(stage: Stage, hours: int, action: BudgetAction, **fields: Any) -> Budget:
    return Budget.unscoped.create(
        tenant=fields.pop("tenant", stage.queue.workspace), gpu_hours=hours, action=action, **fields
    )


def started(stage: Stage) -> set[str]:
    waiting = (JobState.QUEUED, JobState.SUBMITTED)
    return {name for name, state in states(stage).items() if state not in waiting}


def test_jobs_admitted_together_stay_within_the_limit_together(stage: Stage) -> None:
    limit(stage, 5)
    for number in range(4):
        submit(stage, f"job-{number}", 2)
    stage.run(4)
    assert len(started(stage)) == 2
    code, numbers = why("job-3")
    assert code == "POLICY_DENIED"
    assert numbers == {"resource": "gpu.cards", "asked": 2, "held": 4, "user_limit": 5}


def test_a_smaller_job_passes_one_that_the_limit_holds(stage: Stage) -> None:
    limit(stage, 3)
    submit(stage, "big", 4)
    submit(stage, "small", 3)
    stage.run(4)
    assert started(stage) == {"small"}


def test_who_is_held_by_a_limit_does_not_block_a_strict_line(stage: Stage) -> None:
    stage.queue.strategy = Strategy.STRICT
    stage.queue.save()
    other = tenancy.user("olga", stage.queue.workspace, Role.EDITOR)
    limit(stage, 1)
    submit(stage, "first", 4)
    jobs.job(stage.queue, other, "second", roles=(jobs.RoleOf(cards=4),), simulate={"run_s": 3600})
    stage.run(4)
    assert started(stage) == {"second"}


def test_ones_own_limit_counts_before_that_of_all_users(stage: Stage) -> None:
    limit(stage, 1, own=False)
    limit(stage, None)
    submit(stage, "mine", 8)
    stage.run(4)
    assert started(stage) == {"mine"}


def test_compute_is_limited_by_what_is_charged(stage: Stage) -> None:
    limit(stage, 250, own=False, resource="gpu.cores")
    submit(stage, "two", 2)
    submit(stage, "one", 1)
    stage.run(4)
    assert started(stage) == {"two"}
    assert why("one")[1] == {"resource": "gpu.cores", "asked": 100, "held": 200, "user_limit": 250}


def test_what_a_job_gives_back_may_be_had_again(stage: Stage) -> None:
    limit(stage, 2)
    stage.submit("short", jobs.RoleOf(cards=2), run_s=5)
    submit(stage, "next", 2)
    stage.run(60)
    assert states(stage) == {"short": "succeeded", "next": "running"}


def test_an_elastic_job_starts_as_large_as_the_limit_lets_it(stage: Stage) -> None:
    limit(stage, 5)
    stage.submit("elastic", jobs.RoleOf(replicas=8, min_replicas=2, cards=1), run_s=3600)
    stage.run(4)
    assert Allocation.unscoped.filter(released_at__isnull=True).count() == 5


def test_a_budget_that_is_used_up_starts_nothing_new_and_says_so(stage: Stage) -> None:
    budget(stage, 2, BudgetAction.HOLD)
    with time_machine.travel(NOON, tick=False):
        submit(stage, "before", 4)
        stage.run(4)
    with time_machine.travel(NOON + timedelta(minutes=40), tick=False):
        submit(stage, "after", 1)
        stage.run(4)
    assert started(stage) == {"before"}
    code, numbers = why("after")
    assert code == "POLICY_DENIED"
    assert numbers == {"flavor": "a100", "budget_of": "Team A", "used_hours": 2, "budget_hours": 2}


def test_a_job_without_gpus_needs_no_budget(stage: Stage) -> None:
    budget(stage, 0, BudgetAction.HOLD)
    stage.submit("cpu", jobs.RoleOf(cards=0), run_s=3600)
    submit(stage, "gpu", 1)
    stage.run(4)
    assert started(stage) == {"cpu"}


def test_preemptible_jobs_start_where_the_action_lets_them(stage: Stage) -> None:
    budget(stage, 0, BudgetAction.PREEMPTIBLE_ONLY, flavor=stage.flavor)
    submit(stage, "firm", 1, preemptible=False)
    submit(stage, "yielding", 1, preemptible=True)
    stage.run(4)
    assert started(stage) == {"yielding"}
    assert why("firm")[1]["preemptible_in"] == "a100"


def test_a_warning_stops_no_job(stage: Stage) -> None:
    budget(stage, 0, BudgetAction.WARN)
    submit(stage, "job", 1)
    stage.run(4)
    assert started(stage) == {"job"}


def test_the_budget_of_a_folder_counts_for_all_below_it(stage: Stage) -> None:
    budget(stage, 0, BudgetAction.HOLD, tenant=tenancy.root())
    submit(stage, "job", 1)
    stage.run(4)
    assert not started(stage)
    assert why("job")[1]["budget_of"] == "Root"


def test_a_preemptible_job_is_stopped_when_the_budget_says_so(stage: Stage) -> None:
    budget(stage, 2, BudgetAction.STOP_PREEMPTIBLE)
    with time_machine.travel(NOON, tick=False):
        submit(stage, "firm", 2, preemptible=False)
        submit(stage, "yielding", 2)
        stage.submit("cpu", jobs.RoleOf(cards=0), run_s=9000)
        stage.run(4)
        assert stop_over_budget(now=NOON) == 0
    later = NOON + timedelta(minutes=40)
    with time_machine.travel(later, tick=False):
        assert stop_over_budget(now=later) == 1
        assert stop_over_budget(now=later) == 0
    assert {name for name, state in states(stage).items() if state == JobState.EVICTING} == {"yielding"}
    assert Job.unscoped.get(name="yielding").after_eviction == JobState.SUSPENDED
    told = JobEvent.unscoped.get(job__name="yielding", code="evicting").numbers
    assert told == {"rule": "BUDGET", "tenant": "Team A", "used_hours": 2, "budget_hours": 2}


def test_a_new_month_opens_the_budget_again(stage: Stage) -> None:
    budget(stage, 1, BudgetAction.HOLD)
    end = datetime(2026, 3, 31, 22, tzinfo=UTC)
    with time_machine.travel(end, tick=False):
        submit(stage, "before", 1)
        stage.run(4)
    with time_machine.travel(end + timedelta(minutes=90), tick=False):
        submit(stage, "after", 1)
        stage.run(4)
        assert started(stage) == {"before"}
    with time_machine.travel(end + timedelta(hours=2, minutes=10), tick=False):
        stage.run(4)
    assert started(stage) == {"before", "after"}


# The meter


def key(stage: Stage) -> QuotaKey:
    return QuotaKey(stage.queue.node_id, stage.flavor.pk, Resource.GPU_CORES.value)


def hours(stage: Stage, now: datetime) -> float:
    return GpuHours(now).sum_use(stage.queue.workspace.path) / CORE_MS_PER_GPU_HOUR


def test_gpu_hours_are_exactly_what_was_held(stage: Stage) -> None:
    for number, run_s in enumerate((5, 12, 30)):
        stage.submit(f"job-{number}", jobs.RoleOf(cards=number + 1), run_s=run_s)
    stage.run(90, every_s=7.3)
    stage.assert_nothing_is_held()
    held = 0
    for row in Allocation.unscoped.select_related("attempt"):
        assert row.released_at
        held += row.charge["gpu.cores"] * (to_ms(row.released_at) - to_ms(row.attempt.admitted_at))
    counted = [*LedgerEntry.unscoped.values_list("core_ms", flat=True)]
    counted += GpuUse.unscoped.values_list("core_ms", flat=True)  # of a month that ended meanwhile
    assert sum(counted) == held > 0


def test_months_are_separate_whenever_the_ledger_is_written(stage: Stage) -> None:
    start = datetime(2026, 1, 31, 23, tzinfo=UTC)
    ledger_reserve({key(stage): 400}, now=start)
    assert hours(stage, start + timedelta(minutes=30)) == 2
    # February starts at 0, although the row was not written since.
    assert hours(stage, datetime(2026, 2, 1, 1, tzinfo=UTC)) == 4
    ledger_free({key(stage): 300}, now=datetime(2026, 3, 1, 2, tzinfo=UTC))
    assert hours(stage, datetime(2026, 3, 1, 3, tzinfo=UTC)) == 4 * 2 + 1
    closed = {f"{use.month:%m}": use.core_ms / CORE_MS_PER_GPU_HOUR for use in GpuUse.unscoped.all()}
    assert closed == {"01": 4.0, "02": 4.0 * 28 * 24}
    assert months_close(now=datetime(2026, 4, 1, tzinfo=UTC)) == 1
    assert GpuUse.unscoped.get(month__month=3).core_ms == (8 + 742) * CORE_MS_PER_GPU_HOUR
    assert months_close(now=datetime(2026, 4, 2, tzinfo=UTC)) == 0


def test_a_clock_that_is_behind_loses_nothing(stage: Stage) -> None:
    midnight = datetime(2026, 2, 1, tzinfo=UTC)
    ledger_reserve({key(stage): 100}, now=midnight + timedelta(seconds=1))
    ledger_reserve({key(stage): 100}, now=midnight - timedelta(seconds=1))
    assert GpuHours(midnight + timedelta(seconds=10)).sum_use("/") == 100 * 9_000 + 100 * 11_000


def test_more_than_is_held_cannot_be_freed(stage: Stage) -> None:
    ledger_reserve({key(stage): 100}, now=NOON)
    with pytest.raises(LedgerMismatch):
        ledger_free({key(stage): 101}, now=NOON)
    assert LedgerEntry.unscoped.get(resource="gpu.cores").reserved == 100


def test_use_of_others_is_not_counted(stage: Stage) -> None:
    ledger_reserve({key(stage): 100}, now=NOON)
    other = quotas.queue(stage.cell, tenancy.workspace("team-b"), [stage.flavor])
    ledger_reserve({QuotaKey(other.node_id, stage.flavor.pk, "gpu.cores"): 700}, now=NOON)
    assert hours(stage, NOON + timedelta(hours=1)) == 1
