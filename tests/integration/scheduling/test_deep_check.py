"""`allotment doctor --deep` finds differences between rows and a real cluster, each by its own check."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest
from django.core.management import call_command

from allotment.setup import deep_check
from benchmarks.support.control_plane import ControlPlane
from clusters.models import Device, Node
from quotas.models import LedgerEntry
from scheduling.models import Allocation
from tests.builders import jobs
from tests.builders.kube_stage import KubeStage, kube_stage
from tests.fixtures.kubelet import Json

pytestmark = [pytest.mark.server, pytest.mark.django_db]
TEAM = "/api/v1/namespaces/team-a"


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    """Yield a running gang of two tasks and one running slice."""
    monkeypatch.setattr(deep_check, "AGAIN_S", 0)
    with kube_stage(kube, monkeypatch) as made:
        made.start("pair", jobs.RoleOf(cards=4, replicas=2), run_s=9000)
        made.run(9)
        yield made


def pod(stage: KubeStage, name: str, node: str, cards: str, **metadata: Json) -> None:
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": cards}}}
    stage.api.namespace("theirs")
    body = {"metadata": {"name": name, **metadata}, "spec": {"nodeName": node, "containers": [container]}}
    stage.api.call("POST", "/api/v1/namespaces/theirs/pods", body)


def too_many_cards(stage: KubeStage) -> None:
    pod(stage, "more", Allocation.unscoped.first().node.name, "5")  # type: ignore[union-attr]


def shared_twice(stage: KubeStage) -> None:
    for number in range(2):
        held = {"hami.io/vgpu-devices-allocated": "GPU-0,NVIDIA,100,60:;"}
        pod(stage, f"part-{number}", "cut-1", "1", annotations=held)


def made_by_hand(stage: KubeStage) -> None:
    pod(stage, "ghost", "whole-2", "0", labels={"app.kubernetes.io/managed-by": "allotment"})


def deleted(stage: KubeStage) -> None:
    stage.api.call("DELETE", f"{TEAM}/pods/{next(iter(stage.pods()))}", {"gracePeriodSeconds": 0})


def held_elsewhere(stage: KubeStage) -> None:
    Allocation.unscoped.update(node=Node.unscoped.get(name="cut-1"))
    stage_sums(stage)


def stage_sums(stage: KubeStage) -> None:
    """Update the sums on nodes, so that only one check has something to find."""
    holds = list(Allocation.unscoped.filter(released_at=None))
    Node.unscoped.update(cpu_granted=0, memory_granted=0)
    Node.unscoped.filter(name="cut-1").update(
        cpu_granted=sum(one.cpu_millicores for one in holds),
        memory_granted=sum(one.memory_mib for one in holds),
    )


def left_in_a_namespace(stage: KubeStage) -> None:
    labels = {"app.kubernetes.io/managed-by": "allotment", "allotment.io/job": "no-job"}
    stage.api.call("POST", f"{TEAM}/configmaps", {"metadata": {"name": "old", "labels": labels}})


def booked_too_much(stage: KubeStage) -> None:
    entry = LedgerEntry.unscoped.filter(reserved__gt=0).first()
    LedgerEntry.unscoped.filter(pk=entry.pk).update(reserved=entry.reserved + 1)  # type: ignore[union-attr]


def node_granted_too_much(stage: KubeStage) -> None:
    Node.unscoped.filter(name="whole-1").update(cpu_granted=1)


def card_granted_too_much(stage: KubeStage) -> None:
    free = Device.unscoped.filter(holders=0).first()
    Device.unscoped.filter(pk=free.pk).update(cores_granted=1)  # type: ignore[union-attr]


def wrong(capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str]]:
    """Return the exit status, and the output of the deep checks that failed."""
    capsys.readouterr()
    try:
        call_command("doctor", "--deep", "--json", "-")
        status = 0
    except SystemExit as end:
        status = int(str(end.code))
    checks = json.loads(capsys.readouterr().out)["checks"]
    deep = [check for check in checks if ": " in check["name"]]
    assert {check["name"].split(": ")[0] for check in deep} == {"books", "east"}
    return status, {check["name"]: check["message"] for check in deep if not check["ok"]}


def test_what_agrees_is_well(stage: KubeStage, capsys: pytest.CaptureFixture[str]) -> None:
    # Without controllers, uncollected objects of other tests still exist in this API server.
    assert set(wrong(capsys)[1]) <= {"east: left behind"}


@pytest.mark.parametrize(
    ("plant", "check", "told"),
    [
        (too_many_cards, "east: nodes", "nvidia.com/gpu"),
        (shared_twice, "east: nodes", "card GPU-0: 120 %"),
        (made_by_hand, "east: unknown pods", "theirs/ghost"),
        (deleted, "east: missing pods", "team-a/pair"),
        (held_elsewhere, "east: wrong nodes", "held on cut-1"),
        (left_in_a_namespace, "east: left behind", "configmap team-a/old"),
        (booked_too_much, "books: quota", "booked"),
        (node_granted_too_much, "books: nodes", "CPU"),
        (card_granted_too_much, "books: cards", "granted (1, 0, 0)"),
    ],
)
def test_each_fault_is_found_by_its_check_alone(
    stage: KubeStage,
    capsys: pytest.CaptureFixture[str],
    plant: Callable[[KubeStage], None],
    check: str,
    told: str,
) -> None:
    _, before = wrong(capsys)
    plant(stage)
    status, found = wrong(capsys)
    assert (status, {name for name in found if found[name] != before.get(name)}) == (1, {check})
    assert told in found[check]
