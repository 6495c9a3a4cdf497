"""Jobs that start again after a restore: asked at a take-over, answered by scheduling, which knows the jobs.

Scheduling stands above this package, so it registers its answers here when the platform starts.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from clusters.models import Cluster
from foundation.core.actor import Actor


@dataclass(frozen=True, slots=True)
class RestartingJob:
    """A job that starts, or starts again, when its cluster is used: nothing in the cluster tells what became
    of it since the backup."""

    job_id: uuid.UUID
    workspace: str
    name: str
    state: str


Find = Callable[[Cluster, Collection[str]], Sequence[RestartingJob]]
Hold = Callable[[Actor, Cluster, Sequence[RestartingJob]], None]


@dataclass(frozen=True, slots=True)
class RestartAnswers:
    """`find` returns the jobs of a cluster that start, given the ids of those that have pods there. `hold`
    suspends jobs; it must run inside a transaction that has locked their cell."""

    find: Find
    hold: Hold


_registered: Final[list[RestartAnswers]] = []


def register_answers(given: RestartAnswers) -> None:
    """Register the answers of scheduling; its `AppConfig.ready()` calls this once."""
    _registered[:] = [given]


def find_answers() -> RestartAnswers:
    """Return the answers of scheduling.

    Raises: RuntimeError when nothing has registered, which a running platform never sees.
    """
    if not _registered:
        raise RuntimeError("nothing answers which jobs start again")
    return _registered[0]
