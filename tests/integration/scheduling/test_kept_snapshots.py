"""A snapshot that is cached between cycles always equals one that is built anew."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import Final

import pytest
import uuid6
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

from clusters.backends.base import DeviceFact, NodeFact, NodeObservation
from clusters.gpu.nvidia import PRODUCT_LABEL
from clusters.models import Device, Node
from clusters.services.inventory import nodes_observe
from foundation.core import clock
from quotas.models import Budget, BudgetAction, Queue, QuotaNode, UserLimit
from scheduling import engine
from scheduling.engine.model import Instant
from scheduling.engine_input.config import engine_config
from scheduling.lifecycle.transitions import advance_job
from scheduling.models import WAITING_STATES, Job
from scheduling.services.user_usage import user_usage_sample
from scheduling.snapshots import cell_snapshot, snapshot_cache
from tests.builders import jobs, quotas
from tests.integration.scheduling.test_invariants import Pipeline

pytestmark = pytest.mark.django_db

_some: Final = st.integers(0, 30)
_NEAR: Final = {"pod_affinity": {"preferred": [{"weight": 1, "topology_key": "hostname"}]}}


class Kept(Pipeline):
    """Two processes keep the cell: the one that runs the cycles, and one that looks after every step."""

    def __init__(self) -> None:
        super().__init__()
        Queue.unscoped.update(preemption=True, reclaim="any", within_queue="lower-priority")
        self._beside = snapshot_cache.CachedCell(self.cell.pk)

    def _heal(self) -> None:
        """Do nothing: another test checks that every job ends."""

    @rule(which=_some, urgent=st.booleans())
    def priority(self, which: int, urgent: bool) -> None:
        made = list(Job.unscoped.filter(state__in=WAITING_STATES).order_by("id"))
        if made:
            rank = jobs.priority_class("urgent", 100) if urgent else jobs.priority_class()
            fields = {"priority_class": rank, "priority": rank.value}
            advance_job(made[which % len(made)], code="priority", now=clock.now(), **fields)

    @rule(team=st.integers(0, 1))
    def submit_one_that_speaks_of_others(self, team: int) -> None:
        if Job.unscoped.count() < 12:
            name = f"job-{Job.unscoped.count()}"
            jobs.job(self.queues[team], self.user, name, placement=_NEAR, simulate={"run_s": 40})

    @rule(limit=st.sampled_from([None, 0, 2]), own=st.booleans())
    def limit(self, limit: int | None, own: bool) -> None:
        workspace = self.queues[0].workspace
        UserLimit.unscoped.filter(workspace=workspace).delete()
        if limit is not None:
            user = self.user if own else None
            UserLimit.unscoped.create(workspace=workspace, user=user, resource="gpu.cards", amount=limit)

    @rule(action=st.sampled_from([None, BudgetAction.HOLD, BudgetAction.PREEMPTIBLE_ONLY]))
    def budget(self, action: BudgetAction | None) -> None:
        Budget.unscoped.all().delete()
        if action is not None:
            Budget.unscoped.create(tenant=self.queues[1].workspace, gpu_hours=0, action=action)

    @rule(team=st.integers(0, 1), shares=st.booleans())
    def shares(self, team: int, shares: bool) -> None:
        Queue.unscoped.filter(pk=self.queues[team].pk).update(user_shares=shares)
        user_usage_sample(now=clock.now())

    @rule(team=st.integers(0, 1), weight=st.sampled_from([500, 1000]))
    def weigh(self, team: int, weight: int) -> None:
        QuotaNode.unscoped.filter(pk=self.queues[team].node_id).update(weight=weight)

    @rule()
    def open_a_queue(self) -> None:
        if Queue.unscoped.count() < 4:
            workspace = self.queues[0].workspace
            quotas.queue(self.cell, workspace, [], name=f"queue-{Queue.unscoped.count()}")

    @rule(number=st.integers(0, 1), cards=st.integers(0, 3), cpu=st.sampled_from([8_000, 32_000]))
    def a_node_comes_or_changes(self, number: int, cards: int, cpu: int) -> None:
        name = f"late-{number}"
        facts = tuple(DeviceFact(f"{name}-{card}", card, "A100", 40_960) for card in range(cards))
        labels = {PRODUCT_LABEL: "A100", "kubernetes.io/hostname": name}
        self._seen(NodeFact(name, cpu, 100_000, labels, devices=facts))

    @rule(which=_some)
    def a_node_is_gone(self, which: int) -> None:
        names = list(Node.unscoped.order_by("name").values_list("name", flat=True))
        self._seen(names[which % len(names)])

    @rule(which=_some, to=_some)
    def a_card_is_moved(self, which: int, to: int) -> None:
        nodes = list(Node.unscoped.order_by("name").prefetch_related("devices"))
        cards = list(Device.unscoped.order_by("uuid"))
        node, card = nodes[to % len(nodes)], cards[which % len(cards)]
        there = [_fact(device) for device in node.devices.all() if device.pk != card.pk]
        self._seen(
            NodeFact(
                node.name,
                node.cpu_millicores,
                node.memory_mib,
                node.labels,
                devices=(*there, replace(_fact(card), index=len(there))),
            )
        )

    def _seen(self, what: NodeFact | str) -> None:
        name, fact = (what, None) if isinstance(what, str) else (what.name, what)
        nodes_observe(cluster=self.cluster, observations=[NodeObservation(name, fact, clock.now())])

    @invariant()
    def kept_is_like_new(self) -> None:
        new, beside = cell_snapshot(self.cell.pk), self._beside.refresh_snapshot()
        taken, keeper = snapshot_cache.checkout_snapshot(self.cell.pk)
        assert keeper is not None
        text = new.snapshot.to_json()
        assert beside.snapshot.to_json() == text
        assert taken.snapshot.to_json() == text
        for other in (beside, taken):
            assert {key: (job.version, job.reason, job.reason_numbers) for key, job in new.jobs.items()} == {
                key: (job.version, job.reason, job.reason_numbers) for key, job in other.jobs.items()
            }
            assert new.devices == other.devices
            assert new.names == other.names
        snapshot_cache.checkin_snapshot(keeper)

    @rule()
    def decisions_are_those_of_a_new_one(self) -> None:
        now = Instant(clock.now().timestamp())
        expected = engine.run_cycle(cell_snapshot(self.cell.pk).snapshot, engine_config(), now)
        found = engine.run_cycle(self._beside.refresh_snapshot().snapshot, engine_config(), now)
        assert engine.encode(found) == engine.encode(expected)


def _fact(device: Device) -> DeviceFact:
    return DeviceFact(device.uuid, device.index, device.model, device.memory_mib, device.mode, device.healthy)


@pytest.mark.timeout(600)
def test_what_is_kept_is_what_would_be_built(monkeypatch: pytest.MonkeyPatch) -> None:
    # Names of pods carry random digits, and their start-up time follows from the name: the same again.
    monkeypatch.setattr(uuid6, "uuid7", lambda: uuid.UUID(int=(7 << 76) | (2 << 62) | next(Pipeline.numbers)))
    run_state_machine_as_test(
        Kept,
        settings=settings(
            max_examples=6,
            stateful_step_count=30,
            derandomize=True,
            deadline=None,
            database=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )
