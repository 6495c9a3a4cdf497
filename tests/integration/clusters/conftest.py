"""Clusters to run the contract against, and builders for what is asked of them.

A backend joins the contract suite by a harness: a function that yields a `Harness`, listed in
`HARNESSES`. Its cluster has at least two nodes with two whole cards each and one with a sliced card.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from clusters.backends.base import (
    ClusterBackend,
    DeviceGrant,
    NodeFact,
    PodObservation,
    PodPhase,
    TaskRef,
    TaskSpec,
)
from clusters.backends.registry import backend_for
from clusters.backends.simulated import NodeGroup, build_cluster
from clusters.models import Cell, Cluster

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
NODE_GROUPS = (
    NodeGroup(prefix="whole-", nodes=3, cards=2, card_model="A100-40G", card_memory_mib=40_960),
    NodeGroup(prefix="slice-", nodes=2, cards=2, card_model="L40S", card_memory_mib=46_068, mode="slice"),
)


@dataclass
class Harness:
    """A cluster under test. `pass_time` lets that many seconds go by in the cluster."""

    cluster: Cluster
    backend: ClusterBackend
    pass_time: Callable[[float], None]
    seen: dict[str, PodObservation] = field(default_factory=dict)
    cursor: str | None = None

    def __post_init__(self) -> None:
        self.look()  # the first batch is a list, which tells nothing of pods that have come and gone

    def node(self, name: str) -> NodeFact:
        return next(node for node in self.backend.inventory().nodes if node.name == name)

    def spec(self, name: str, node: str = "whole-01", cards: int = 1, **changes: object) -> TaskSpec:
        """A pod on the first `cards` cards of a node; `changes` replace fields of the spec."""
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
            "simulate": {"run_s": 60},
        }
        return TaskSpec(**{**values, **changes})  # type: ignore[arg-type]

    def sliced(self, name: str, cores: int, memory_mib: int = 8192, **changes: object) -> TaskSpec:
        """A pod on a slice of the first card of the sliced node."""
        card = self.node("slice-01").devices[0]
        return self.spec(
            name, node="slice-01", devices=(DeviceGrant(card.uuid, cores, memory_mib),), **changes
        )

    def look(self) -> dict[str, PodObservation]:
        """Observe as the platform does, from the last cursor, and return the latest of each pod name."""
        batch = self.backend.observe(self.cursor)
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


HARNESSES = {"simulated": simulated}


@pytest.fixture
def traveller() -> Iterator[time_machine.Traveller]:
    """Time that stands still until a test moves it."""
    with time_machine.travel(START, tick=False) as moving:
        yield moving


@pytest.fixture(params=sorted(HARNESSES))
def harness(request: pytest.FixtureRequest, db: None, traveller: time_machine.Traveller) -> Iterator[Harness]:
    """Each backend in turn."""
    with HARNESSES[request.param](traveller) as harness:
        yield harness


@pytest.fixture
def sim(db: None, traveller: time_machine.Traveller) -> Iterator[Harness]:
    """The simulated cluster alone."""
    with simulated(traveller) as harness:
        yield harness


@pytest.fixture
def make_simulated() -> Callable[[time_machine.Traveller], AbstractContextManager[Harness]]:
    """For tests that choose their own database fixture."""
    return simulated
