"""Could a job ever run? Asked at submission, against a cell as if it were empty.

The snapshot of nodes, flavors and queues is kept per process and rebuilt when the cell says that its
inventory or its quotas have changed, so that a submission costs one small query and no rebuild.
"""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass
from typing import Final

from clusters.models import Cell
from quotas.models import Queue
from scheduling import engine
from scheduling.engine import model as em
from scheduling.models import GpuRequestMode
from scheduling.services.feasibility import Misfit
from scheduling.snapshots import empty_snapshot, placement_rules
from scheduling.spec import JobSpec, RoleSpec

Version = tuple[int, int]


@dataclass(slots=True)
class _Cached:
    version: Version
    snapshot: engine.Snapshot


_cache: Final[dict[uuid.UUID, _Cached]] = {}
# The engine works on the snapshot under a statement; two threads must not share one statement.
_lock = threading.Lock()


def misfit(spec: JobSpec, queue: Queue) -> Misfit | None:
    """Say why the job can never run in that queue, or None when it could if enough were free."""
    job = _job(spec, queue)
    with _lock:
        snapshot = _snapshot(queue.cell_id)
        if str(queue.pk) not in snapshot.queues:
            return None  # opened a moment ago; the next cycle will say
        outcome = engine.never_fits(snapshot, job)
    if outcome is None:
        return None
    help_items = [{"code": item.code.value, "numbers": dict(item.numbers)} for item in outcome.help]
    return Misfit(dict(outcome.numbers), help_items)


def _snapshot(cell_id: uuid.UUID) -> engine.Snapshot:
    version: Version = Cell.unscoped.values_list("inventory_version", "quota_version").get(pk=cell_id)
    cached = _cache.get(cell_id)
    if cached is None or cached.version != version:
        cached = _cache[cell_id] = _Cached(version, empty_snapshot(cell_id))
    return cached.snapshot


def _job(spec: JobSpec, queue: Queue) -> em.Job:
    return em.Job(
        id="asked",
        queue=str(queue.pk),
        roles=tuple(
            em.Role(
                name=role.name,
                replicas=role.replicas,
                min_replicas=role.min_replicas,
                request=em.Request(cpu=role.cpu_millicores, memory=role.memory_mib, gpu=_gpu(role)),
            )
            for role in spec.roles
        ),
        submitted_at=em.Instant(0.0),
        min_available=spec.min_available,
        preemptible=spec.preemptible,
        rules=placement_rules(spec.placement),
    )


def _gpu(role: RoleSpec) -> em.GpuRequest | None:
    gpu = role.gpu
    if gpu is None:
        return None
    if gpu.mode == GpuRequestMode.WHOLE:
        return em.GpuRequest(cards=gpu.cards, models=gpu.models)
    return em.GpuRequest(
        cards=gpu.cards,
        mode=em.GpuMode.SLICE,
        cores=gpu.cores,
        memory=gpu.memory_mib,
        memory_percent=gpu.memory_percent,
        models=gpu.models,
    )
