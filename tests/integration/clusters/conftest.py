"""Clusters for the contract tests, and builders for the requests to them.

A backend joins the contract suite by a harness: a function that yields a `Harness`, named in
`HARNESSES`. Its cluster has at least two nodes with two whole cards each and one with a sliced card.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.base import (
    ClusterBackend,
    DeviceGrant,
    GangRef,
    Inventory,
    NodeFact,
    ObservedBatch,
    OutcomeKind,
    PodEvent,
    PodObservation,
    PodOutcome,
    PodPhase,
    TaskRef,
    TaskSpec,
)
from clusters.backends.kubernetes.nodes import shares
from clusters.backends.registry import backend_for
from clusters.backends.simulated import NodeGroup, build_cluster
from clusters.gpu import hami
from clusters.models import Cell, Cluster
from tests.fixtures.agents import Agents
from tests.fixtures.kubelet import Cluster as KubeCluster
from tests.fixtures.kubelet import Kubelets
from tests.fixtures.kubelet_logs import serving_logs
from tests.fixtures.kueue import Kueue

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
PRODUCT = "nvidia.com/gpu.product"
WORKSPACE = "0190a3b4-5c6d-7e8f-9a0b-1c2d3e4f5a6b"
NODE_GROUPS = (
    NodeGroup(prefix="whole-", nodes=3, cards=2, card_model="A100-40G", card_memory_mib=40_960),
    NodeGroup(prefix="slice-", nodes=2, cards=2, card_model="L40S", card_memory_mib=46_068, mode="slice"),
)


@dataclass
class Harness:
    """A cluster under test. `pass_time` lets that many seconds go by in the cluster; `agents_sleep` stops the
    agents of its nodes, so that they change nothing any more."""

    cluster: Cluster
    backend: ClusterBackend
    pass_time: Callable[[float], None]
    agents_sleep: Callable[[], object] = lambda: None
    agents: Agents | None = None
    seen: dict[str, PodObservation] = field(default_factory=dict)
    cursor: str | None = None

    def __post_init__(self) -> None:
        self.look()  # the first batch is a full list, which omits pods that have already gone

    def node(self, name: str) -> NodeFact:
        return next(node for node in self.backend.read_inventory().nodes if node.name == name)

    def spec(self, name: str, node: str = "whole-01", cards: int = 1, **changes: object) -> TaskSpec:
        """Return a pod on the first `cards` cards of a node; `changes` replace fields of the spec."""
        devices = tuple(DeviceGrant(d.uuid, 100, d.memory_mib) for d in self.node(node).devices[:cards])
        values: dict[str, object] = {
            "ref": TaskRef("team", name),
            "node": node,
            "cpu_millicores": 4000,
            "memory_mib": 8192,
            "devices": devices,
            "image": "pytorch/pytorch:2.8",
            "command": ("python", "train.py"),
            "environment": {"RANK": "0"},
            "labels": {"attempt": "1", "epoch": "7"},
            "workspace": WORKSPACE,
            "simulate": {"run_s": 60},
        }
        return TaskSpec(**{**values, **changes})  # type: ignore[arg-type]

    def sliced(self, name: str, cores: int, memory_mib: int = 8192, **changes: object) -> TaskSpec:
        """Return a pod on a slice of the first card of the sliced node."""
        card = self.node("slice-01").devices[0]
        return self.spec(
            name, node="slice-01", devices=(DeviceGrant(card.uuid, cores, memory_mib),), **changes
        )

    def place(self, *specs: TaskSpec, limit_s: float = 60) -> list[PodOutcome]:
        """Ask for pods until each answer is known, as the platform's sweep does."""
        outcomes = self.backend.ensure_many(specs)
        passed = 0.0
        while any(outcome.kind is OutcomeKind.UNKNOWN for outcome in outcomes):
            assert passed < limit_s, f"not known after {limit_s} s: {outcomes}"
            self.pass_time(1)
            passed += 1
            outcomes = self.backend.ensure_many(specs)
        return outcomes

    def resize(self, spec: TaskSpec, memory_mib: int, limit_s: float = 60) -> PodOutcome:
        """Ask for another memory until the answer is known, as the platform's sweep does."""
        wanted = [replace(grant, memory_mib=memory_mib) for grant in spec.devices]
        outcome, passed = self.backend.resize_devices(spec.ref, wanted), 0.0
        while outcome.kind is OutcomeKind.UNKNOWN:
            assert passed < limit_s, f"not known after {limit_s} s: {outcome}"
            self.pass_time(1)
            passed += 1
            outcome = self.backend.resize_devices(spec.ref, wanted)
        return outcome

    def look(self) -> dict[str, PodObservation]:
        """Observe as the platform does, from the last cursor, and return the latest of each pod name."""
        batch = self.backend.observe_pods(self.cursor)
        self.cursor = batch.cursor
        for seen in batch.observations:
            if isinstance(seen, PodObservation):
                self.seen[seen.ref.name] = seen
        return self.seen

    def until(self, name: str, *phases: PodPhase, limit_s: float = 200) -> PodObservation:
        """Let time pass until a pod is in one of the phases."""
        passed = 0.0
        while (seen := self.look().get(name)) is None or seen.phase not in phases:
            assert passed < limit_s, f"{name} is {seen and seen.phase} after {limit_s} s, not {phases}"
            self.pass_time(1)
            passed += 1
        return seen


@contextmanager
def simulated(traveller: time_machine.Traveller) -> Iterator[Harness]:
    cell = Cell.unscoped.create(name="cell")
    cluster = Cluster.unscoped.create(cell=cell, name="sim", backend="simulated")
    build_cluster(cluster, node_groups=NODE_GROUPS)
    yield Harness(cluster, backend_for(cluster), lambda seconds: traveller.shift(timedelta(seconds=seconds)))


class Scripted(ClusterBackend):
    """A Kubernetes cluster whose kubelets act by the pods' scripts."""

    def __init__(self, backend: ClusterBackend, kubelets: Kubelets) -> None:
        self._backend, self._kubelets, self.capabilities = backend, kubelets, backend.capabilities
        self.resizes = False

    def ensure_pod(self, spec: TaskSpec) -> PodOutcome:
        return self.ensure_many([spec])[0]

    def ensure_many(self, specs: Sequence[TaskSpec]) -> list[PodOutcome]:
        for spec in specs:
            self._kubelets.scripts.setdefault((spec.ref.namespace, spec.ref.name), spec.simulate)
        return self._backend.ensure_many(specs)

    def read_inventory(self) -> Inventory:
        return self._backend.read_inventory()

    def remove_pod(self, ref: TaskRef, grace_s: int) -> PodOutcome:
        return self._backend.remove_pod(ref, grace_s)

    def remove_many(self, refs: Sequence[TaskRef], grace_s: int) -> list[PodOutcome]:
        return self._backend.remove_many(refs, grace_s)

    def resize_devices(self, ref: TaskRef, devices: Sequence[DeviceGrant]) -> PodOutcome:
        self.resizes = True
        return self._backend.resize_devices(ref, devices)

    def mark_schedulable(self, node: str, *, schedulable: bool) -> PodOutcome:
        return self._backend.mark_schedulable(node, schedulable=schedulable)

    def remove_gangs(self, gangs: Sequence[GangRef]) -> list[PodOutcome]:
        return self._backend.remove_gangs(gangs)

    def observe_pods(self, cursor: str | None, *, whole: bool = False) -> ObservedBatch:
        return self._backend.observe_pods(cursor, whole=whole)

    def pods_exist(self, refs: Sequence[TaskRef]) -> list[bool]:
        return self._backend.pods_exist(refs)

    def verify_agent(self, token: str, node: str) -> bool:
        return self._backend.verify_agent(token, node)

    def list_pod_events(self, refs: Sequence[TaskRef]) -> list[PodEvent]:
        return self._backend.list_pod_events(refs)

    def read_logs(
        self,
        ref: TaskRef,
        *,
        follow: bool = False,
        since: datetime | None = None,
        last: int | None = None,
    ) -> Iterator[str]:
        return self._backend.read_logs(ref, follow=follow, since=since, last=last)


@contextmanager
def kubernetes(
    traveller: time_machine.Traveller, plane: ControlPlane, backend: str = "kubernetes"
) -> Iterator[Harness]:
    api = KubeCluster(plane)
    kubelets = Kubelets(api)
    cell = Cell.unscoped.create(name="cell")
    connection = {"kind": "kubeconfig", "path": str(plane.write_kubeconfig(plane.platform_token))}
    cluster = Cluster.unscoped.create(cell=cell, name="kube", backend=backend, connection=connection)

    scripted, agents = Scripted(backend_for(cluster), kubelets), Agents(plane)
    asleep: list[bool] = []

    def pass_time(seconds: float) -> None:
        traveller.shift(timedelta(seconds=seconds))
        kubelets.step()
        if scripted.resizes and not asleep:
            agents.step()

    with serving_logs(kubelets.lines) as port:
        for group in NODE_GROUPS:
            _kube_nodes(api, group, port)
        try:
            yield Harness(cluster, scripted, pass_time, lambda: asleep.append(True), agents)
        finally:
            api.clear()


def _kube_nodes(api: KubeCluster, group: NodeGroup, port: int) -> None:
    """Create the nodes of a group: cards counted by NVIDIA's plugin, or registered by HAMi's."""
    sliced = group.mode == "slice"
    for number in range(1, group.nodes + 1):
        name = f"{group.prefix}{number:02}"
        cards = [
            {
                "id": f"GPU-{name}-{index}", "index": index, "count": 10, "devmem": group.card_memory_mib,
                "devcore": 100, "type": group.card_model, "mode": "hami-core", "health": True,
            }
            for index in range(group.cards)
        ]  # fmt: skip
        labels = {PRODUCT: group.card_model, "nvidia.com/gpu.memory": str(group.card_memory_mib)}
        count = 10 * group.cards if sliced else group.cards
        resources = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": str(count)}
        api.node(name, resources, labels, {hami.REGISTER: json.dumps(cards)} if sliced else {}, port)


HARNESSES = ("kubernetes", "kueue", "simulated")


@pytest.fixture
def traveller() -> Iterator[time_machine.Traveller]:
    """Yield a clock that is frozen until a test moves it."""
    with time_machine.travel(START, tick=False) as moving:
        yield moving


@pytest.fixture(params=HARNESSES)
def harness(
    request: pytest.FixtureRequest,
    db: None,
    traveller: time_machine.Traveller,
) -> Iterator[Harness]:
    """Yield each backend in turn."""
    if request.param == "simulated":
        with simulated(traveller) as harness:
            yield harness
    else:
        yield request.getfixturevalue("kept" if request.param == "kubernetes" else "delegating")


@pytest.fixture
def kept(
    db: None, traveller: time_machine.Traveller, kube: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Harness]:
    """Yield the Kubernetes cluster alone."""
    yield from _at_hand(traveller, kube, monkeypatch, "kubernetes")


@pytest.fixture
def delegating(
    db: None,
    traveller: time_machine.Traveller,
    kube: ControlPlane,
    kueue: Kueue,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Harness]:
    """Yield the cluster with Kueue alone; Kueue itself uses the real time."""
    for harness in _at_hand(traveller, kube, monkeypatch, "kueue"):
        yield harness
        kueue.clear()  # before its namespaces go


def _at_hand(
    traveller: time_machine.Traveller, kube: ControlPlane, monkeypatch: pytest.MonkeyPatch, backend: str
) -> Iterator[Harness]:
    monkeypatch.setattr(shares, "_WAIT_S", 0.0)  # no kubelet acts before the test moves the clock
    with kubernetes(traveller, kube, backend) as harness:
        yield harness


@pytest.fixture
def sim(db: None, traveller: time_machine.Traveller) -> Iterator[Harness]:
    """Yield the simulated cluster alone."""
    with simulated(traveller) as harness:
        yield harness


@pytest.fixture
def make_simulated() -> Callable[[time_machine.Traveller], AbstractContextManager[Harness]]:
    """Return a builder of the simulated cluster, for tests with a database fixture of their own."""
    return simulated
