"""What beat wakes. Safe to run twice, late, and beside themselves."""

from __future__ import annotations

from celery import shared_task

from telemetry.services.collect import samples_collect
from telemetry.services.idle import idle_report
from telemetry.services.prune import prune_rows
from telemetry.services.roll_up import roll_up as condense


@shared_task(name="telemetry.tasks.collect_samples")
def collect_samples() -> None:
    """Read every healthy cluster once."""
    samples_collect()


@shared_task(name="telemetry.tasks.report_idle")
def report_idle() -> None:
    """Suspend jobs that were idle for longer than their workspace's policy allows."""
    idle_report()


@shared_task(name="telemetry.tasks.roll_up")
def roll_up() -> None:
    """Condense what has ended, then delete what has expired."""
    condense()
    prune_rows()
