"""The life of each job in the logs of the processes that handle it, and in the counters of `/metrics`.

One line per step, once it is committed: `job` with the job's id and the code of its event, `pod` with the
pod's name as well. The lines of a request carry its id.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import structlog
from django.db import transaction

from scheduling import measures

log = structlog.get_logger(__name__)
_TOLD: Final = {
    "rule": "rule", "reason": "reason", "code": "cause", "attempt": "attempt", "exit_code": "exit_code",
    "message": "message",
}  # fmt: skip
"""What a line tells of the numbers of an event, and under which name; the rest is in the job's story."""


class Step(NamedTuple):
    """What happened to a job: the code of its event, who did it, and its numbers."""

    job: uuid.UUID
    code: str
    actor: str = ""
    numbers: Mapping[str, Any] = {}


def tell_jobs(steps: Iterable[Step]) -> None:
    """Log and count these steps when the present transaction is committed."""
    told = list(steps)
    if told:
        transaction.on_commit(partial(_tell_jobs, told), robust=True)


def tell_pods(what: str, pods: Iterable[tuple[uuid.UUID, str, str]], **more: Any) -> None:
    """Log what happened to pods, each given as job, namespace and name, when the transaction is committed."""
    told = list(pods)
    if told:
        transaction.on_commit(partial(_tell_pods, what, told, more), robust=True)


def _tell_jobs(steps: list[Step]) -> None:
    for step in steps:
        measures.EVENTS.add(code=step.code)
        told = {key: step.numbers[name] for name, key in _TOLD.items() if step.numbers.get(name) is not None}
        if step.actor:
            told["by"] = step.actor
        log.info("job", job=str(step.job), step=step.code, **told)


def _tell_pods(what: str, pods: list[tuple[uuid.UUID, str, str]], more: dict[str, Any]) -> None:
    for job, namespace, name in pods:
        log.info("pod", job=str(job), step=what, pod=f"{namespace}/{name}", **more)
