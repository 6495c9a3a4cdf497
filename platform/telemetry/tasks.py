"""Tasks that Celery beat starts. Each is safe to run twice, late, and concurrently."""

from __future__ import annotations

from celery import shared_task

from foundation.core import clock
from telemetry.services.collect import samples_collect
from telemetry.services.idle import idle_report
from telemetry.services.old_grain import move_old_rows
from telemetry.services.prune import prune_rows
from telemetry.services.roll_up import roll_up as condense
from telemetry.services.slice_use import report_slice_use
from telemetry.services.summing import sum_live
from telemetry.sources.collect import collect_sources as read_due
from telemetry.usage import store_reports as usage_reports
from telemetry.usage.record_measured import record_measured


@shared_task(name="telemetry.tasks.collect_samples")
def collect_samples() -> None:
    """Read every healthy cluster once, and sum what agents pushed."""
    try:
        samples_collect()
    finally:
        sum_live()


@shared_task(name="telemetry.tasks.collect_sources")
def collect_sources() -> None:
    """Read the exporters and Prometheus servers that are due."""
    read_due()


@shared_task(name="telemetry.tasks.report_idle")
def report_idle() -> None:
    """Report to scheduling which jobs are idle, and how much memory slices use."""
    idle_report()
    report_slice_use()


@shared_task(name="telemetry.tasks.roll_up")
def roll_up() -> None:
    """Roll up intervals that ended, then delete expired rows."""
    condense()
    move_old_rows()
    prune_rows()


@shared_task(name="telemetry.tasks.record_measured_use")
def record_measured_use() -> None:
    """Store measured use by job and quarter of an hour, for reports."""
    record_measured(now=clock.now())


@shared_task(name="telemetry.tasks.store_reports")
def store_reports() -> None:
    """Add up the usage reports of the whole platform."""
    usage_reports.store_reports(now=clock.now())
