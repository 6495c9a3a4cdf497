"""A small installation on a real API server, whose kubelets are played by the test."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

import pytest
import time_machine

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.kubernetes.nodes import shares
from clusters.gpu import hami
from clusters.models import BackendKind, GpuMode
from clusters.services.cluster import cluster_add
from clusters.services.flavor import flavor_add, flavors_found
from foundation.core.actor import SYSTEM
from scheduling.execution.observe import observe_cluster
from scheduling.models import Allocation, Job, JobRole
from tenants.models import Role
from tests.builders import clusters, jobs, pipeline, quotas, tenancy
from tests.builders.stage import Stage
from tests.fixtures.kubelet import Cluster, Json, Kubelets

_MEMORY = 40_960


class KubeStage(Stage):
    """Two nodes of eight whole cards and one of two sliceable cards, in a real API server."""

    def __init__(self, plane: ControlPlane, traveller: time_machine.Traveller) -> None:
        self.api, self.traveller = Cluster(plane), traveller
        self.kubelets = Kubelets(self.api)
        for name in ("whole-1", "whole-2"):
            self._node(name, "A100-40G", {"nvidia.com/gpu": "8"})
        register = [
            {"id": f"GPU-{index}", "index": index, "count": 10, "devmem": _MEMORY, "devcore": 100,
             "type": "L40S", "health": True}
            for index in range(2)
        ]  # fmt: skip
        self._node("cut-1", "L40S", {"nvidia.com/gpu": "20"}, {hami.REGISTER: json.dumps(register)})
        self.cell = clusters.cell()
        self.cluster = cluster_add(
            acting_user=SYSTEM, cell=self.cell, name="east", backend=BackendKind.KUBERNETES,
            connection={"kind": "kubeconfig", "path": str(plane.write_kubeconfig(plane.platform_token))},
        )  # fmt: skip
        for plan in flavors_found(acting_user=SYSTEM, cluster=self.cluster):
            flavor_add(acting_user=SYSTEM, cluster=self.cluster, plan=plan)
        flavors = {flavor.gpu_mode: flavor for flavor in self.cluster.flavors.all()}
        self.flavor = flavors[GpuMode.WHOLE]
        workspace = tenancy.workspace("team-a")
        self.user = tenancy.user("ed", workspace, Role.EDITOR)
        self.queue = quotas.queue(self.cell, workspace, [self.flavor, flavors[GpuMode.SLICE]], cards=16)
        observe_cluster(cluster_id=self.cluster.pk)  # no pod is created before the first list of pods

    def _node(self, name: str, model: str, cards: dict[str, str], annotations: Json | None = None) -> None:
        size = {"cpu": "96", "memory": "1Ti", "pods": "110", **cards}
        labels = {"nvidia.com/gpu.product": model, "nvidia.com/gpu.memory": str(_MEMORY)}
        self.api.node(name, size, labels, annotations or {})

    def start(self, name: str, *roles: jobs.RoleOf, run_s: float = 20) -> Job:
        job = self.submit(name, *roles, run_s=run_s)
        JobRole.unscoped.filter(job=job).update(image="pytorch:2.8")
        return job

    def run(self, seconds: float, *, every_s: float = 3.0) -> None:
        passed = 0.0
        while passed <= seconds:
            pipeline.step(self.cell, self.cluster)
            for allocation in Allocation.unscoped.select_related("attempt__job"):
                key = (allocation.namespace, allocation.pod_name)
                self.kubelets.scripts[key] = allocation.attempt.job.simulate
            self.traveller.shift(timedelta(seconds=every_s))
            self.kubelets.step()
            passed += every_s

    def observe(self) -> None:
        """Observe the cluster, as the platform does every few seconds, without any other work."""
        self.traveller.shift(timedelta(seconds=3))
        observe_cluster(cluster_id=self.cluster.pk)

    def pods(self) -> dict[str, Json]:
        """Return the team's pods as the cluster reports them, by name."""
        pods = self.api.items("/api/v1/namespaces/team-a/pods")
        return {pod["metadata"]["name"]: pod for pod in pods}

    def shared(self) -> set[str]:
        """Return the names of the objects that own the pods of the team's jobs."""
        selector = "labelSelector=app.kubernetes.io/managed-by=allotment,allotment.io/job"
        found = self.api.items(f"/api/v1/namespaces/team-a/configmaps?{selector}")
        return {item["metadata"]["name"] for item in found}

    def assert_bound_as_decided(self) -> None:
        """Assert that every live allocation has one pod on the engine's node with the granted devices."""
        pods = self.pods()
        for allocation in Allocation.unscoped.filter(removed_at=None).select_related("node"):
            pod = pods[allocation.pod_name]
            assert pod["spec"]["nodeName"] == allocation.node.name
            assert pod["metadata"]["uid"] == allocation.pod_uid
            slices = list(allocation.slices.select_related("device"))
            (container,) = pod["spec"]["containers"]
            assert container["resources"]["limits"].get("nvidia.com/gpu", "0") == str(len(slices))
            if text := (pod["metadata"].get("annotations") or {}).get(hami.ALLOCATED):
                (shares,) = hami.decode_shares(text)
                assert {(share.uuid, share.cores, share.memory_mib) for share in shares} == {
                    (part.device.uuid, part.cores, part.memory_mib) for part in slices
                }


@contextmanager
def kube_stage(plane: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    """Yield a stage whose clock is frozen until the test moves it."""
    monkeypatch.setattr(shares, "_WAIT_S", 0.0)  # no kubelet acts before the test moves the clock
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        try:
            yield KubeStage(plane, traveller)
        finally:
            Cluster(plane).clear()
