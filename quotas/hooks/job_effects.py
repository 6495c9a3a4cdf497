"""The effect of a quota change on jobs: declared here, computed by scheduling, which knows the jobs.

Scheduling is a package above this one, so it registers its functions here when the platform starts.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from foundation.core.actor import Actor
from foundation.core.quantities import Resource
from quotas.models import Queue, QuotaKey
from quotas.tree import NodeLimits


@dataclass(frozen=True, slots=True)
class OverQuota:
    """More is reserved at and below a node than its new nominal."""

    key: QuotaKey
    reserved: int
    limit: int


@dataclass(frozen=True, slots=True)
class AffectedJob:
    """A job that a change affects, and how many GPUs it requests."""

    job_id: uuid.UUID
    name: str
    workspace_id: uuid.UUID
    queue: str
    cards: int


@dataclass(frozen=True, slots=True)
class JobsPreview:
    """The difference that a change makes to the next cycle.

    Only with the change `reclaimed` are preempted, `scaled_down` lose tasks above their minimum, and
    `started` start, at once or when tasks of others have ended; only without it `spared` would be preempted
    and `delayed` would start. `left_out` is how many waiting jobs were not evaluated because there are too
    many. `timed_out`: the effect could not be computed in time, so nothing is known of jobs.
    """

    reclaimed: Sequence[AffectedJob] = ()
    scaled_down: Sequence[AffectedJob] = ()
    started: Sequence[AffectedJob] = ()
    spared: Sequence[AffectedJob] = ()
    delayed: Sequence[AffectedJob] = ()
    left_out: int = 0
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class PendingDemand:
    """The GPUs that waiting jobs of one queue request.

    `flavor_cards` counts by flavor the jobs that may run there: a job that may run in several flavors counts
    in each, so the values must not be added up. `flavor_amounts` is the same for compute, CPU and memory; a
    role without GPUs may run in all flavors of its queue.
    """

    queue_node_id: uuid.UUID
    jobs: int
    cards: int
    flavor_cards: Mapping[uuid.UUID, int]
    flavor_amounts: Mapping[tuple[uuid.UUID, Resource], int] = field(default_factory=dict)


PreviewChange = Callable[[uuid.UUID, Mapping[QuotaKey, NodeLimits], Sequence[OverQuota]], JobsPreview]
Drain = Callable[[Actor, Sequence[OverQuota]], int]
Vacate = Callable[[Actor, Queue, Queue | None], int]
Pending = Callable[[Sequence[uuid.UUID]], Mapping[uuid.UUID, PendingDemand]]


@dataclass(frozen=True, slots=True)
class JobEffectProvider:
    """The functions of scheduling: preview a change, drain jobs over quota, count pending jobs, empty a
    queue.
    """

    preview_change: PreviewChange
    drain_over_quota: Drain
    count_pending: Pending
    empty_queue: Vacate


_registered: Final[list[JobEffectProvider]] = []


def register_provider(answers: JobEffectProvider) -> None:
    """Register the functions; called once, by scheduling's `AppConfig.ready()`."""
    _registered[:] = [answers]


def get_provider() -> JobEffectProvider:
    """Return the functions of scheduling.

    Raises: RuntimeError when none are registered, which does not happen in a running platform.
    """
    if not _registered:
        raise RuntimeError("no package answers for the effect of a change of quota")
    return _registered[0]
