"""A large cell as the engine sees it: nodes, a quota tree, running jobs and pending gangs.

Drawn from one seed, so equal sizes give equal cells. The mixture: two pools of whole GPUs and one of slices;
queues that use far less than their quota and queues that borrow; jobs from a tenth of a GPU to gangs over
many nodes, some elastic, in three priorities. Some jobs have already ended, so free capacity is fragmented.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from foundation.core.quantities import Resource
from scheduling.engine import AllocationPut, Delta, JobPut, Snapshot
from scheduling.engine.model import (
    Allocation,
    Charge,
    Device,
    DeviceSlice,
    Flavor,
    GpuMode,
    GpuRequest,
    Instant,
    Job,
    JobState,
    Node,
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
    Queue,
    Quota,
    QuotaNode,
    Request,
    Role,
)

CARDS, CARD_MIB, CORES = 8, 81_920, 100
NODES_PER_RACK = 32
QUEUES_PER_FOLDER = 20
NOW = Instant(1_000_000)
DAY_S = 86_400
# How full pools are filled, and how full they are after some jobs have ended again.
FILLED, LEFT = 0.96, 0.90


@dataclass(frozen=True, slots=True)
class CellSize:
    """The size of a cell; all numbers grow with the nodes."""

    nodes: int
    queues: int
    tasks: int
    gangs: int

    @classmethod
    def for_nodes(cls, nodes: int) -> CellSize:
        """Return the size for `nodes` nodes: per thousand 20 queues, about 5,000 tasks and 100 gangs."""
        return cls(nodes, max(4, nodes // 50), 5 * nodes, max(4, nodes // 10))


@dataclass(frozen=True, slots=True)
class CellPool:
    """Nodes with one GPU model. `share` is the pool's part of the cell's nodes."""

    name: str
    mode: GpuMode
    share: float


POOLS = (
    CellPool("a100", GpuMode.WHOLE, 0.45),
    CellPool("h100", GpuMode.WHOLE, 0.35),
    CellPool("l40s", GpuMode.SLICE, 0.20),
)


@dataclass(frozen=True, slots=True)
class TaskKind:
    """Jobs of one shape: tasks, the minimum of tasks, GPUs of each, core units of a GPU."""

    weight: int
    tasks: int
    cards: int
    least: int | None = None
    cores: int = CORES


RUNNING_WHOLE = (
    TaskKind(50, 1, 1),
    TaskKind(15, 1, 2),
    TaskKind(10, 1, 4),
    TaskKind(6, 1, 8),
    TaskKind(3, 2, 8),
    TaskKind(2, 4, 8),
    TaskKind(1, 8, 8),
    TaskKind(8, 4, 1, least=2),
    TaskKind(5, 4, 2, least=3),
)
RUNNING_SLICED = (
    TaskKind(20, 1, 1, cores=25),
    TaskKind(10, 1, 1, cores=10),
    TaskKind(40, 1, 1, cores=50),
    TaskKind(10, 2, 1, cores=80),
    TaskKind(20, 3, 1, least=1, cores=60),
)
WAITING_WHOLE = (
    TaskKind(20, 2, 4),
    TaskKind(20, 2, 8),
    TaskKind(15, 4, 8),
    TaskKind(10, 8, 4, least=4),
    TaskKind(10, 8, 8),
    TaskKind(5, 16, 8),
    TaskKind(10, 4, 2),
    TaskKind(10, 6, 1, least=3),
)
WAITING_SLICED = (
    TaskKind(4, 4, 1, cores=50),
    TaskKind(2, 8, 1, least=4, cores=50),
    TaskKind(1, 6, 1, cores=80),
)
PRIORITIES = (0, 0, 0, 10, 10, 100)


@dataclass(frozen=True, slots=True)
class CellTenant:
    """A leaf of the tree: its flavors in order, its part of their quota, and the used part of that."""

    name: str
    folder: str
    flavors: tuple[str, ...]
    part: int
    appetite: float


@dataclass(slots=True)
class BenchCell:
    """A cell and its random generator. `serial` counts jobs."""

    size: CellSize
    snapshot: Snapshot
    tenants: tuple[CellTenant, ...]
    draw: random.Random
    serial: int = 0

    def new_gangs(self, count: int, now: Instant) -> Iterator[Job]:
        """Yield `count` new pending jobs."""
        weights = [tenant.part for tenant in self.tenants]
        for tenant in self.draw.choices(self.tenants, weights, k=count):
            yield self.new_gang(tenant, now)

    def new_gang(self, tenant: CellTenant, now: Instant) -> Job:
        """Return a job that was submitted within the last hour."""
        kinds = WAITING_SLICED if _sliced(tenant) else WAITING_WHOLE
        kind = self.draw.choices(kinds, [kind.weight for kind in kinds])[0]
        self.serial += 1
        return Job(
            id=f"w{self.serial:07d}",
            queue=tenant.name,
            user=f"{tenant.name}-u{self.draw.randrange(4)}",
            roles=(role_of(kind, _mode(tenant)),),
            submitted_at=Instant(now - self.draw.randrange(3_600)),
            priority=self.draw.choice(PRIORITIES),
            checkpoint_interval_s=self.draw.choice((None, 600, 1_800)),
        )


def build_cell(size: CellSize, seed: int = 42) -> BenchCell:
    """Return a cell at `NOW`, about nine tenths full."""
    draw = random.Random(seed)
    nodes = {pool.name: tuple(_nodes(pool, size)) for pool in POOLS}
    tenants = tuple(_tenants(size, draw))
    snapshot = Snapshot(
        nodes=[node for pool in POOLS for node in nodes[pool.name]],
        flavors=[
            Flavor(id=p.name, node_labels={"pool": p.name}, card_memory=CARD_MIB, mode=p.mode) for p in POOLS
        ],
        quota_nodes=_tree(tenants, {name: CARDS * len(own) for name, own in nodes.items()}),
        queues=[_queue(tenant) for tenant in tenants],
    )
    cell = BenchCell(size, snapshot, tenants, draw)
    for pool in POOLS:
        snapshot.apply_delta(Delta(tuple(_fill(cell, pool, nodes[pool.name]))))
    snapshot.apply_delta(Delta(tuple(JobPut(job) for job in cell.new_gangs(size.gangs, NOW))))
    return cell


def different_jobs(count: int, *, borrows: bool, nodes: int = 100) -> Snapshot:
    """Return a full cell in which `count` jobs of one user wait that all request another amount of CPU, in a
    queue that has quota for half of the GPUs, or for none.
    """
    pool, whole = CellPool("a100", GpuMode.WHOLE, 1.0), TaskKind(1, 1, CARDS)
    placed = tuple(_nodes(pool, CellSize.for_nodes(nodes)))
    own = {"full": CARDS * nodes, "many": 0 if borrows else CARDS * nodes // 2}
    snapshot = Snapshot(
        nodes=placed,
        flavors=[Flavor(id=pool.name, node_labels={"pool": pool.name}, card_memory=CARD_MIB, mode=pool.mode)],
        quota_nodes=[
            QuotaNode(id="cell"),
            *(
                QuotaNode(id=name, parent="cell", quotas=tuple(_quotas(pool.name, cards)))
                for name, cards in own.items()
            ),
        ],
        queues=[Queue(id=name, quota_node=name, flavors=(pool.name,)) for name in own],
    )
    for node in placed:
        job = Job(id=node.id, queue="full", user="full", roles=(role_of(whole, pool.mode),), submitted_at=NOW)
        live = replace(job, state=JobState.LIVE, admitted_at=NOW, running_since=NOW)
        task = _task(live, whole, 0, pool, node, range(CARDS))
        snapshot.apply_delta(Delta((JobPut(live), AllocationPut(task))))
    asked = role_of(TaskKind(1, 1, 2), pool.mode)
    for number in range(count):
        role = replace(asked, request=replace(asked.request, cpu=1 + number))
        at = Instant(NOW + number)
        job = Job(id=f"w{number:06d}", queue="many", user="many", roles=(role,), submitted_at=at)
        snapshot.apply_delta(Delta((JobPut(job),)))
    return snapshot


# Inventory and quota


def _nodes(pool: CellPool, size: CellSize) -> Iterator[Node]:
    for number in range(round(pool.share * size.nodes)):
        name = f"{pool.name}-{number:05d}"
        yield Node(
            id=name,
            labels={"pool": pool.name, "rack": f"{pool.name}-r{number // NODES_PER_RACK:04d}"},
            cpu=128_000,
            memory=1_048_576,
            devices=tuple(
                Device(uuid=f"{name}-{i}", index=i, model=pool.name, mode=pool.mode, memory=CARD_MIB)
                for i in range(CARDS)
            ),
        )


def _tenants(size: CellSize, draw: random.Random) -> Iterator[CellTenant]:
    choices = (("a100",), ("h100",), ("a100", "h100"), ("h100", "a100"))
    for number in range(size.queues):
        sliced = number % 4 == 3
        yield CellTenant(
            name=f"team-{number:04d}",
            folder=f"division-{number // QUEUES_PER_FOLDER:03d}",
            flavors=("l40s",) if sliced else choices[number % len(choices)],
            part=draw.choice((1, 1, 2, 2, 3, 5)),
            # A third of the teams use only part of their quota, and the others exceed it.
            appetite=draw.choice((0.4, 1.2, 1.6)),
        )


def _tree(tenants: Sequence[CellTenant], cards: dict[str, int]) -> Iterator[QuotaNode]:
    yield QuotaNode(id="cell")
    for folder in sorted({tenant.folder for tenant in tenants}):
        yield QuotaNode(id=folder, parent="cell")
    parts: defaultdict[str, int] = defaultdict(int)
    for tenant in tenants:
        for flavor in tenant.flavors:
            parts[flavor] += tenant.part
    for number, tenant in enumerate(tenants):
        nominal = {name: cards[name] * tenant.part // parts[name] for name in tenant.flavors}
        yield QuotaNode(
            id=tenant.name,
            parent=tenant.folder,
            quotas=tuple(quota for name in tenant.flavors for quota in _quotas(name, nominal[name])),
            weight_milli=(1000, 1000, 2000)[number % 3],
        )


def _quotas(flavor: str, cards: int) -> Iterator[Quota]:
    limited = {Resource.GPU_CARDS: 1, Resource.GPU_CORES: CORES, Resource.GPU_MEMORY: CARD_MIB}
    # Several jobs share a GPU, so its number of jobs does not measure what is held.
    if flavor == "l40s":
        limited[Resource.GPU_CARDS] = 10
    for resource, each in limited.items():
        yield Quota(
            flavor=flavor, resource=resource, own_nominal=cards * each, borrowing_limit=2 * cards * each
        )
    yield Quota(flavor=flavor, resource=Resource.CPU, own_nominal=None)
    yield Quota(flavor=flavor, resource=Resource.MEMORY, own_nominal=None)


def _queue(tenant: CellTenant) -> Queue:
    return Queue(
        id=tenant.name,
        quota_node=tenant.name,
        flavors=tenant.flavors,
        preemption=PreemptionPolicy(within_queue=PreemptWithin.LOWER_PRIORITY, reclaim=PreemptOthers.ANY),
    )


# Work


def role_of(kind: TaskKind, mode: GpuMode) -> Role:
    """Return the one role of a kind of job."""
    memory = CARD_MIB * kind.cores // CORES
    gpu = GpuRequest(cards=kind.cards)
    if mode is GpuMode.SLICE:
        gpu = GpuRequest(cards=kind.cards, mode=GpuMode.SLICE, cores=kind.cores, memory=memory)
    return Role(
        name="worker",
        replicas=kind.tasks,
        min_replicas=kind.least,
        request=Request(cpu=_cpu(kind), memory=_memory(kind), gpu=gpu),
    )


def _cpu(kind: TaskKind) -> int:
    return 120 * kind.cores * kind.cards


def _memory(kind: TaskKind) -> int:
    return 960 * kind.cores * kind.cards


def charges_of(kind: TaskKind, flavor: str) -> tuple[Charge, ...]:
    """Return the charges of one task to the quota of a flavor."""
    amounts = {
        Resource.CPU: _cpu(kind),
        Resource.MEMORY: _memory(kind),
        Resource.GPU_CARDS: kind.cards,
        Resource.GPU_CORES: kind.cores * kind.cards,
        Resource.GPU_MEMORY: CARD_MIB * kind.cores // CORES * kind.cards,
    }
    return tuple(sorted(Charge(flavor, what, amount) for what, amount in amounts.items()))


@dataclass(slots=True)
class _Stock:
    """The free core units by GPU of one pool, and the nodes by their free GPUs for a kind."""

    nodes: Sequence[Node]
    free: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.free = [[CORES] * CARDS for _ in self.nodes]

    def find_cards(self, kind: TaskKind, draw: random.Random) -> tuple[int, tuple[int, ...]] | None:
        """Return a node and its GPUs: the fullest of a few random ones, or else the first that fits."""
        looked = [draw.randrange(len(self.nodes)) for _ in range(8)]
        fitting = [index for index in looked if self._room(index, kind) >= kind.cards]
        if fitting:
            at = min(fitting, key=lambda index: (sum(self.free[index]), index))
        else:
            rest = (index for index in range(len(self.nodes)) if self._room(index, kind) >= kind.cards)
            found = next(rest, None)
            if found is None:
                return None
            at = found
        cards = sorted(range(CARDS), key=lambda card: (self.free[at][card], card))
        return at, tuple(card for card in cards if self.free[at][card] >= kind.cores)[: kind.cards]

    def take_cards(self, at: int, cards: Iterable[int], cores: int) -> None:
        for card in cards:
            self.free[at][card] -= cores

    def _room(self, at: int, kind: TaskKind) -> int:
        return sum(free >= kind.cores for free in self.free[at])


def _fill(cell: BenchCell, pool: CellPool, nodes: Sequence[Node]) -> Iterator[JobPut | AllocationPut]:
    """Yield the jobs that run in a pool, after some of the original ones have ended."""
    draw, stock = cell.draw, _Stock(nodes)
    users = [tenant for tenant in cell.tenants if pool.name in tenant.flavors]
    hunger = [tenant.part * tenant.appetite for tenant in users]
    kinds = RUNNING_SLICED if pool.mode is GpuMode.SLICE else RUNNING_WHOLE
    weights = [kind.weight for kind in kinds]
    capacity, used = CORES * CARDS * len(nodes), 0
    running: list[tuple[Job, list[Allocation], int]] = []
    while used < FILLED * capacity:
        kind, tenant = draw.choices(kinds, weights)[0], draw.choices(users, hunger)[0]
        job, tasks = _running(cell, tenant, pool, kind), []
        for index in range(kind.tasks):
            place = stock.find_cards(kind, draw)
            if place is None:
                break
            stock.take_cards(*place, kind.cores)
            tasks.append(_task(job, kind, index, pool, nodes[place[0]], place[1]))
        if len(tasks) < (kind.least or kind.tasks):
            break
        taken = len(tasks) * kind.cards * kind.cores
        used += taken
        running.append((job, tasks, taken))
    draw.shuffle(running)
    while used > LEFT * capacity:
        used -= running.pop()[2]
    for job, tasks, _ in running:
        yield JobPut(job)
        yield from (AllocationPut(task) for task in tasks)


def _running(cell: BenchCell, tenant: CellTenant, pool: CellPool, kind: TaskKind) -> Job:
    draw = cell.draw
    cell.serial += 1
    since = Instant(NOW - draw.randrange(3 * DAY_S))
    return Job(
        id=f"r{cell.serial:07d}",
        queue=tenant.name,
        user=f"{tenant.name}-u{draw.randrange(4)}",
        roles=(role_of(kind, pool.mode),),
        submitted_at=Instant(since - draw.randrange(3_600)),
        priority=draw.choice(PRIORITIES),
        preemptible=draw.random() < 0.9,
        state=JobState.LIVE,
        admitted_at=since,
        running_since=since,
        min_run_s=draw.choice((None, None, None, 7_200)),
        max_run_s=draw.choice((None, None, 7 * DAY_S)),
        checkpoint_interval_s=draw.choice((None, 600, 1_800, 3_600)),
    )


def _task(
    job: Job, kind: TaskKind, index: int, pool: CellPool, node: Node, cards: Sequence[int]
) -> Allocation:
    whole = kind.cores == CORES
    memory = CARD_MIB * kind.cores // CORES
    return Allocation(
        job=job.id,
        queue=job.queue,
        role="worker",
        index=index,
        flavor=pool.name,
        node=node.id,
        cpu=_cpu(kind),
        memory=_memory(kind),
        slices=tuple(
            DeviceSlice(node.devices[card].uuid, kind.cores, memory, whole) for card in sorted(cards)
        ),
        charges=_priced(kind, pool.name),
    )


_PRICES: dict[tuple[TaskKind, str], tuple[Charge, ...]] = {}


def _priced(kind: TaskKind, flavor: str) -> tuple[Charge, ...]:
    known = _PRICES.get((kind, flavor))
    if known is None:
        known = _PRICES[kind, flavor] = charges_of(kind, flavor)
    return known


def _sliced(tenant: CellTenant) -> bool:
    return tenant.flavors == ("l40s",)


def _mode(tenant: CellTenant) -> GpuMode:
    return GpuMode.SLICE if _sliced(tenant) else GpuMode.WHOLE
