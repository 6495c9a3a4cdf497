"""Objects of controllers with a pod template: the same rules hold for the template and each of its pods."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Final

import pytest

from benchmarks.support.control_plane import ControlPlane, running_controllers
from benchmarks.support.postgres import MissingProgram
from tests.fixtures.kubelet import Cluster, Json
from tests.fixtures.need import need
from tests.fixtures.wait import wait_until
from tests.integration.clusters import admission
from tests.integration.clusters.admission import PODS, TENANT, pod, refused
from tests.integration.clusters.test_kubernetes_theft import THEFTS

pytestmark = pytest.mark.server
_APPS: Final = "/apis/apps/v1/namespaces/victim"
_BATCH: Final = "/apis/batch/v1/namespaces/victim"
_CORE: Final = "/api/v1/namespaces/victim"
KINDS: Final = {
    "Deployment": f"{_APPS}/deployments",
    "ReplicaSet": f"{_APPS}/replicasets",
    "StatefulSet": f"{_APPS}/statefulsets",
    "DaemonSet": f"{_APPS}/daemonsets",
    "Job": f"{_BATCH}/jobs",
    "CronJob": f"{_BATCH}/cronjobs",
    "ReplicationController": f"{_CORE}/replicationcontrollers",
}
# Pod security looks at pods, not at templates: these are refused when the pod is made.
_OF_POD_SECURITY: Final = {"privileges", "a folder of the node", "the node's processes", "the node's network"}
# What the API server itself finds wrong with a template.
_CONTROLLERS: Final = (
    *("deployment-controller", "replicaset-controller", "statefulset-controller", "job-controller"),
    *("daemonset-controller", "replicationcontroller-controller", "cronjob-controller"),
)


def made_of(kind: str, template: Json, name: str = "made") -> Json:
    """An object of a kind whose pods are like `template`."""
    template = copy.deepcopy(template)
    template["metadata"].pop("name", None)
    template["metadata"].setdefault("labels", {})["app"] = "web"
    if kind in ("Job", "CronJob"):
        template["spec"]["restartPolicy"] = "Never"
        spec: Json = {"template": template, "backoffLimit": 0}
        if kind == "CronJob":
            spec = {"schedule": "* * * * *", "jobTemplate": {"spec": spec}}
    else:
        spec = {"template": template, "selector": {"matchLabels": {"app": "web"}}}
        if kind == "ReplicationController":
            spec["selector"] = {"app": "web"}
        if kind == "StatefulSet":
            spec["serviceName"] = "web"
    return {"metadata": {"name": name}, "spec": spec}


@pytest.fixture(scope="module")
def guarded(kube: ControlPlane) -> Iterator[Cluster]:
    """A namespace of a workspace under the policies."""
    with admission.guarded(kube) as cluster:
        yield cluster


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_is_refused_where_its_author_sees_it(guarded: Cluster, kind: str) -> None:
    for name, theft in THEFTS.items():
        if name not in _OF_POD_SECURITY:
            status, answer = refused(guarded, made_of(kind, theft), KINDS[kind])
            assert status == 422 and "allotment-pods" in answer, (name, answer)
    status, answer = refused(guarded, made_of(kind, pod()), KINDS[kind])
    assert status == 201, answer


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_is_not_changed_into_what_is_refused(guarded: Cluster, kind: str) -> None:
    path = KINDS[kind]
    body = made_of(kind, pod(), "changed")
    body["spec"].update({"suspend": True} if kind in ("Job", "CronJob") else {})
    guarded.call("POST", path, body)
    theft = made_of(kind, THEFTS["limits lifted"])["spec"]
    part = "jobTemplate" if kind == "CronJob" else "template"
    status, answer = guarded.answer(
        "PATCH", f"{path}/changed?dryRun=All", {"spec": {part: theft[part]}}, TENANT
    )
    assert status == 422, answer
    note = {"metadata": {"annotations": {"note": "y"}}}
    assert guarded.answer("PATCH", f"{path}/changed", note, TENANT)[0] == 200
    guarded.call("DELETE", f"{path}/changed", {"propagationPolicy": "Background"})


def test_an_older_template_that_is_refused_now_can_still_be_scaled_down(guarded: Cluster) -> None:
    path = KINDS["ReplicaSet"]
    guarded.call("POST", path, made_of("ReplicaSet", THEFTS["limits lifted"], "older"))
    status, answer = guarded.answer("PATCH", f"{path}/older", {"spec": {"replicas": 0}}, TENANT)
    assert status == 200, answer
    guarded.call("DELETE", f"{path}/older", {})


def test_controllers_make_the_pods_that_are_let_in_and_no_others(
    kube: ControlPlane, guarded: Cluster
) -> None:
    theft = THEFTS["whatever the image asks for"]
    try:
        with running_controllers(kube, *_CONTROLLERS, as_themselves=True):
            for kind in ("Deployment", "Job", "StatefulSet"):
                name = kind.lower()
                # The administrator is exempt, so the templates are there; the controllers are not.
                guarded.call("POST", KINDS[kind], made_of(kind, theft, f"{name}-bad"))
                status, answer = guarded.answer("POST", KINDS[kind], made_of(kind, pod(), name), TENANT)
                assert status == 201, answer
            wait_until(lambda: _owners(guarded) >= {"deployment", "job", "statefulset"}, "pods", within_s=60)
            refusals = {"deployment-bad", "job-bad", "statefulset-bad"}
            wait_until(lambda: _refusals(guarded) >= refusals, "refusals are told", within_s=60)
            assert not {name for name in _owners(guarded) if name.endswith("bad")}
            # Finalizers and owners are theirs to change: a Job that ends is counted, and its pod let go.
            for one in guarded.items(PODS):
                if one["metadata"]["name"].startswith("job-"):
                    path = f"{PODS}/{one['metadata']['name']}/status"
                    guarded.call("PATCH", path, {"status": {"phase": "Succeeded"}})
            wait_until(lambda: _complete(guarded), "the job is complete", within_s=60)
    except MissingProgram as missing:
        need(missing.name, missing.hint)
    finally:
        for path in KINDS.values():
            for item in guarded.items(path):
                finalized = {"metadata": {"finalizers": None}}
                guarded.call("PATCH", f"{path}/{item['metadata']['name']}", finalized)
                guarded.call(
                    "DELETE", f"{path}/{item['metadata']['name']}", {"propagationPolicy": "Background"}
                )
        for one in guarded.items(PODS):
            guarded.call("PATCH", f"{PODS}/{one['metadata']['name']}", {"metadata": {"finalizers": None}})


def _owners(cluster: Cluster) -> set[str]:
    """The workloads that have pods, by the beginnings of the pods' names."""
    names = [item["metadata"]["name"] for item in cluster.items(PODS)]
    return {f"{name.split('-')[0]}{'-bad' if '-bad-' in name else ''}" for name in names}


def _refusals(cluster: Cluster) -> set[str]:
    events = cluster.items(f"{_CORE}/events")
    told = [item for item in events if "NVIDIA_VISIBLE_DEVICES" in item.get("message", "")]
    return {"-".join(item["involvedObject"]["name"].split("-")[:2]) for item in told}


def _complete(cluster: Cluster) -> bool:
    status = cluster.call("GET", f"{KINDS['Job']}/job")["status"]
    return any(one["type"] == "Complete" for one in status.get("conditions", ()))
