"""Jobs when nodes and cards of a real cluster change; the cluster's own state counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.gpu import hami
from clusters.models import Device, Node, NodeCordon, NodeEvent
from clusters.services.node_cordon import node_uncordon
from foundation.core.actor import SYSTEM
from quotas.models import LedgerEntry
from scheduling.models import GpuRequestMode, Job, JobState
from scheduling.services.node_drain import node_drain
from tests.builders import jobs
from tests.builders.kube_stage import KubeStage, kube_stage
from tests.builders.stage import state
from tests.fixtures.kubelet import Json

pytestmark = [pytest.mark.server, pytest.mark.django_db]
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    with kube_stage(kube, monkeypatch) as made:
        yield made


def condition(stage: KubeStage, node: str, **conditions: str) -> None:
    """Set conditions of a node; it stays ready unless `Ready` is given."""
    rows = [{"type": kind, "status": word} for kind, word in {"Ready": "True", **conditions}.items()]
    stage.api.call("PATCH", f"/api/v1/nodes/{node}/status", {"status": {"conditions": rows}})


def taint(stage: KubeStage, node: str, *taints: Json) -> None:
    stage.api.call("PATCH", f"/api/v1/nodes/{node}", {"spec": {"taints": list(taints)}})


def where(stage: KubeStage) -> list[str]:
    """Return the nodes of the team's pods that are not terminating, from the cluster's own state."""
    pods = stage.pods().values()
    return sorted(pod["spec"]["nodeName"] for pod in pods if not pod["metadata"].get("deletionTimestamp"))


def running_on_a_node(stage: KubeStage) -> tuple[Job, str]:
    job = stage.start("train", jobs.RoleOf(cards=8), run_s=9000)
    stage.run(6)
    (node,) = where(stage)
    return job, node


def eviction(job: Job) -> dict[str, Any]:
    """Return the numbers of the job's last eviction."""
    event = job.events.filter(code="evicting").latest("id")
    return {key: event.numbers.get(key) for key in ("rule", "node", "taint", "card") if key in event.numbers}


def used_cards() -> int:
    return sum(LedgerEntry.unscoped.filter(resource="gpu.cards").values_list("reserved", flat=True))


def test_a_drained_node_gives_its_job_to_another(stage: KubeStage) -> None:
    job, node = running_on_a_node(stage)
    taint(stage, node, {"key": "maintenance", "effect": "NoExecute"})
    stage.run(24, every_s=4)
    assert state(job) == JobState.RUNNING
    assert set(where(stage)) == {"whole-1", "whole-2"} - {node}
    assert eviction(job) == {"rule": "NODE_DRAINED", "node": node, "taint": "maintenance"}
    assert job.attempts.count() == 2


def test_an_operator_drains_a_node_as_kubectl_does(stage: KubeStage) -> None:
    job, name = running_on_a_node(stage)
    stage.api.namespace("elsewhere")
    theirs = "/api/v1/namespaces/elsewhere/pods"
    foreign = {"nodeName": name, "containers": [{"name": "main", "image": "web"}]}
    stage.api.call("POST", theirs, {"metadata": {"name": "shop"}, "spec": foreign})
    node = Node.unscoped.get(name=name)
    node_drain(acting_user=SYSTEM, node=node, reason="a fan fails")
    stage.run(40, every_s=4)
    assert state(job) == JobState.RUNNING
    assert set(where(stage)) == {"whole-1", "whole-2"} - {name}
    assert eviction(job) == {"rule": "NODE_DRAINED", "node": name}
    there = stage.api.call("GET", f"/api/v1/nodes/{name}")
    assert there["spec"]["unschedulable"] is True
    pod = stage.api.call("GET", f"{theirs}/shop")
    assert "deletionTimestamp" not in pod["metadata"], "pods of others stay"
    row = NodeCordon.unscoped.get()
    assert row.drained_at is not None
    node_uncordon(acting_user=SYSTEM, node=node)
    stage.run(8, every_s=4)
    assert "unschedulable" not in stage.api.call("GET", f"/api/v1/nodes/{name}")["spec"]
    node.refresh_from_db()
    assert not node.cordoned


@pytest.mark.parametrize("given_up", ["out-of-service", "removed"])
def test_a_lost_node_holds_what_it_had_until_it_is_given_up(stage: KubeStage, given_up: str) -> None:
    job, node = running_on_a_node(stage)
    stage.kubelets.silent.add(node)
    condition(stage, node, Ready="Unknown")
    stage.run(20, every_s=10)
    assert state(job) == JobState.RUNNING  # the node may come back
    stage.run(60, every_s=20)
    assert state(job) == JobState.EVICTING
    assert eviction(job) == {"rule": "NODE_LOST", "node": node}
    # The pod was deleted and its end cannot be confirmed: nothing is free, however long it takes.
    (pod,) = stage.pods().values()
    assert pod["metadata"]["deletionTimestamp"]
    assert (used_cards(), Device.unscoped.filter(holders=1).count()) == (8, 8)
    if given_up == "removed":
        stage.api.call("DELETE", f"/api/v1/nodes/{node}", {})
    else:
        taint(stage, node, OUT_OF_SERVICE)
    stage.run(90, every_s=15)
    assert state(job) == JobState.RUNNING
    assert set(where(stage)) == {"whole-1", "whole-2"} - {node}
    assert len(stage.pods()) == 1
    assert used_cards() == 8
    told = NodeEvent.unscoped.filter(node__name=node).order_by("id").values_list("code", flat=True)
    assert list(told)[:2] == ["added", "not-ready"]


def test_a_node_that_is_away_for_a_moment_keeps_its_job(stage: KubeStage) -> None:
    job, node = running_on_a_node(stage)
    condition(stage, node, Ready="False")
    stage.run(10, every_s=10)
    condition(stage, node)
    stage.run(60, every_s=20)
    assert state(job) == JobState.RUNNING
    assert job.attempts.count() == 1
    assert where(stage) == [node]


def test_a_node_short_of_memory_lets_one_task_go(stage: KubeStage) -> None:
    job, node = running_on_a_node(stage)
    condition(stage, node, MemoryPressure="True")
    stage.run(30, every_s=5)
    assert eviction(job) == {"rule": "NODE_PRESSURE", "node": node}
    assert NodeEvent.unscoped.filter(node__name=node, code="pressure").exists()


def test_a_card_that_fails_is_left_and_not_taken_again(stage: KubeStage) -> None:
    part = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=60, gpu_memory=10_000)
    job = stage.start("part", part, run_s=9000)
    stage.run(9)
    broken = Device.unscoped.get(cores_granted__gt=0)
    register = [
        {"id": card, "index": index, "count": 10, "devmem": 40_960, "devcore": 100, "type": "L40S",
         "health": card != broken.uuid}
        for index, card in enumerate(("GPU-0", "GPU-1"))
    ]  # fmt: skip
    text = {"metadata": {"annotations": {hami.REGISTER: json.dumps(register)}}}
    stage.api.call("PATCH", "/api/v1/nodes/cut-1", text)
    stage.run(15, every_s=5)
    assert job.attempts.count() == 1  # the taint may be removed again
    stage.run(80, every_s=10)
    assert state(job) == JobState.RUNNING
    assert eviction(job) == {"rule": "DEVICE_UNHEALTHY", "node": "cut-1", "card": broken.uuid}
    (pod,) = stage.pods().values()
    (shares,) = hami.decode_shares(pod["metadata"]["annotations"][hami.ALLOCATED])
    assert {share.uuid for share in shares} == {"GPU-0", "GPU-1"} - {broken.uuid}
