"""Every pod that holds a card counts, whatever its origin and its labels, on a real API server.

After every step the cards of each node are summed from the cluster's own state: never more than exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.models import Device, ForeignOrigin, ForeignPod
from foundation.models.installation import installation_id
from scheduling.models import Allocation, Job, JobState
from tests.builders import jobs
from tests.builders.kube_stage import KubeStage, kube_stage
from tests.builders.stage import state
from tests.fixtures.kubelet import Json

pytestmark = [pytest.mark.server, pytest.mark.django_db]
TEAM = "/api/v1/namespaces/team-a/pods"
THEIRS = "/api/v1/namespaces/theirs/pods"
CARDS = 8
WHOLE = jobs.RoleOf(cards=CARDS)


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    with kube_stage(kube, monkeypatch) as made:
        made.api.namespace("theirs")
        yield made


def cards_by_node(stage: KubeStage) -> Counter[str]:
    """Return the cards of whole nodes that bound, unfinished pods hold."""
    held: Counter[str] = Counter()
    for pod in stage.api.items("/api/v1/pods"):
        node, phase = pod["spec"].get("nodeName", ""), (pod.get("status") or {}).get("phase")
        if node.startswith("whole-") and phase not in ("Succeeded", "Failed"):
            for container in pod["spec"]["containers"]:
                limits = (container.get("resources") or {}).get("limits") or {}
                held[node] += int(limits.get("nvidia.com/gpu", "0"))
    return held


def run(stage: KubeStage, seconds: float, *, every_s: float = 3) -> None:
    for _ in range(int(seconds // every_s) + 1):
        stage.run(0, every_s=every_s)
        held = cards_by_node(stage)
        assert {node: cards for node, cards in held.items() if cards > CARDS} == {}


def create_unknown_pod(
    stage: KubeStage, name: str, node: str, labels: dict[str, str], **spec: Json | str
) -> None:
    """Create a pod with all cards of a node that has no row in this database."""
    container = {"name": "main", "image": "x", "resources": {"limits": {"nvidia.com/gpu": str(CARDS)}}}
    body = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 30, **spec}
    stage.api.call("POST", THEIRS, {"metadata": {"name": name, "labels": labels}, "spec": body})


def running_on(stage: KubeStage, job: Job) -> str:
    """Return the node of a job of one task."""
    node: str = Allocation.unscoped.get(attempt__job=job, released_at=None).node.name
    return node


MANAGED = {"app.kubernetes.io/managed-by": "allotment"}


@pytest.mark.parametrize(
    ("labels", "scheduler", "origin"),
    [
        (MANAGED, "default-scheduler", ForeignOrigin.UNKNOWN),
        ({**MANAGED, "allotment.io/installation": "another"}, "allotment", ForeignOrigin.INSTALLATION),
        ({**MANAGED, "allotment.io/installation": "own"}, "allotment", ForeignOrigin.UNKNOWN),
    ],
)
def test_a_pod_with_the_platforms_labels_and_without_a_row_is_counted(
    stage: KubeStage, labels: dict[str, str], scheduler: str, origin: str
) -> None:
    own = {key: str(installation_id()) if value == "own" else value for key, value in labels.items()}
    create_unknown_pod(stage, "ghost", "whole-1", own, schedulerName=scheduler)
    stage.observe()
    both = [stage.start(f"job-{number}", WHOLE, run_s=900) for number in range(2)]
    run(stage, 24)
    assert ForeignPod.unscoped.get().origin == origin
    assert sorted(state(job) for job in both) == [JobState.QUEUED, JobState.RUNNING]
    stage.api.call("DELETE", f"{THEIRS}/ghost", {"gracePeriodSeconds": 0})
    run(stage, 18)
    assert [state(job) for job in both] == [JobState.RUNNING] * 2


def test_a_pod_that_copies_the_labels_of_a_job_is_not_taken_for_it(stage: KubeStage) -> None:
    job = stage.start("one", WHOLE, run_s=900)
    run(stage, 6)
    (pod,) = stage.pods().values()
    free = "whole-2" if running_on(stage, job) == "whole-1" else "whole-1"
    create_unknown_pod(
        stage, pod["metadata"]["name"], free, pod["metadata"]["labels"], schedulerName="allotment"
    )
    second = stage.start("two", WHOLE, run_s=900)
    run(stage, 24)
    assert (state(job), state(second)) == (JobState.RUNNING, JobState.QUEUED)
    assert ForeignPod.unscoped.get().node_name == free


@pytest.mark.parametrize("lost", ["managed-by", "all"])
def test_a_label_that_is_taken_off_a_running_pod_is_not_its_end(stage: KubeStage, lost: str) -> None:
    job = stage.start("one", WHOLE, run_s=900)
    run(stage, 6)
    ((name, pod),) = stage.pods().items()
    keys = list(pod["metadata"]["labels"]) if lost == "all" else list(MANAGED)
    stage.api.call("PATCH", f"{TEAM}/{name}", {"metadata": {"labels": dict.fromkeys(keys)}})
    second = stage.start("two", jobs.RoleOf(cards=CARDS, replicas=2), run_s=900)
    run(stage, 45)  # includes a full list of pods
    job.refresh_from_db()
    assert (job.state, job.attempt_number, state(second)) == (JobState.RUNNING, 1, JobState.QUEUED)
    assert not ForeignPod.unscoped.exists()
    assert not Device.unscoped.filter(foreign_holders__gt=0).exists()
    stage.api.call("DELETE", f"{TEAM}/{name}", {"gracePeriodSeconds": 0})
    run(stage, 6)
    job.refresh_from_db()
    assert job.attempt_number == 2, "its end is seen without labels, too"


def test_a_pod_made_too_late_is_counted_until_it_is_gone(stage: KubeStage) -> None:
    """A worker that outlived its lease creates and binds the pod of a hold that was given back."""
    job = stage.start("one", WHOLE, run_s=900)
    run(stage, 6)
    (pod,) = stage.pods().values()
    stage.api.call("DELETE", f"{TEAM}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
    run(stage, 12)
    job.refresh_from_db()
    assert (job.state, job.attempt_number) == (JobState.RUNNING, 2)
    free = "whole-2" if running_on(stage, job) == "whole-1" else "whole-1"
    kept = ("name", "labels", "namespace")
    late = {
        "metadata": {key: pod["metadata"][key] for key in kept},
        "spec": {**pod["spec"], "nodeName": free},
    }
    stage.api.call("POST", TEAM, late)
    second = stage.start("two", WHOLE, run_s=900)
    run(stage, 18)
    assert state(second) == JobState.RUNNING, "the stray pod was removed"
    assert len(stage.pods()) == 2
    assert not ForeignPod.unscoped.exists()


def test_what_a_gang_has_in_common_stays_while_a_pod_of_the_lost_time_runs(stage: KubeStage) -> None:
    """Removing the shared object would make the cluster's collector remove the pod."""
    job = stage.start("pair", jobs.RoleOf(cards=3, replicas=2), run_s=3)
    stage.run(6)
    labels = {
        **MANAGED,
        "allotment.io/job": str(job.pk),
        "allotment.io/attempt": "1",
        "allotment.io/hold": "x",
    }
    create_unknown_pod(stage, "lost", "whole-2", labels, schedulerName="allotment")
    stage.run(30)
    assert (state(job), len(stage.shared())) == (JobState.SUCCEEDED, 1)
    stage.api.call("DELETE", f"{THEIRS}/lost", {"gracePeriodSeconds": 0})
    stage.run(9)
    assert not stage.shared()
