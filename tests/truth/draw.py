"""Random small cells: machines, pools, quota, queues, and jobs that come in waves."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

from scheduling.engine.model import (
    AffinityOperator,
    AllocationMode,
    Allowance,
    BarredFlavor,
    Device,
    Expression,
    Extended,
    Flavor,
    Fungibility,
    GpuMode,
    GpuRequest,
    Instant,
    Job,
    JobState,
    Node,
    PlacementRules,
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
    Preference,
    Queue,
    Quota,
    QuotaNode,
    Request,
    Role,
    StopPolicy,
    Strategy,
    Taint,
    Toleration,
    TolerationOperator,
    WhenCan,
)

MODELS = {"Xa": 40_000, "Xb": 80_000}
RESOURCES = ("gpu.cards", "gpu.cores", "gpu.memory", "cpu", "memory")
DAY = 86_400


@dataclass(frozen=True, kw_only=True)
class World:
    """The parts of a cell, and its history: waves of jobs arrive, then `lowered` quota nodes replace those of
    the same name, `cordoned` nodes accept no more tasks and `ended` jobs end, then the last wave arrives."""

    nodes: tuple[Node, ...]
    flavors: tuple[Flavor, ...]
    quota_nodes: tuple[QuotaNode, ...]
    queues: tuple[Queue, ...]
    waves: tuple[tuple[Job, ...], ...]
    lowered: tuple[QuotaNode, ...] = ()
    ended: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()
    lost_ppm: int = 0


class Draw:
    """Draws one world."""

    def __init__(self, random: Random, kind: str) -> None:
        self.random, self.kind = random, kind
        self.large = kind == "large"
        self.caps: dict[str, tuple[Allowance, ...]] = {}

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def world(self) -> World:
        flavors = tuple(self._flavor(i) for i in range(self.random.randint(1, 3)))
        nodes = tuple(self._node(i, flavors) for i in range(self.random.randint(2 if self.large else 3, 6)))
        cards = {f.id: sum(len(n.devices) for n in nodes if n.labels["pool"] == f.id) for f in flavors}
        quota_nodes, leaves = self._tree(flavors, cards)
        queues = tuple(self._queue(leaf, flavors) for leaf in leaves)
        self.caps = self._caps()
        waves = tuple(
            tuple(self._job(f"j{wave}{i}", wave, queues, flavors) for i in range(self.random.randint(5, 14)))
            for wave in range(2)
        )
        lowered = ()
        if self.kind == "lowered":
            lowered = tuple(self._lower(n) for n in quota_nodes if n.quotas and self.chance(0.5))
        ended = tuple(job.id for job in waves[0] if self.chance(0.15))
        return World(
            nodes=nodes,
            flavors=flavors,
            quota_nodes=quota_nodes,
            queues=queues,
            waves=waves,
            lowered=lowered,
            ended=ended,
        )

    # Machines

    def _flavor(self, number: int) -> Flavor:
        model = self.random.choice(sorted(MODELS))
        mode = GpuMode.SLICE if self.chance(0.35) else GpuMode.WHOLE
        taints = (Taint("team", "x"),) if self.chance(0.12) else ()
        return Flavor(
            id=f"f{number}",
            node_labels={"pool": f"f{number}"},
            taints=taints,
            card_model=model,
            card_memory=MODELS[model],
            mode=mode,
            policy=self.random.choice(("default", "compact", "compact", "spread")),
        )

    def _node(self, number: int, flavors: tuple[Flavor, ...]) -> Node:
        # Sometimes a pool has no machines.
        flavor = flavors[number] if number < len(flavors) - self.chance(0.2) else self.random.choice(flavors)
        cards = self.random.randint(16, 48) if self.large else self.random.randint(2, 8)
        devices = tuple(
            Device(
                uuid=f"n{number}-{index}",
                index=index,
                model=flavor.card_model,
                mode=flavor.mode,
                healthy=not self.chance(0.02),
                memory=flavor.card_memory,
            )
            for index in range(cards)
        )
        zone = self.random.choice("ab")
        return Node(
            id=f"n{number}",
            labels={"pool": flavor.id, "zone": zone},
            taints=(Taint("keep", "out"),) if self.chance(0.12) else (),
            schedulable=not self.chance(0.04),
            cpu=self.random.choice((16_000, 64_000)) * (6 if self.large else 1),
            memory=self.random.choice((65_536, 524_288)) * (6 if self.large else 1),
            devices=devices,
            rank=number,
        )

    # Quota

    def _tree(
        self, flavors: tuple[Flavor, ...], cards: dict[str, int]
    ) -> tuple[tuple[QuotaNode, ...], list[str]]:
        folders = ["top", "left", "right"][: self.random.choice((1, 1, 3, 2))]
        leaves = list("abcd"[: self.random.randint(1, 4)])
        made = [QuotaNode(id="top", quotas=self._quotas(flavors, cards, 0.15))]
        made += [QuotaNode(id=f, parent="top", quotas=self._quotas(flavors, cards, 0.3)) for f in folders[1:]]
        made += [
            QuotaNode(
                id=leaf,
                parent=self.random.choice(folders),
                quotas=self._quotas(flavors, cards, 1.0, len(leaves)),
                weight_milli=self.random.choice((1000, 1000, 2000, 500)),
            )
            for leaf in leaves
        ]
        return tuple(made), leaves

    def _quotas(
        self, flavors: tuple[Flavor, ...], cards: dict[str, int], chance: float, leaves: int = 2
    ) -> tuple[Quota, ...]:
        if not self.chance(chance):
            return ()
        found = []
        for flavor in flavors:
            if self.chance(0.1):
                continue
            nominal = self.random.randint(0, max(1, 2 * cards[flavor.id] // leaves))
            borrow = self.random.choice((None, None, 0, nominal // 2))
            lend = self.random.choice((None, None, nominal // 2, 0))
            found.append(self._quota(flavor.id, "gpu.cards", nominal, borrow, lend))
            if flavor.mode is GpuMode.WHOLE or self.chance(0.5):
                found.append(self._quota(flavor.id, "gpu.cores", nominal, borrow, lend, 100))
                found.append(self._quota(flavor.id, "gpu.memory", nominal, borrow, lend, flavor.card_memory))
            else:
                found += [Quota(flavor=flavor.id, resource=r, own_nominal=None) for r in RESOURCES[1:3]]
            if self.chance(0.15):
                found.append(self._quota(flavor.id, "cpu", nominal, borrow, lend, 4_000))
            else:
                found.append(Quota(flavor=flavor.id, resource="cpu", own_nominal=None))
            found.append(Quota(flavor=flavor.id, resource="memory", own_nominal=None))
        return tuple(found)

    def _quota(
        self, flavor: str, resource: str, nominal: int, borrow: int | None, lend: int | None, unit: int = 1
    ) -> Quota:
        return Quota(
            flavor=flavor,
            resource=resource,
            own_nominal=nominal * unit,
            borrowing_limit=None if borrow is None else borrow * unit,
            lending_limit=None if lend is None else lend * unit,
        )

    def _lower(self, node: QuotaNode) -> QuotaNode:
        part = self.random.choice((2, 2, 3, 4))
        lowered = tuple(
            quota if quota.own_nominal is None else replace(quota, own_nominal=_in_units(quota, part))
            for quota in node.quotas
        )
        return replace(node, quotas=lowered)

    # Queues

    def _queue(self, leaf: str, flavors: tuple[Flavor, ...]) -> Queue:
        random = self.random
        names = [f.id for f in random.sample(flavors, random.randint(1, len(flavors)))]
        return Queue(
            id=leaf,
            quota_node=leaf,
            flavors=tuple(names),
            strategy=Strategy.STRICT_FIFO if self.chance(0.15) else Strategy.BEST_EFFORT_FIFO,
            stop_policy=self._stop(),
            allocation_mode=AllocationMode.STATIC if self.chance(0.12) else AllocationMode.DYNAMIC,
            preemption=PreemptionPolicy(
                within_queue=random.choice(tuple(PreemptWithin)),
                reclaim=random.choice((PreemptOthers.ANY, PreemptOthers.ANY, *PreemptOthers)),
            ),
            fungibility=Fungibility(
                when_can_borrow=random.choice(tuple(WhenCan)),
                when_can_preempt=WhenCan.MAY_STOP_SEARCH if self.chance(0.3) else WhenCan.TRY_NEXT_FLAVOR,
                preference=random.choice((Preference.BORROWING_OVER_PREEMPTION, *Preference)),
            ),
            backfill=self.chance(0.8),
            user_shares=self.chance(0.3),
        )

    def _stop(self) -> StopPolicy:
        if self.chance(0.9):
            return StopPolicy.NONE
        return self.random.choice((StopPolicy.HOLD, StopPolicy.HOLD_AND_DRAIN))

    # Jobs

    def _caps(self) -> dict[str, tuple[Allowance, ...]]:
        """Return what limited users may hold together."""
        limits = {user: self.random.choice((1, 4, 10)) for user in ("ann", "bob") if self.chance(0.2)}
        return {user: (Allowance(user, "gpu.cards", limit, 0),) for user, limit in limits.items()}

    def _barred(self, queue: Queue, *, preemptible: bool) -> tuple[BarredFlavor, ...]:
        """Return flavors whose budget is used up."""
        used_up = [name for name in queue.flavors if self.chance(0.05)]
        return tuple(
            BarredFlavor(name, "top", 120, 100, preemptible_only=not preemptible) for name in used_up
        )

    def _job(self, name: str, wave: int, queues: tuple[Queue, ...], flavors: tuple[Flavor, ...]) -> Job:
        random = self.random
        queue = random.choice(queues)
        two = self.chance(0.12)
        offered = {flavor.mode for flavor in flavors if flavor.id in queue.flavors or self.chance(0.05)}
        sliced = GpuMode.SLICE in offered and (GpuMode.WHOLE not in offered or self.chance(0.5))
        roles = [self._role("worker", sliced=sliced, models=self._models())]
        if two:
            roles.append(self._role("helper", sliced=False, models=(), small=True))
        evicted = random.choice((0, 1, 2, 3, 3)) if self.large else random.choice((0, 0, 0, 1, 2, 3))
        facts: dict[str, Any] = {}
        if self.chance(0.05):
            facts["state"] = JobState.SUSPENDED
        elif self.chance(0.05):
            facts["backoff_until"] = Instant(random.choice((10.0, 3.0 * DAY)))
        user, preemptible = random.choice(("ann", "bob")), not self.chance(0.15)
        return Job(
            id=name,
            queue=queue.id,
            roles=tuple(roles),
            submitted_at=Instant(8_000.0 * (wave + 1) - random.choice((50, 400, 7_000))),
            user=user,
            allowances=self.caps.get(user, ()),
            barred=self._barred(queue, preemptible=preemptible),
            priority=random.choice((0, 0, 1, 5)),
            preemptible=preemptible,
            min_run_s=random.choice((None, None, None, 3_600, 50_000)),
            max_run_s=random.choice((None, None, 7_200, 90_000)),
            evictions=evicted,
            rules=self._rules(),
            checkpoint_interval_s=random.choice((None, 600)),
            **facts,
        )

    def _models(self) -> tuple[str, ...]:
        if self.chance(0.9):
            return ()
        return (self.random.choice((*MODELS, *MODELS, "Xc")),)

    def _role(self, name: str, *, sliced: bool, models: tuple[str, ...], small: bool = False) -> Role:
        random = self.random
        tasks = random.choice((1, 1, 1, 2, 3, 4))
        elastic = tasks > 1 and self.chance(0.3)
        gpu = None
        if sliced:
            cores = random.choice((None, 25, 50, 100))
            memory = random.choice((10_000, 20_000, 60_000))
            percent = self.chance(0.3)
            gpu = GpuRequest(
                cards=random.choice((1, 1, 2)),
                mode=GpuMode.SLICE,
                cores=cores,
                memory=None if percent else memory,
                memory_percent=random.choice((10, 50, 80)) if percent else None,
                models=models,
            )
        elif not small or self.chance(0.3):
            most = random.choice((4, 8, 24, 40)) if self.large else random.choice((1, 2, 2, 4, 8))
            gpu = GpuRequest(cards=1 if small else random.randint(1, most), models=models)
        request = Request(
            cpu=random.choice((0, 0, 0, 1_000, 4_000, 20_000)),
            memory=random.choice((0, 0, 0, 4_096, 100_000)),
            gpu=gpu,
            extended=(Extended("rdma/nic", 1),) if self.chance(0.01) else (),
        )
        return Role(
            name=name,
            replicas=tasks,
            min_replicas=random.randint(1, tasks) if elastic else None,
            request=request,
        )

    def _rules(self) -> PlacementRules:
        facts: dict[str, Any] = {}
        if self.chance(0.08):
            facts["node_selector"] = {"zone": self.random.choice("abc")}
        elif self.chance(0.05):
            zones = (Expression("zone", AffinityOperator.IN, ("a",)),)
            facts["node_affinity"] = (zones,)
        elif self.chance(0.03):
            facts["node_name"] = f"n{self.random.randint(0, 6)}"
        tolerations = [Toleration("keep", TolerationOperator.EXISTS)] if self.chance(0.6) else []
        tolerations += [Toleration("team", value="x")] if self.chance(0.7) else []
        return PlacementRules(tolerations=tuple(tolerations), **facts)


def _in_units(quota: Quota, part: int) -> int:
    """Return a part of a nominal, rounded down to whole cards or the amounts that belong to one."""
    units = {"gpu.cards": 1, "gpu.cores": 100, "cpu": 4_000}
    unit = units.get(quota.resource, 40_000)
    assert quota.own_nominal is not None
    return quota.own_nominal // unit // part * unit
