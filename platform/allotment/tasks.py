"""The tasks of the composition root: the demo's users and faults, and the rest of its history."""

from __future__ import annotations

from celery import shared_task

from allotment.demo.faults import faults_tick
from allotment.demo.history.seed import history_tick
from allotment.demo.workload import workload_tick


@shared_task(name="allotment.tasks.demo_workload")
def demo_workload() -> None:
    """Submit the demo jobs and make the faults that are due."""
    faults_tick()
    workload_tick()


@shared_task(name="allotment.tasks.demo_history")
def demo_history() -> None:
    """Write the part of the simulated history for which a start has no time."""
    history_tick()
