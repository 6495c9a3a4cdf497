"""The objects that the pods of one attempt share, on a real API server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.support.control_plane import ControlPlane, running_controllers
from benchmarks.support.postgres import MissingProgram
from clusters.backends.base import GangRef, GangSpec, OutcomeKind, TaskRef, TaskSpec, TenantLimits
from clusters.backends.kubernetes.client import api as calls
from clusters.backends.kubernetes.client.api import KubernetesApi, OutcomeUnknown
from clusters.backends.kubernetes.namespaces.namespaces import namespace_labels
from clusters.backends.registry import backend_for
from foundation.models.installation import installation_id
from tests.fixtures.kubelet import Cluster, Json
from tests.fixtures.need import need
from tests.fixtures.wait import wait_until
from tests.integration.clusters.conftest import WORKSPACE, Harness

pytestmark = [pytest.mark.server, pytest.mark.django_db]
CORE = "/api/v1/namespaces/team"
LABELS = {"allotment.io/job": "0b0e", "allotment.io/attempt": "1"}


@pytest.fixture
def cluster(kube: ControlPlane, kept: Harness) -> Cluster:
    cluster = Cluster(kube)
    cluster.namespace("team", namespace_labels(str(installation_id()), WORKSPACE))
    return cluster


def members(kept: Harness, name: str, size: int = 2, **files: str) -> list[TaskSpec]:
    """Return the tasks of a gang, each on a node of its own."""
    gang = GangSpec(name, size, LABELS, files)
    return [
        kept.spec(f"{name}-{number}", node=f"whole-0{number + 1}", labels=LABELS | {"epoch": "1"}, gang=gang)
        for number in range(size)
    ]


def owner_of(item: Json) -> tuple[str, str, str]:
    (owner,) = item["metadata"]["ownerReferences"]
    return owner["kind"], owner["name"], owner["uid"]


def test_one_object_owns_all_pods_of_a_gang_and_its_name(kept: Harness, cluster: Cluster) -> None:
    specs = members(kept, "train")
    assert [outcome.kind for outcome in kept.place(*specs)] == ["done", "done"]
    owner = cluster.call("GET", f"{CORE}/configmaps/train")
    expected = ("ConfigMap", "train", owner["metadata"]["uid"])
    service = cluster.call("GET", f"{CORE}/services/train")
    pods = [cluster.call("GET", f"{CORE}/pods/{spec.ref.name}") for spec in specs]
    assert {owner_of(item) for item in (service, *pods)} == {expected}
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    assert service["spec"]["selector"].items() <= pods[0]["metadata"]["labels"].items()
    assert {(pod["spec"]["hostname"], pod["spec"]["subdomain"]) for pod in pods} == {
        ("train-0", "train"),
        ("train-1", "train"),
    }


def test_whatever_is_made_carries_the_id_of_the_installation(kept: Harness, cluster: Cluster) -> None:
    kept.place(*(replace(spec, ref=TaskRef("own", spec.ref.name)) for spec in members(kept, "train")))
    backend_for(kept.cluster).ensure_namespaces([TenantLimits("own", {"": 4}, WORKSPACE)])
    own = "/api/v1/namespaces/own"
    kinds = ("pods", "configmaps", "services", "serviceaccounts", "resourcequotas")
    paths = [f"{own}/{kind}" for kind in kinds]
    paths.append("/apis/networking.k8s.io/v1/namespaces/own/networkpolicies")
    ours = "labelSelector=app.kubernetes.io/managed-by=allotment"
    found = {path: cluster.items(f"{path}?{ours}") for path in paths}
    assert [path for path, items in found.items() if not items] == []
    made = [item["metadata"] for items in found.values() for item in items]
    made.append(cluster.call("GET", own)["metadata"])
    assert {item["labels"].get("allotment.io/installation") for item in made} == {str(installation_id())}


def test_an_object_of_another_installation_is_not_taken_for_ones_own(kept: Harness, cluster: Cluster) -> None:
    first, second = members(kept, "train")
    kept.place(first)
    theirs = {"metadata": {"labels": {"allotment.io/installation": "another"}}}
    cluster.call("PATCH", f"{CORE}/pods/{first.ref.name}", theirs)
    (refused,) = kept.backend.ensure_many([first])
    assert refused.code == "NAME_TAKEN"
    cluster.call("PATCH", f"{CORE}/configmaps/train", theirs)
    (refused,) = kept.backend.ensure_many([second])
    assert refused.code == "NAME_TAKEN"


def test_a_gang_made_before_the_label_was_there_goes_on(kept: Harness, cluster: Cluster) -> None:
    specs = members(kept, "train")
    kept.place(specs[0])
    unlabelled = {"metadata": {"labels": {"allotment.io/installation": None}}}
    for path in ("configmaps/train", "services/train", f"pods/{specs[0].ref.name}"):
        cluster.call("PATCH", f"{CORE}/{path}", unlabelled)
    assert [outcome.kind for outcome in kept.place(*specs)] == ["done", "done"]


def test_one_task_alone_belongs_to_its_namespace_and_has_nothing_beside(
    kept: Harness, cluster: Cluster
) -> None:
    kept.place(*members(kept, "alone", size=1))
    pod = cluster.call("GET", f"{CORE}/pods/alone-0")
    assert owner_of(pod) == ("Namespace", "team", cluster.call("GET", CORE)["metadata"]["uid"])
    assert pod["metadata"]["ownerReferences"][0]["controller"] is True  # needed by a drain of its node
    for kind in ("configmaps", "services"):
        assert cluster.answer("GET", f"{CORE}/{kind}/alone")[0] == 404


def test_one_task_alone_that_reads_files_has_an_owner_for_them(kept: Harness, cluster: Cluster) -> None:
    kept.place(*members(kept, "reads", size=1, hostfile="a slots=1\n"))
    assert owner_of(cluster.call("GET", f"{CORE}/pods/reads-0"))[:2] == ("ConfigMap", "reads")
    assert cluster.answer("GET", f"{CORE}/services/reads")[0] == 404


def test_files_are_read_by_every_pod_and_follow_the_gang(kept: Harness, cluster: Cluster) -> None:
    specs = members(kept, "files", hostfile="a slots=1\n", peers="a\n")
    kept.place(*specs)
    (mount,) = cluster.call("GET", f"{CORE}/pods/files-1")["spec"]["containers"][0]["volumeMounts"]
    assert (mount["mountPath"], mount["readOnly"]) == ("/etc/allotment", True)
    grown = GangSpec("files", 3, LABELS, {"hostfile": "a slots=1\nb slots=1\n"})
    kept.place(*(replace(spec, gang=grown) for spec in specs))
    assert cluster.call("GET", f"{CORE}/configmaps/files")["data"] == grown.files


def test_lists_of_ten_thousand_tasks_have_an_object_each_that_goes_with_the_gang(
    kept: Harness, cluster: Cluster
) -> None:
    line = "x" * 100
    files = {name: "".join(f"{line}{n:04}\n" for n in range(9_980)) for name in ("hostfile", "peers")}
    specs = members(kept, "large", **files)
    assert [outcome.kind for outcome in kept.place(*specs)] == ["done", "done"]
    assert kept.place(*specs), "they are there already"
    found = {}
    for name in ("hostfile", "peers"):
        item = cluster.call("GET", f"{CORE}/configmaps/large-{name}")
        assert owner_of(item)[:2] == ("ConfigMap", "large")
        found |= item["data"]
    assert found == files
    pod = cluster.call("GET", f"{CORE}/pods/large-1")["spec"]
    maps = {volume["name"]: volume["configMap"]["name"] for volume in pod["volumes"]}
    mounts = pod["containers"][0]["volumeMounts"]
    assert {(maps[mount["name"]], mount["mountPath"], mount["subPath"]) for mount in mounts} == {
        ("large-hostfile", "/etc/allotment/hostfile", "hostfile"),
        ("large-peers", "/etc/allotment/peers", "peers"),
    }
    assert [ref.name for ref, _ in backend_for(kept.cluster).list_gangs()] == ["large"], (
        "one gang, whatever it has"
    )


def test_asking_twice_makes_one_owner(kept: Harness, cluster: Cluster) -> None:
    specs = members(kept, "twice")
    first = kept.place(*specs)
    uid = cluster.call("GET", f"{CORE}/configmaps/twice")["metadata"]["uid"]
    assert kept.place(*specs) == first
    assert cluster.call("GET", f"{CORE}/configmaps/twice")["metadata"]["uid"] == uid


@pytest.mark.parametrize("kind", ["configmaps", "services", "pods"])
def test_a_lost_answer_is_settled_by_looking(
    kept: Harness, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    create: Callable[..., Json] = KubernetesApi.create_object
    lost: list[str] = []

    def forgetful(self: KubernetesApi, path: str, body: Json) -> Json:
        made = create(self, path, body)
        if path.endswith(f"/{kind}") and not lost:
            lost.append(path)
            raise OutcomeUnknown("the answer was lost")
        return made

    monkeypatch.setattr(calls.KubernetesApi, "create_object", forgetful)
    assert [outcome.kind for outcome in kept.place(*members(kept, f"lost-{kind}"))] == ["done", "done"]
    assert lost
    assert len([pod for pod in cluster.items(f"{CORE}/pods") if "lost" in pod["metadata"]["name"]]) == 2


def test_a_taken_name_is_reported_and_left_alone(kept: Harness, cluster: Cluster) -> None:
    cluster.call("POST", f"{CORE}/configmaps", {"metadata": {"name": "taken"}, "data": {"a": "b"}})
    outcomes = kept.place(*members(kept, "taken"))
    assert {(outcome.kind, outcome.code) for outcome in outcomes} == {(OutcomeKind.REFUSED, "NAME_TAKEN")}
    assert cluster.call("GET", f"{CORE}/configmaps/taken")["data"] == {"a": "b"}


def test_dissolving_is_idempotent_and_absence_is_done(kept: Harness, cluster: Cluster) -> None:
    kept.place(*members(kept, "over"))
    ref = GangRef("team", "over")
    for _ in range(2):
        assert [outcome.kind for outcome in kept.backend.remove_gangs([ref])] == [OutcomeKind.DONE]
    assert cluster.answer("GET", f"{CORE}/configmaps/over")[0] == 404


def test_the_clusters_own_collector_removes_what_has_lost_its_owner(
    kept: Harness, cluster: Cluster, kube: ControlPlane
) -> None:
    kept.place(*members(kept, "left"), *members(kept, "kept"), *members(kept, "alone", size=1))

    def there(path: str) -> Any:
        return cluster.answer("GET", f"{CORE}/{path}")[0] == 200

    left = ("services/left", "pods/left-0", "pods/left-1")
    try:
        with running_controllers(kube, "garbage-collector-controller"):
            kept.backend.remove_gangs([GangRef("team", "left")])

            def collected() -> bool:
                for path in left[1:]:  # the collector deletes with a grace period that only a kubelet ends
                    pod = cluster.answer("GET", f"{CORE}/{path}")
                    if pod[0] == 200 and "deletionTimestamp" in pod[1]:
                        cluster.call("DELETE", f"{CORE}/{path}", {"gracePeriodSeconds": 0})
                return not any(there(path) for path in left)

            wait_until(collected, "the collector has removed the gang", within_s=60)
            assert there("pods/kept-0")
            assert there("pods/alone-0")
    except MissingProgram as missing:
        need(missing.name, missing.hint)
