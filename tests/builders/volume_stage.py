"""A stage on a real API server with two zones, and the claims and volumes in it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.kubernetes.namespaces.namespaces import namespace_labels
from foundation.models.installation import installation_id
from scheduling.models import Allocation, GpuRequestMode, Job
from tests.builders.jobs import RoleOf
from tests.builders.kube_stage import KubeStage, kube_stage

TEAM = "/api/v1/namespaces/team-a"
CLAIMS = f"{TEAM}/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
ZONE = "topology.kubernetes.io/zone"


@contextmanager
def volume_stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    """Node whole-1 in zone a, whole-2 and cut-1 in zone b, and a namespace of the team."""
    with kube_stage(kube, monkeypatch) as made:
        for node, zone in (("whole-1", "a"), ("whole-2", "b"), ("cut-1", "b")):
            made.api.call("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": {ZONE: zone}}})
        made.observe()
        owner = str(made.queue.workspace_id)
        made.api.namespace("team-a", namespace_labels(str(installation_id()), owner))
        try:
            yield made
        finally:
            for path in (CLAIMS, VOLUMES, CLASSES):
                for item in made.api.items(path):
                    name = f"{path}/{item['metadata']['name']}"
                    made.api.call("PATCH", name, {"metadata": {"finalizers": None}})
                    made.api.answer("DELETE", name)
    # After the pods of the stage are gone.
    status, text = made.api.answer("DELETE", TEAM, {})
    if status == 200:
        made.api.call("PUT", f"{TEAM}/finalize", {**json.loads(text), "spec": {"finalizers": []}})


def volume(stage: KubeStage, name: str, zones: Sequence[str] = ()) -> None:
    expression = {"key": ZONE, "operator": "In", "values": [*zones]}
    terms = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    spec = {
        "capacity": {"storage": "10Gi"},
        "accessModes": ["ReadWriteMany"],
        "csi": {"driver": "disk.example", "volumeHandle": name},
        **({"nodeAffinity": terms} if zones else {}),
    }
    stage.api.call("POST", VOLUMES, {"metadata": {"name": name}, "spec": spec})


def claim(stage: KubeStage, name: str, of: str = "", **more: str) -> None:
    spec = {"accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "10Gi"}}, **more}
    stage.api.call("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})
    if of:
        bind(stage, name, of)


def bind(stage: KubeStage, name: str, of: str) -> None:
    """Bind a claim as the controller of Kubernetes does."""
    stage.api.call("PATCH", f"{CLAIMS}/{name}", {"spec": {"volumeName": of}})
    stage.api.call("PATCH", f"{CLAIMS}/{name}/status", {"status": {"phase": "Bound"}})


def start(stage: KubeStage, name: str, *claims: str, cards: int = 1, run_s: float = 10_000) -> Job:
    job = stage.start(name, RoleOf(mode=GpuRequestMode.WHOLE, cards=cards), run_s=run_s)
    volumes = [{"claim": claim, "mount": f"/mnt/{claim}"} for claim in claims]
    Job.unscoped.filter(pk=job.pk).update(volumes=volumes)
    return job


def node_of(job: Job) -> str:
    return Allocation.unscoped.get(attempt__job=job, released_at=None).node.name
