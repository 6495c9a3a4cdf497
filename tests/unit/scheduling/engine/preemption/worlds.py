"""Cohorts of queues with running jobs, in cards and nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from foundation.core.quantities import Resource
from scheduling.engine import (
    FairSharing,
    PreemptionOptions,
    Preemptor,
    Snapshot,
    TargetSet,
    VictimOrder,
    VictimSearch,
)
from scheduling.engine.model import (
    Allocation,
    Charge,
    Flavor,
    FlavorResource,
    Instant,
    Job,
    JobState,
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
    Queue,
    Quota,
    QuotaNode,
    Request,
    Role,
)

NOW = Instant(10_000)
CARDS = FlavorResource("h100", Resource.GPU_CARDS)
RECLAIM = PreemptionPolicy(within_queue=PreemptWithin.LOWER_PRIORITY, reclaim=PreemptOthers.ANY)
NORMATIVE = PreemptionOptions(
    victim_order=VictimOrder.NORMATIVE, final_check=False, borrowers_evict_borrowers_only=False
)
PLATFORM = PreemptionOptions()


def running(
    name: str, queue: str, tasks: int, *, each: int = 1, least: int | None = None, **facts: Any
) -> Job:
    """Return a live job of `tasks` tasks with `each` cards, which got its quota at 9000."""
    role = Role(name=str(each), replicas=tasks, request=Request(), min_replicas=least)
    known = {"state": JobState.LIVE, "admitted_at": Instant(9_000), "submitted_at": Instant(0), **facts}
    return Job(**{"id": name, "queue": queue, "roles": (role,), **known})


def held(job: Job) -> tuple[Allocation, ...]:
    """Return what a running job's tasks hold."""
    return tuple(
        Allocation(
            job=job.id,
            queue=job.queue,
            role=role.name,
            index=index,
            flavor=CARDS.flavor,
            node="",
            charges=(Charge(*CARDS, int(role.name)),),
        )
        for role in job.roles
        for index in range(role.replicas)
    )


def cohort(
    nominal: Mapping[str, int],
    jobs: Iterable[Job],
    *,
    policy: PreemptionPolicy = RECLAIM,
    parents: Mapping[str, str] | None = None,
) -> Snapshot:
    """Return queues below one root, or below their `parents`, with their running jobs."""
    jobs, parents = tuple(jobs), parents or {}
    allocations = [task for job in jobs for task in held(job)]
    used: dict[str, int] = {}
    for task in allocations:
        used[task.queue] = used.get(task.queue, 0) + task.charges[0].amount
    inner = sorted(set(parents.values()) - {"all"})
    return Snapshot(
        flavors=[Flavor(id=CARDS.flavor, placed=False)],
        quota_nodes=[
            QuotaNode(id="all"),
            *(QuotaNode(id=name, parent=parents.get(name, "all")) for name in inner),
            *(
                QuotaNode(
                    id=name,
                    parent=parents.get(name, "all"),
                    quotas=(Quota(flavor=CARDS.flavor, resource=CARDS.resource, own_nominal=cards),),
                    usage=(Charge(*CARDS, used.get(name, 0)),),
                )
                for name, cards in nominal.items()
            ),
        ],
        queues=[Queue(id=name, quota_node=name, preemption=policy) for name in nominal],
        jobs=jobs,
        allocations=allocations,
    )


def wants(snapshot: Snapshot, queue: str, cards: int, *, priority: int = 0, **facts: Any) -> Preemptor:
    """Return a pending job in a queue with some cards."""
    job = Job(
        **{"id": "new", "queue": queue, "roles": (), "submitted_at": Instant(5_000), **facts},
        priority=priority,
    )
    return Preemptor(
        job=job, queue=snapshot.queues[queue], usage={CARDS: cards}, contested=frozenset({CARDS})
    )


def search(
    snapshot: Snapshot,
    preemptor: Preemptor,
    options: PreemptionOptions = PLATFORM,
    *,
    fair: bool = False,
    **facts: Any,
) -> TargetSet:
    """Search victims once."""
    sharing = FairSharing() if fair else None
    return VictimSearch(snapshot, options=options, now=NOW, fair=sharing).find_victims(preemptor, **facts)


def names(found: TargetSet) -> list[str]:
    """Return the jobs to evict, sorted."""
    return sorted(target.job for target in found.targets)
