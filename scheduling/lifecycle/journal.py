"""Logs the events of jobs and pods, and counts them for `/metrics`.

Each event is logged in one line once its transaction is committed: `job` with the job's id and the event's
code, `pod` also with the pod's name. Lines that belong to a request carry the request's id.
"""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import structlog
from django.db import transaction

from scheduling.monitoring import counters

log = structlog.get_logger(__name__)
_LOGGED: Final = {
    "rule": "rule", "reason": "reason", "code": "cause", "attempt": "attempt", "exit_code": "exit_code",
    "message": "message",
}  # fmt: skip
"""The numbers of an event that its log line contains, with their names there; the job's events have all."""


class JournalStep(NamedTuple):
    """One event of a job: its code, the actor, and its numbers."""

    job: uuid.UUID
    code: str
    actor: str = ""
    numbers: Mapping[str, Any] = {}


class JournalPod(NamedTuple):
    """A pod, its job, and its node where that matters for the event."""

    job: uuid.UUID
    namespace: str
    name: str
    node: str = ""


def log_jobs(steps: Iterable[JournalStep]) -> None:
    """Log and count events of jobs when the current transaction is committed."""
    entries = list(steps)
    if entries:
        transaction.on_commit(partial(_log_jobs, entries), robust=True)


def log_pods(what: str, pods: Iterable[JournalPod], **more: str) -> None:
    """Log the event `what` of these pods when the current transaction is committed."""
    entries = list(pods) if log.isEnabledFor(logging.INFO) else []
    if entries:
        transaction.on_commit(partial(_log_pods, what, entries, more), robust=True)


def _log_jobs(steps: list[JournalStep]) -> None:
    for code, count in Counter(step.code for step in steps).items():
        counters.EVENTS.add(count, code=code)
    if not log.isEnabledFor(logging.INFO):
        return
    for step in steps:
        entries = {
            key: step.numbers[name] for name, key in _LOGGED.items() if step.numbers.get(name) is not None
        }
        if step.actor:
            entries["by"] = step.actor
        log.info("job", job=str(step.job), step=step.code, **entries)


def _log_pods(what: str, pods: list[JournalPod], more: dict[str, str]) -> None:
    for job, namespace, name, node in pods:
        where = {"node": node} if node else {}
        log.info("pod", job=str(job), step=what, pod=f"{namespace}/{name}", **where, **more)
