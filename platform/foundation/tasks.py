"""The worker's sign of life: written by a task, so it proves that tasks are being finished."""

from __future__ import annotations

from celery import shared_task

from foundation import health


@shared_task(name="foundation.tasks.heartbeat")
def heartbeat() -> None:
    """Note that a worker has finished a task."""
    health.beat("worker")
