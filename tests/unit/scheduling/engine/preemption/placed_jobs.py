"""Running jobs on nodes: cards by name, counted in core units, 100 of them for a whole card."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from foundation.core.quantities import Resource
from scheduling.engine import (
    EngineConfig,
    FairSharing,
    PreemptionOptions,
    Preemptor,
    Snapshot,
    TargetSet,
    VictimSearch,
    resolve_config,
)
from scheduling.engine.model import (
    Allocation,
    Charge,
    DeviceSlice,
    FlavorResource,
    Instant,
    Job,
    JobState,
    PlacementRules,
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
    Queue,
    Quota,
    QuotaNode,
    Role,
)
from scheduling.engine.placement.board import ScoreBoard
from scheduling.engine.placement.placer import placer_for
from scheduling.engine.state.task_shape import resolve_shape
from tests.unit.scheduling.engine.builders import CARD_MIB, flavor, node, role

CORES = FlavorResource("a100", Resource.GPU_CORES)
NOW = Instant(10_000)
POLICY = PreemptionPolicy(within_queue=PreemptWithin.LOWER_PRIORITY, reclaim=PreemptOthers.ANY)
# Borrowers may preempt each other here if that costs little, so that a search tries all its ways.
PLATFORM = PreemptionOptions(max_loss_s=600)


def task(job: Job, index: int, place: str, *, leaving: bool = False) -> Allocation:
    """Return one task on the cards of a node: `n0:0,1` has two whole ones, `n0:1@30` 30 core units of one."""
    name, _, cards = place.partition(":")
    slices = []
    for card in filter(None, cards.split(",")):
        number, _, cores = card.partition("@")
        share = int(cores or 100)
        slices.append(
            DeviceSlice(
                device=f"{name}-gpu{number}",
                cores=share,
                memory=CARD_MIB * share // 100,
                exclusive=share == 100,
            )
        )
    request = job.roles[0].request
    return Allocation(
        job=job.id,
        queue=job.queue,
        role=job.roles[0].name,
        index=index,
        flavor="a100",
        node=name,
        cpu=request.cpu,
        memory=request.memory,
        slices=tuple(slices),
        charges=(Charge(*CORES, sum(part.cores for part in slices)),),
        leaving=leaving,
    )


def on(
    name: str, queue: str, *places: str, least: int | None = None, cpu: int = 0, memory: int = 0, **facts: Any
) -> tuple[Job, tuple[Allocation, ...]]:
    """Return a live job, which got its quota at 9000, with a task on each of the places."""
    asked = role(len(places), least=least, cpu=cpu, memory=memory)
    known = {"state": JobState.LIVE, "admitted_at": Instant(9_000), "submitted_at": Instant(0), **facts}
    job = Job(**{"id": name, "queue": queue, "roles": (asked,), **known})
    return job, tuple(task(job, index, place) for index, place in enumerate(places))


def site(
    cards: Sequence[int],
    nominal: Mapping[str, int],
    standing: Iterable[tuple[Job, tuple[Allocation, ...]]],
    *,
    policy: PreemptionPolicy = POLICY,
    **facts: Any,
) -> Snapshot:
    """Return nodes `n0`, `n1`, … with so many cards each, and queues that own so many cards each."""
    jobs, tasks = [], list[Allocation]()
    for job, held in standing:
        jobs.append(job)
        tasks.extend(held)
    used: dict[str, int] = {}
    for one in tasks:
        used[one.queue] = used.get(one.queue, 0) + one.charges[0].amount
    leaves = [
        QuotaNode(
            id=name,
            parent="all",
            quotas=(Quota(flavor=CORES.flavor, resource=CORES.resource, own_nominal=100 * owned),),
        )
        for name, owned in nominal.items()
    ]
    snapshot = Snapshot(
        nodes=[node(f"n{number}", count, **facts) for number, count in enumerate(cards)],
        flavors=[flavor()],
        quota_nodes=[QuotaNode(id="all"), *leaves],
        queues=[Queue(id=name, quota_node=name, preemption=policy) for name in nominal],
        jobs=jobs,
    )
    for one in tasks:
        snapshot.add_allocation(one)
    return snapshot


def board_of(snapshot: Snapshot, asked: Role) -> ScoreBoard:
    """Return the board of the shape that a role asks for."""
    pool = snapshot.flavors["a100"]
    shape = resolve_shape(asked.request, PlacementRules(), pool)
    return placer_for(snapshot.fleet, resolve_config(EngineConfig()).rule).get_board(shape, pool)


def wants(snapshot: Snapshot, queue: str, asked: Role, **facts: Any) -> Preemptor:
    """Return a pending job with the tasks of one role."""
    gpu = asked.request.gpu
    each = 0 if gpu is None else gpu.cards * (gpu.cores or 100)
    known = {"id": "new", "queue": queue, "roles": (asked,), "submitted_at": Instant(5_000), **facts}
    return Preemptor(
        job=Job(**known),
        queue=snapshot.queues[queue],
        usage={CORES: each * asked.replicas},
        contested=frozenset({CORES}),
    )


def never() -> bool:
    """Refuse every placement: in these tests slots are counted, not placed."""
    raise AssertionError("nobody is seated where places are counted")


def search(
    snapshot: Snapshot,
    queue: str,
    asked: Role,
    options: PreemptionOptions = PLATFORM,
    *,
    fair: FairSharing | None = None,
    **facts: Any,
) -> TargetSet:
    """Search victims once under fair sharing; nothing is changed."""
    before = snapshot.to_json()
    preemptor = wants(snapshot, queue, asked, **facts)
    whole = VictimSearch(snapshot, options=options, now=NOW, fair=fair or FairSharing())
    found = whole.find_victims(preemptor, never, lambda: (board_of(snapshot, asked), asked.replicas))
    assert snapshot.to_json() == before
    return found


def tasks_to_evict(found: TargetSet) -> dict[str, tuple[str, ...]]:
    """Return the tasks to evict of each job; none for a job that is evicted as a whole."""
    return {target.job: tuple(sorted(target.tasks)) for target in found.targets}
