"""The run settings of a job file, as a real API server accepts them under the restricted standard."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.base import GangSpec, OutcomeKind, TaskSpec
from scheduling.job_file import load_text, parse_job
from tests.fixtures.kubelet import Cluster, Json
from tests.integration.clusters.conftest import Harness
from tests.unit.scheduling.spec.test_run_settings import FULL

pytestmark = [pytest.mark.server, pytest.mark.django_db]
POD = "/api/v1/namespaces/team/pods/a"
TOLERATION = {"key": "maintenance", "operator": "Exists", "effect": "NoExecute"}


def first_task(kept: Harness, text: str = FULL) -> TaskSpec:
    """The first task of a job file, on the node that it was given."""
    job = parse_job(load_text(text))
    options = {**job.runtime, **job.roles[0].container, "volumes": job.volumes, "tolerations": [TOLERATION]}
    spec = kept.spec("a", environment=job.environment, options=options)
    return replace(spec, gang=GangSpec("served", 2, spec.labels, {"hostfile": "a\n"}))


@pytest.fixture
def pod(kept: Harness, kube: ControlPlane) -> Json:
    """The pod of `FULL`, as the API server keeps it; a policy of its own would refuse another."""
    (outcome,) = kept.place(first_task(kept))
    assert (outcome.kind, outcome.message) == (OutcomeKind.DONE, "")
    namespace = Cluster(kube).call("GET", "/api/v1/namespaces/team")
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    return Cluster(kube).call("GET", POD)


def test_the_taints_that_the_job_tolerates_its_pod_does(pod: Json) -> None:
    assert TOLERATION in pod["spec"]["tolerations"]


def test_the_container_is_run_as_the_job_file_says(pod: Json) -> None:
    (main,) = pod["spec"]["containers"]
    assert (main["args"], main["workingDir"], main["imagePullPolicy"]) == (
        ["--port", "8080"], "/srv", "IfNotPresent",
    )  # fmt: skip
    variables = {one["name"]: one.get("valueFrom") or one["value"] for one in main["env"]}
    assert variables == {
        "LEVEL": "info",
        "TOKEN": {"secretKeyRef": {"name": "hub", "key": "token", "optional": True}},
        "MODE": {"configMapKeyRef": {"name": "settings", "key": "mode"}},
    }
    assert main["envFrom"] == [
        {"prefix": "HUB_", "secretRef": {"name": "hub"}},
        {"prefix": "APP_", "configMapRef": {"name": "settings", "optional": True}},
    ]
    assert main["startupProbe"]["exec"]["command"] == ["test", "-e", "/ready"]
    readiness = main["readinessProbe"]
    assert (readiness["httpGet"]["port"], readiness["periodSeconds"], readiness["successThreshold"]) == (
        8080, 5, 2,
    )  # fmt: skip
    assert main["livenessProbe"]["tcpSocket"] == {"port": 8080}
    assert main["lifecycle"] == {"preStop": {"sleep": {"seconds": 5}}}


def test_the_pod_mounts_and_runs_as_the_job_file_says(pod: Json) -> None:
    spec = pod["spec"]
    sources: dict[str, Any] = {volume.pop("name"): volume for volume in spec["volumes"]}
    assert sources["volume-0"]["persistentVolumeClaim"] == {"claimName": "datasets"}
    assert sources["volume-1"]["emptyDir"] == {"sizeLimit": "10Gi"}
    assert sources["volume-2"]["emptyDir"] == {"sizeLimit": "8Gi", "medium": "Memory"}
    assert sources["volume-3"]["configMap"]["name"] == "settings"
    assert sources["volume-4"]["secret"]["optional"] is True
    assert not [source for source in sources.values() if "hostPath" in source]
    mounts = {mount["mountPath"]: mount for mount in spec["containers"][0]["volumeMounts"]}
    assert mounts["/data"]["subPath"] == "imagenet/v1"
    assert {path for path, mount in mounts.items() if mount.get("readOnly")} == {
        "/data", "/etc/app", "/keys", "/etc/allotment",
    }  # fmt: skip
    assert spec["imagePullSecrets"] == [{"name": "registry"}]
    assert spec["terminationGracePeriodSeconds"] == 120
    ids = {
        key: spec["securityContext"][key] for key in ("runAsUser", "runAsGroup", "fsGroup", "runAsNonRoot")
    }
    assert ids == {"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2000, "runAsNonRoot": True}


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "Guaranteed"),
        ({"options": {"limits": {"memory": "16384Mi"}}}, "Burstable"),
        ({"cpu_millicores": 0}, "Burstable"),
        ({"cpu_millicores": 0, "memory_mib": 0}, "BestEffort"),
    ],
)
def test_the_cluster_derives_the_class_that_the_task_asked_for(
    kept: Harness, kube: ControlPlane, resources: dict[str, Any], expected: str
) -> None:
    (outcome,) = kept.place(kept.spec("a", **resources))
    assert outcome.kind is OutcomeKind.DONE
    assert Cluster(kube).call("GET", POD)["status"]["qosClass"] == expected
