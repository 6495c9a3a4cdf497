"""Could a job ever run? Asked at submission, against a cell as if it were empty.

The snapshot of nodes, flavors and queues is kept per process and rebuilt when the cell says that its
inventory or its quotas have changed, so that a submission costs one small query and no rebuild.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from clusters.models import Cell
from quotas.models import Queue
from scheduling import engine
from scheduling.engine import model as em
from scheduling.models import GpuRequestMode
from scheduling.services.feasibility import Misfit
from scheduling.snapshots import empty_snapshot, names_in, placement_rules
from scheduling.spec import JobSpec, RoleSpec

Version = tuple[int, int]


@dataclass(slots=True)
class _Cached:
    version: Version
    snapshot: engine.Snapshot
    # The engine speaks in ids, people read names.
    names: dict[str, str]


_cache: Final[dict[uuid.UUID, _Cached]] = {}
# The engine works on the snapshot under a statement; two threads must not share one statement.
_lock = threading.Lock()


def misfit(spec: JobSpec, queue: Queue) -> Misfit | None:
    """Say why the job can never run in that queue, or None when it could if enough were free."""
    job = _job(spec, queue)
    with _lock:
        known = _known(queue.cell_id)
        if str(queue.pk) not in known.snapshot.queues:
            return None  # opened a moment ago; the next cycle will say
        outcome = engine.never_fits(known.snapshot, job)
    if outcome is None:
        return None
    names = known.names
    helps = [{"code": item.code.value, "numbers": _named(item.numbers, names)} for item in outcome.help]
    return Misfit(_named(outcome.numbers, names), helps)


def _named(numbers: Mapping[str, int | str], names: Mapping[str, str]) -> dict[str, int | str]:
    return {key: names.get(item, item) if isinstance(item, str) else item for key, item in numbers.items()}


def _known(cell_id: uuid.UUID) -> _Cached:
    version: Version = Cell.unscoped.values_list("inventory_version", "quota_version").get(pk=cell_id)
    cached = _cache.get(cell_id)
    if cached is None or cached.version != version:
        cached = _cache[cell_id] = _Cached(version, empty_snapshot(cell_id), names_in(cell_id))
    return cached


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
