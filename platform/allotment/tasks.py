"""The one task of the composition root: the demo's users."""

from __future__ import annotations

from celery import shared_task

from allotment.demo.workload import workload_tick


@shared_task(name="allotment.tasks.demo_workload")
def demo_workload() -> None:
    """Submit the demo jobs that are due."""
    workload_tick()
