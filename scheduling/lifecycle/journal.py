"""The life of each job in the logs of the processes that handle it, and in the counters of `/metrics`.

One line per step, once it is committed: `job` with the job's id and the code of its event, `pod` with the
pod's name as well. The lines of a request carry its id.
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
"""What a line tells of the numbers of an event, and under which name; the rest is in the job's story."""


class JournalStep(NamedTuple):
    """One event of a job: its code, the actor, and its numbers."""

    job: uuid.UUID
    code: str
    actor: str = ""
    numbers: Mapping[str, Any] = {}


class JournalPod(NamedTuple):
    """A pod, the job that it is of, and its node where that is part of what happened."""

    job: uuid.UUID
    namespace: str
    name: str
    node: str = ""


def log_jobs(steps: Iterable[JournalStep]) -> None:
    """Log and count these steps when the present transaction is committed."""
    entries = list(steps)
    if entries:
        transaction.on_commit(partial(_log_jobs, entries), robust=True)


def log_pods(what: str, pods: Iterable[JournalPod], **more: str) -> None:
    """Log what happened to these pods when the present transaction is committed."""
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
