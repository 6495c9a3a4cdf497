"""Jobs that start again after a restore: scheduling, which knows the jobs, lists them for a take-over.

Scheduling is above this package, so it registers its functions here when the platform starts.
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
    """A job that starts, or starts again, when its cluster is used: the cluster does not report its state
    since the backup."""

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
    """Register the functions of scheduling; its `AppConfig.ready()` calls this once."""
    _registered[:] = [given]


def find_answers() -> RestartAnswers:
    """Return the functions of scheduling.

    Raises: RuntimeError if none are registered, which cannot happen in a running platform.
    """
    if not _registered:
        raise RuntimeError("nothing answers which jobs start again")
    return _registered[0]
