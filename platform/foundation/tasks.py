"""The worker's heartbeat, written by a task, so it proves that tasks are being finished; and the seals
of the audit log."""

from __future__ import annotations

from celery import shared_task

from foundation.audit import chain, chain_heads
from foundation.monitoring import health


@shared_task(name="foundation.tasks.heartbeat")
def record_worker_heartbeat() -> None:
    """Record that a worker has finished a task."""
    health.record_heartbeat("worker")


@shared_task(name="foundation.tasks.seal_audit")
def seal_audit() -> None:
    """Link the latest audit records into the chain, and store its head outside the database."""
    chain.seal_records()
    chain_heads.note_head()
