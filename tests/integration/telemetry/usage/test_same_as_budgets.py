"""Reports and budgets count the same time: intervals and the ledger agree to the millisecond."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
import time_machine

from clusters.models import GpuMode
from foundation.core import clock
from quotas.selectors.tenants.budget import gpu_hours_by_month
from quotas.services.ledger import months_close
from scheduling.metering.record_usage import record_usage
from scheduling.models import Allocation, GpuRequestMode, Job, JobState, Task, UsageInterval
from scheduling.services.jobs.job import job_cancel, job_resume, job_suspend
from scheduling.services.resizing.resize import slice_memory_resize
from telemetry.usage.periods import month_period
from telemetry.usage.report import ReportFilter, load_account
from tests.builders import jobs, pipeline, tenancy
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db

START = datetime(2026, 3, 31, 22, 0, 0, 123_456, tzinfo=UTC)
SLICE = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=30, gpu_memory=8192, replicas=2)


class Months(Stage):
    """A cluster of slices around the end of a month."""

    def __init__(self, time: time_machine.Coordinates) -> None:
        super().__init__(mode=GpuMode.SLICE)
        self.time = time
        self.cluster.live_resize = True
        self.cluster.save(update_fields=["live_resize"])
        self.chief = tenancy.platform_admin()

    def rounds(self, count: int, seconds: float = 3.017) -> None:
        for _ in range(count):
            self.time.shift(timedelta(seconds=seconds))
            pipeline.step(self.cell, self.cluster)

    def until(self, job: Job, wanted: JobState) -> None:
        for _ in range(60):
            if state(job) == wanted:
                return
            self.rounds(1)
        raise AssertionError(f"still {job.state}")

    def compare(self) -> dict[date, int]:
        """Return the figures of reports and of budgets for each month, which must be equal."""
        now = clock.now()
        counted: Counter[date] = Counter()
        for use in gpu_hours_by_month(self.chief, self.queue.workspace, now=now):
            counted[use.month] += use.core_ms
        reported = {}
        for month in (date(2026, 3, 1), date(2026, 4, 1)):
            lines = load_account(month_period(month, ZoneInfo("UTC")), None, ReportFilter(), now=now).lines
            reported[month] = sum(line.figures.reserved for line in lines.values())
        assert {month: amount for month, amount in reported.items() if amount} == dict(counted)
        return reported


def test_reports_and_budgets_count_the_same_time() -> None:
    with time_machine.travel(START, tick=False) as time:
        here = Months(time)
        first = here.submit("first", SLICE, run_s=100_000)
        second = here.submit("second", SLICE, run_s=100_000)
        here.rounds(8)
        assert (state(first), state(second)) == (JobState.RUNNING, JobState.RUNNING)
        here.compare()
        first.refresh_from_db()
        job_suspend(acting_user=here.user, job=first)
        here.until(first, JobState.SUSPENDED)
        job_resume(acting_user=here.user, job=first)
        time.shift(timedelta(hours=3))
        here.rounds(8)
        assert clock.now().month == 4
        here.compare()
        months_close(now=clock.now())
        second.refresh_from_db()
        job_cancel(acting_user=here.user, job=second)
        here.until(second, JobState.CANCELLED)
        before = here.compare()
        assert record_usage(now=clock.now()) == 2
        assert here.compare() == before
        assert all(before.values())


def test_a_resize_changes_what_is_billed_from_its_instant_on() -> None:
    with time_machine.travel(START, tick=False) as time:
        here = Months(time)
        job = here.submit("a", jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=30, gpu_memory=8192), run_s=10**6)
        here.rounds(8)
        task = Task.unscoped.select_related("role", "job__queue", "job__workspace").get(job=job)
        begun = clock.now()
        made = slice_memory_resize(acting_user=here.user, task=task, memory_mib=20_480)
        here.rounds(10)
        made.refresh_from_db()
        assert made.state == "done"
        job.refresh_from_db()
        job_cancel(acting_user=here.user, job=job)
        here.until(job, JobState.CANCELLED)
        record_usage(now=clock.now())
        small, large = UsageInterval.unscoped.order_by("begin_ms")
        ended = Allocation.unscoped.get(task=task).released_at

    assert ended is not None
    # 8 GiB of 40 are 20 %, less than the 30 % of compute; 20 GiB are 50 %.
    assert [(one.cores, one.billed) for one in (small, large)] == [(30, 30), (30, 50)]
    assert small.end_ms == large.begin_ms == int(begun.timestamp() * 1000)
    assert large.end_ms == int(ended.timestamp() * 1000)
