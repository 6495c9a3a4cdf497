"""Small worlds for engine tests: a test gives what matters, the rest has a sensible default."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from foundation.core.quantities import Resource
from scheduling.engine import (
    AllocationPut,
    Change,
    Delta,
    EngineConfig,
    JobPut,
    Snapshot,
    TaskWorkload,
    run_cycle,
)
from scheduling.engine.model import (
    CycleResult,
    Device,
    Flavor,
    GpuMode,
    GpuRequest,
    HelpCode,
    Instant,
    Job,
    JobOutcome,
    JobState,
    Node,
    Queue,
    Quota,
    QuotaNode,
    Request,
    Role,
)
from scheduling.engine.state.job_changes import JobChanges
from scheduling.engine.state.workload_mix import WorkloadMix

MODEL, CARD_MIB = "A100", 40960
NOW = Instant(1_000)


def node(
    name: str, cards: int = 4, /, *, model: str = MODEL, device: Mapping[str, Any] | None = None, **facts: Any
) -> Node:
    """A node with 64 cores, 512 GiB and cards that can be sliced."""
    devices = tuple(
        Device(
            **{
                "uuid": f"{name}-gpu{index}",
                "index": index,
                "model": model,
                "mode": GpuMode.SLICE,
                "memory": CARD_MIB,
                **(device or {}),
            }
        )
        for index in range(cards)
    )
    return Node(**{"id": name, "cpu": 64_000, "memory": 524_288, "devices": devices, **facts})


def flavor(name: str = "a100", **facts: Any) -> Flavor:
    """A flavor of sliceable cards that every node without labels belongs to."""
    return Flavor(**{"id": name, "card_memory": CARD_MIB, "mode": GpuMode.SLICE, **facts})


def quotas(
    cards: int | None,
    *,
    flavors: Iterable[str] = ("a100",),
    borrow: int | None = None,
    lend: int | None = None,
) -> tuple[Quota, ...]:
    """A limit on cards; everything else unlimited."""
    others = (Resource.CPU, Resource.MEMORY, Resource.GPU_CORES, Resource.GPU_MEMORY)
    return tuple(
        quota
        for name in flavors
        for quota in (
            Quota(
                flavor=name,
                resource=Resource.GPU_CARDS,
                own_nominal=cards,
                borrowing_limit=borrow,
                lending_limit=lend,
            ),
            *(Quota(flavor=name, resource=resource, own_nominal=None) for resource in others),
        )
    )


def queue(name: str, **facts: Any) -> Queue:
    """A best-effort queue at the quota node of its own name."""
    return Queue(**{"id": name, "quota_node": name, "flavors": ("a100",), **facts})


def role(
    tasks: int = 1,
    cards: int = 1,
    *,
    name: str = "worker",
    least: int | None = None,
    cpu: int = 0,
    memory: int = 0,
    **gpu: Any,
) -> Role:
    """Tasks with whole cards, or with slices when `cores` are named, or without cards.

    A slice without `card_memory` (MiB) gets as many percent of memory as it has of cores.
    """
    asked = None
    if cards:
        if "cores" in gpu:
            mib = gpu.pop("card_memory", None)
            gpu |= {
                "mode": GpuMode.SLICE,
                "memory": mib,
                "memory_percent": gpu["cores"] if mib is None else None,
            }
        asked = GpuRequest(cards=cards, **gpu)
    request = Request(cpu=cpu, memory=memory, gpu=asked)
    return Role(name=name, replicas=tasks, min_replicas=least, request=request)


def job(name: str, queue_id: str = "a", *roles: Role, at: float = 0, **facts: Any) -> Job:
    """A job with one whole card unless roles are given."""
    return Job(
        **{"id": name, "queue": queue_id, "roles": roles or (role(),), "submitted_at": Instant(at), **facts}
    )


def world(
    nodes: Iterable[Node] = (),
    jobs: Iterable[Job] = (),
    *,
    teams: Mapping[str, tuple[Quota, ...]] | None = None,
    queues: Iterable[Queue] | None = None,
    flavors: Iterable[Flavor] | None = None,
) -> Snapshot:
    """A root with one leaf and one queue per team; one team `a` with 100 cards by default."""
    teams = teams or {"a": quotas(100)}
    return Snapshot(
        nodes=nodes,
        flavors=[flavor()] if flavors is None else flavors,
        quota_nodes=[
            QuotaNode(id="root"),
            *(QuotaNode(id=name, parent="root", quotas=limits) for name, limits in teams.items()),
        ],
        queues=[queue(name) for name in teams] if queues is None else queues,
        jobs=jobs,
    )


def cycle(snapshot: Snapshot, config: EngineConfig | None = None, now: Instant = NOW) -> CycleResult:
    """One cycle with the default configuration."""
    return run_cycle(snapshot, config or EngineConfig(), now)


def started(result: CycleResult) -> list[str]:
    """The jobs that were admitted, in decision order."""
    return [decision.job for decision in result.decisions]


def outcome(result: CycleResult, job_id: str) -> JobOutcome:
    """Return the outcome of one job."""
    return next(item for item in result.outcomes if item.job == job_id)


def ways_of(found: JobOutcome) -> dict[HelpCode, dict[str, object]]:
    """Return the recommendations of an outcome, by code."""
    return {way.code: dict(way.numbers) for way in found.help}


def commit(snapshot: Snapshot, result: CycleResult) -> None:
    """Let all decisions take effect."""
    changes: list[Change] = []
    for decision in result.decisions:
        facts = {field: getattr(snapshot.jobs[decision.job], field) for field in Job.__slots__}
        changes.append(JobPut(Job(**{**facts, "state": JobState.LIVE})))
        changes.extend(AllocationPut(allocation) for allocation in decision.allocations)
    snapshot.apply_delta(Delta(tuple(changes)))


def workload_of(jobs: Iterable[Job]) -> TaskWorkload:
    """Return the workload mix of these jobs, on cards of 100 core units."""
    return WorkloadMix(100).follow_changes({job.id: job for job in jobs}, JobChanges())
