"""The tasks of the composition root: the demo's users and faults, and the rest of its history."""

from __future__ import annotations

from celery import shared_task

from allotment.demo.faults import faults_tick
from allotment.demo.history.seed import history_tick
from allotment.demo.workload import workload_tick


@shared_task(name="allotment.tasks.demo_workload")
def demo_workload() -> None:
    """Submit the due demo jobs and inject the due faults."""
    faults_tick()
    workload_tick()


@shared_task(name="allotment.tasks.demo_history")
def demo_history() -> None:
    """Write the part of the simulated history that takes too long during a start."""
    history_tick()
