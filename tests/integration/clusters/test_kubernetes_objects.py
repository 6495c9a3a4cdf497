"""The Kubernetes backend when others have changed its objects, on a real API server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from threading import Event

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.base import (
    BackendUnavailable,
    NodeObservation,
    OutcomeKind,
    PodObservation,
    PodPhase,
    TaskRef,
    TaskSpec,
)
from clusters.backends.kubernetes.client import api
from clusters.backends.kubernetes.client.api import KubernetesApi
from clusters.backends.kubernetes.lifecycle import watch
from clusters.backends.kubernetes.pods import logs
from clusters.backends.kubernetes.pods.pods import build_manifest
from clusters.gpu import hami
from foundation.models.installation import installation_id
from tests.fixtures.kubelet import Cluster, Json
from tests.integration.clusters.conftest import Harness

pytestmark = [pytest.mark.server, pytest.mark.django_db]
TEAM = "/api/v1/namespaces/team/pods"
ELSEWHERE = "/api/v1/namespaces/elsewhere/pods"  # pods there are not the platform's


@pytest.fixture
def cluster(kube: ControlPlane) -> Cluster:
    cluster = Cluster(kube)
    cluster.namespace("elsewhere")
    return cluster


def annotations(cluster: Cluster, path: str) -> dict[str, str]:
    told: dict[str, str] = cluster.call("GET", path)["metadata"].get("annotations") or {}
    return told


def lock(cluster: Cluster, node: str, at: datetime, pod: str, namespace: str = "team") -> None:
    text = hami.NodeLock(at, namespace, pod).to_annotation()
    cluster.call("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"annotations": {hami.LOCK: text}}})


def pod_of_others(name: str, node: str, **annotations: str) -> Json:
    asked = {"limits": {"nvidia.com/gpu": "1"}} if annotations else {}
    container = {"name": "main", "image": "x", "resources": asked}
    metadata: Json = {"name": name, "annotations": annotations}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": [container]}}


def test_a_pod_is_bound_where_it_was_sent_and_holds_what_it_was_given(
    kept: Harness, cluster: Cluster
) -> None:
    kept.place(kept.spec("a", cards=2), kept.sliced("b", cores=30, memory_mib=20_480))
    whole, part = (cluster.call("GET", f"{TEAM}/{name}") for name in "ab")
    assert (whole["spec"]["nodeName"], part["spec"]["nodeName"]) == ("whole-01", "slice-01")
    assert "allotment" in {entry["manager"] for entry in whole["metadata"]["managedFields"]}
    assert annotations(cluster, f"{TEAM}/b")[hami.ALLOCATED] == "GPU-slice-01-0,NVIDIA,20480,30:;"
    assert annotations(cluster, "/api/v1/nodes/slice-01")[hami.LOCK].endswith(",team,b")
    kept.until("b", PodPhase.RUNNING)
    assert annotations(cluster, f"{TEAM}/b")[hami.PHASE] == hami.PHASE_SUCCESS
    assert hami.LOCK not in annotations(cluster, "/api/v1/nodes/slice-01")


def test_a_pod_that_was_made_but_not_bound_is_bound_by_the_next_try(kept: Harness, cluster: Cluster) -> None:
    spec = kept.spec("a")
    uid = kept.backend.ensure_pod(spec).uid
    cluster.call("DELETE", f"{TEAM}/a", {"gracePeriodSeconds": 0})
    made = cluster.call("POST", TEAM, build_manifest(spec, str(installation_id())))
    outcome = kept.backend.ensure_pod(spec)
    assert (outcome.kind, outcome.uid) == (OutcomeKind.DONE, made["metadata"]["uid"])
    assert outcome.uid != uid
    assert cluster.call("GET", f"{TEAM}/a")["spec"]["nodeName"] == "whole-01"


@pytest.fixture(params=["whole", "part"])
def spec(request: pytest.FixtureRequest, kept: Harness) -> TaskSpec:
    return kept.spec("a") if request.param == "whole" else kept.sliced("a", cores=30)


def falls_asleep_before(call: str, meanwhile: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop a worker between its last check of the lease and that call, until the lease is over."""
    lost = Event()

    def look(next_call: str) -> None:
        if lost.is_set():
            raise BackendUnavailable(f"{next_call}: the lease is over")
        if next_call.startswith("POST") and next_call.endswith(call):
            lost.set()
            with monkeypatch.context() as other:
                other.setattr(api, "_require_held", lambda _: None)
                meanwhile()

    monkeypatch.setattr(api, "_require_held", look)


def test_a_pod_made_after_its_hold_was_given_back_comes_to_no_node(
    kept: Harness, cluster: Cluster, spec: TaskSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def given_back() -> None:
        assert kept.backend.remove_pod(spec.ref, 0).kind is OutcomeKind.DONE
        assert not cluster.items(TEAM)

    falls_asleep_before("/pods", given_back, monkeypatch)
    assert kept.backend.ensure_pod(spec).kind is OutcomeKind.UNKNOWN
    assert "nodeName" not in cluster.call("GET", f"{TEAM}/a")["spec"]


def test_a_pod_that_has_gone_is_not_bound_and_its_successor_not_by_its_predecessors_call(
    kept: Harness, cluster: Cluster, spec: TaskSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made_again() -> None:
        assert kept.backend.remove_pod(spec.ref, 0).kind is OutcomeKind.DONE
        cluster.call("POST", TEAM, build_manifest(spec, str(installation_id())))

    falls_asleep_before("/pods/a/binding", made_again, monkeypatch)
    assert kept.backend.ensure_pod(spec).kind is not OutcomeKind.DONE
    assert "nodeName" not in cluster.call("GET", f"{TEAM}/a")["spec"]


def test_a_pod_on_another_node_is_reported_and_left_alone(kept: Harness, cluster: Cluster) -> None:
    spec = kept.spec("a")
    kept.backend.ensure_pod(spec)
    outcome = kept.backend.ensure_pod(replace(spec, node="whole-02"))
    assert (outcome.kind, outcome.code) == (OutcomeKind.REFUSED, "BOUND_ELSEWHERE")
    assert "whole-01" in outcome.message
    assert cluster.call("GET", f"{TEAM}/a")["spec"]["nodeName"] == "whole-01"


def test_what_the_api_cannot_take_is_refused_with_its_words(kept: Harness) -> None:
    unnamed = kept.backend.ensure_pod(kept.spec("Not_A_Name"))
    assert (unnamed.kind, unnamed.code) == (OutcomeKind.REFUSED, "Invalid")
    greedy = kept.backend.ensure_pod(kept.spec("a", environment={"NVIDIA_VISIBLE_DEVICES": "all"}))
    assert (greedy.kind, greedy.code) == (OutcomeKind.REFUSED, "INVALID")


def test_the_end_of_a_log_that_is_cut_off_is_had(kept: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = kept.spec("a", simulate={"run_s": 30})
    kept.backend.ensure_pod(spec)
    kept.until("a", PodPhase.SUCCEEDED)
    whole = list(kept.backend.read_logs(spec.ref))
    monkeypatch.setattr(logs, "_LONGEST_BYTES", len(whole[0]) + 5)
    assert whole[-1] not in list(kept.backend.read_logs(spec.ref)), "it is cut off there"
    assert list(kept.backend.read_logs(spec.ref, last=1)) == whole[-1:]


def test_a_namespace_is_made_when_it_is_needed_and_shuts_its_pods_in(kept: Harness, cluster: Cluster) -> None:
    outcome = kept.backend.ensure_pod(kept.spec("a", ref=TaskRef("made-for-it", "a")))
    assert outcome.kind is OutcomeKind.DONE
    labels = cluster.call("GET", "/api/v1/namespaces/made-for-it")["metadata"]["labels"]
    assert labels["pod-security.kubernetes.io/enforce"] == "restricted"
    pod = cluster.call("GET", "/api/v1/namespaces/made-for-it/pods/a")
    assert pod["spec"]["serviceAccountName"] == "allotment-task"
    assert not [volume for volume in pod["spec"].get("volumes") or [] if "projected" in volume]


def test_a_quota_of_the_cluster_refuses_but_hides_no_pod_that_is_there(
    kept: Harness, cluster: Cluster
) -> None:
    spec = kept.spec("a")
    first = kept.backend.ensure_pod(spec)
    quota = {"metadata": {"name": "no-more"}, "spec": {"hard": {"pods": "0"}}}
    quotas = "/api/v1/namespaces/team/resourcequotas"
    made = cluster.call("POST", quotas, quota)
    cluster.call(
        "PATCH", f"{quotas}/no-more/status", {"status": {"hard": {"pods": "0"}, "used": {"pods": "1"}}}
    )
    try:
        assert made["metadata"]["name"] == "no-more"
        assert kept.backend.ensure_pod(spec) == first
        refused = kept.backend.ensure_pod(kept.spec("b", node="whole-02"))
        assert (refused.kind, refused.code) == (OutcomeKind.REFUSED, "Forbidden")
        assert "no-more" in refused.message
    finally:
        cluster.call("DELETE", f"{quotas}/no-more", {})


@pytest.mark.parametrize("left_by", ["a pod that is gone", "long ago"])
def test_a_stale_lock_is_taken_over(kept: Harness, cluster: Cluster, left_by: str) -> None:
    now = datetime.now(UTC)
    if left_by == "long ago":
        cluster.call("POST", ELSEWHERE, pod_of_others("foreign", "slice-01"))
    at = now if left_by == "a pod that is gone" else now - timedelta(minutes=6)
    lock(cluster, "slice-01", at, "foreign", "elsewhere")
    (outcome,) = kept.place(kept.sliced("b", cores=30))
    assert outcome.kind is OutcomeKind.DONE
    assert annotations(cluster, "/api/v1/nodes/slice-01")[hami.LOCK].endswith(",team,b")


def test_a_lock_in_use_is_waited_for_and_its_holder_named(kept: Harness, cluster: Cluster) -> None:
    cluster.call("POST", ELSEWHERE, pod_of_others("foreign", "slice-01"))
    lock(cluster, "slice-01", datetime.now(UTC) - timedelta(minutes=2), "foreign", "elsewhere")
    outcome = kept.backend.ensure_pod(kept.sliced("b", cores=30))
    assert outcome.kind is OutcomeKind.UNKNOWN
    assert "elsewhere/foreign" in outcome.message
    assert "nodeName" not in cluster.call("GET", f"{TEAM}/b")["spec"]
    assert cluster.call("GET", f"{ELSEWHERE}/foreign")["metadata"].get("deletionTimestamp") is None


def test_a_pod_of_ours_that_the_plugin_never_answered_makes_way(kept: Harness, cluster: Cluster) -> None:
    kept.backend.ensure_pod(kept.sliced("stuck", cores=30))
    kept.pass_time(0)  # the observer has seen the pod
    cluster.call("PATCH", f"{TEAM}/stuck", {"metadata": {"annotations": {hami.PHASE: hami.PHASE_ALLOCATING}}})
    lock(cluster, "slice-01", datetime.now(UTC) - timedelta(seconds=61), "stuck")
    (outcome,) = kept.place(kept.sliced("next", cores=30))
    assert outcome.kind is OutcomeKind.DONE
    assert kept.until("stuck", PodPhase.REMOVED)
    assert kept.until("next", PodPhase.RUNNING)


def test_parts_of_foreign_pods_are_not_given_a_second_time(kept: Harness, cluster: Cluster) -> None:
    held = {hami.ALLOCATED: "GPU-slice-01-0,NVIDIA,40000,10:;"}
    foreign = pod_of_others("foreign", "slice-01", **held)
    foreign["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    cluster.call("POST", ELSEWHERE, foreign)
    outcome = kept.backend.ensure_pod(kept.sliced("b", cores=30, memory_mib=8192))
    assert (outcome.kind, outcome.code) == (OutcomeKind.REFUSED, "CARD_FULL")
    assert "90 % and 6068 MiB left" in outcome.message
    assert hami.LOCK not in annotations(cluster, "/api/v1/nodes/slice-01")


def test_nodes_that_come_change_and_go_are_observed(kept: Harness, cluster: Cluster) -> None:
    cursor = kept.backend.observe_pods(None).cursor
    cluster.node("new", {"cpu": "4", "memory": "8Gi"}, {}, {})
    cluster.call("PATCH", "/api/v1/nodes/whole-01", {"spec": {"unschedulable": True}})
    cluster.call("DELETE", "/api/v1/nodes/whole-02", {})
    seen = kept.backend.observe_pods(cursor).observations
    facts = {node.name: node.fact for node in seen if isinstance(node, NodeObservation)}
    assert set(facts) == {"new", "whole-01", "whole-02"}
    assert facts["whole-02"] is None
    assert facts["whole-01"] is not None
    assert facts["whole-01"].cordoned


def test_with_a_pod_that_a_drain_took_its_node_is_known_to_be_cordoned(
    kept: Harness, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.backend.ensure_pod(kept.spec("a"))
    cursor, changes = kept.backend.observe_pods(None).cursor, watch.follow_changes
    nodes_done, drained = Event(), list[str]()

    def in_turn(
        api: KubernetesApi, path: str, query: Mapping[str, str | int], version: str
    ) -> watch.Followed:
        """Let the nodes' watch end, then drain the node, so that only the pods' watch reports it."""
        if path == watch.PODS:
            assert nodes_done.wait(20)
            cluster.call("PATCH", "/api/v1/nodes/whole-01", {"spec": {"unschedulable": True}})
            cluster.call("DELETE", f"{TEAM}/a", {"gracePeriodSeconds": 0})
            drained.append("whole-01")
        found = changes(api, path, query, version)
        nodes_done.set()
        return found

    monkeypatch.setattr(watch, "follow_changes", in_turn)
    seen = kept.backend.observe_pods(cursor).observations
    assert drained == ["whole-01"]
    assert [pod.phase for pod in seen if isinstance(pod, PodObservation)] == [PodPhase.REMOVED]
    facts = [node.fact for node in seen if isinstance(node, NodeObservation)]
    assert [fact.cordoned for fact in facts if fact is not None and fact.name == "whole-01"] == [True]


def test_a_cluster_is_looked_at_again_soon_while_pods_go_and_while_more_is_reported(
    kept: Harness, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = kept.spec("a")
    kept.backend.ensure_pod(spec)
    known = kept.backend.observe_pods(None)
    assert known.again_s is None
    assert kept.backend.observe_pods(known.cursor).again_s is None, "nothing has happened"
    kept.backend.ensure_pod(kept.spec("b", node="whole-02"))
    cluster.call("DELETE", f"{TEAM}/a", {"gracePeriodSeconds": 0})
    assert kept.backend.observe_pods(known.cursor).again_s == watch._OTHERS_S
    monkeypatch.setattr(watch, "_LONGEST_S", 0)
    stopped = kept.backend.observe_pods(known.cursor)
    assert stopped.again_s == watch._REST_S
    assert len([seen for seen in stopped.observations if isinstance(seen, PodObservation)]) == 1


def test_pods_of_others_are_never_reported_as_ours(kept: Harness, cluster: Cluster) -> None:
    cluster.call("POST", ELSEWHERE, pod_of_others("foreign", "whole-01"))
    assert "foreign" not in kept.look()
    assert not [
        seen for seen in kept.backend.observe_pods(None).observations if not isinstance(seen, NodeObservation)
    ]


def noted(name: str, uid: str, **fields: Json | str | int) -> Json:
    """Return an event of a cluster component about a pod of the team."""
    pod = {"kind": "Pod", "namespace": "team", "name": name, "uid": uid, "apiVersion": "v1"}
    return {"metadata": {"generateName": f"{name}."}, "involvedObject": pod, "type": "Normal", **fields}


def test_what_the_cluster_notes_about_pods_is_reported_by_pod(kept: Harness, cluster: Cluster) -> None:
    uid = kept.backend.ensure_pod(kept.spec("a")).uid
    kept.backend.ensure_pod(kept.spec("ab", node="whole-02"))
    seen = "2026-03-02T07:59:30Z"
    missing = 'MountVolume.SetUp failed: configmap "c" not found'
    mount = {
        "reason": "FailedMount",
        "message": missing,
        "type": "Warning",
        "count": 4,
        "lastTimestamp": seen,
    }
    newer = {"reason": "Scheduled", "eventTime": "2026-03-02T07:58:00.250000Z", "action": "Binding"}
    source = {"reportingComponent": "x", "reportingInstance": "x-1"}
    series = {"series": {"count": 3, "lastObservedTime": "2026-03-02T07:59:45.500000Z"}}
    events = "/api/v1/namespaces/team/events"
    for body in (
        noted("a", uid, **mount),
        noted("a", "another", **newer, **source, **series),
        noted("ab", "b", reason="Pulling", message="image x"),
    ):
        cluster.call("POST", events, body)
    try:
        found = sorted(
            kept.backend.list_pod_events([TaskRef("team", "a"), TaskRef("team", "c")]), key=lambda e: e.at
        )
        assert [(event.reason, event.count, event.warning, event.ref.uid) for event in found] == [
            ("FailedMount", 4, True, uid),
            ("Scheduled", 3, False, "another"),
        ]
        assert [event.at.isoformat() for event in found] == [
            "2026-03-02T07:59:30+00:00",
            "2026-03-02T07:59:45.500000+00:00",
        ]
        assert found[0].message == missing
        (other,) = kept.backend.list_pod_events([TaskRef("team", "ab")])
        assert other.message == "image x"
    finally:
        cluster.call("DELETE", events, {})
