"""MIG instances of a real cluster: found, allocated by profile, counted together with those of others."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.models import Device, GpuMode
from clusters.services.cluster import cluster_sync
from clusters.services.flavor import flavor_add, flavors_found
from foundation.core.actor import SYSTEM
from quotas.models import LedgerEntry
from scheduling.models import GpuRequestMode, Job, JobRole, JobState
from tests.builders import jobs, quotas
from tests.builders.kube_stage import KubeStage, kube_stage
from tests.builders.stage import state

pytestmark = [pytest.mark.server, pytest.mark.django_db]
MIXED = {"nvidia.com/mig-1g.10gb": "4", "nvidia.com/mig-3g.40gb": "1"}


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    """The usual nodes and two of MIG: one that counts by profile, one that counts instances as cards."""
    with kube_stage(kube, monkeypatch) as made:
        made.api.namespace("theirs")
        size = {"cpu": "96", "memory": "1Ti", "pods": "110"}
        product = {"nvidia.com/gpu.product": "H100", "nvidia.com/gpu.memory": "81920"}
        made.api.node("mixed-1", {**size, **MIXED}, product, {})
        single = {"nvidia.com/gpu.product": "H200-MIG-1g.18gb", "nvidia.com/gpu.memory": "16384"}
        made.api.node("single-1", {**size, "nvidia.com/gpu": "2"}, single, {})
        cluster_sync(acting_user=SYSTEM, cluster=made.cluster)
        for plan in flavors_found(acting_user=SYSTEM, cluster=made.cluster):
            assert plan.gpu_mode == GpuMode.MIG
            flavor = flavor_add(acting_user=SYSTEM, cluster=made.cluster, plan=plan)
            position = 5 + made.queue.queue_flavors.count()
            made.queue.queue_flavors.create(flavor=flavor, position=position)
            quotas.gpu_quota(made.queue.node, flavor, 16)
        yield made


def start(stage: KubeStage, name: str, profile: str, cards: int = 1) -> Job:
    job = stage.start(name, jobs.RoleOf(cards=cards, mode=GpuRequestMode.MIG, cores=0), run_s=900)
    JobRole.unscoped.filter(job=job).update(gpu_profile=profile)
    return job


def asked(stage: KubeStage, job: Job) -> tuple[str, dict[str, str]]:
    """Node and cards of a job's one pod, by the cluster's word."""
    (pod,) = [
        pod for pod in stage.pods().values() if pod["metadata"]["labels"]["allotment.io/job"] == str(job.pk)
    ]
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    return pod["spec"]["nodeName"], {name: n for name, n in limits.items() if name.startswith("nvidia.com")}


def test_profiles_are_given_out_by_the_name_under_which_the_node_counts_them(stage: KubeStage) -> None:
    small, large, alike = (
        start(stage, "small", "1g.10gb", cards=2),
        start(stage, "large", "3g.40gb"),
        start(stage, "alike", "1g.18gb"),
    )
    more = start(stage, "more", "3g.40gb")
    stage.run(9)
    assert [state(job) for job in (small, large, alike, more)] == [JobState.RUNNING] * 3 + [JobState.QUEUED]
    assert asked(stage, small) == ("mixed-1", {"nvidia.com/mig-1g.10gb": "2"})
    assert asked(stage, large) == ("mixed-1", {"nvidia.com/mig-3g.40gb": "1"})
    assert asked(stage, alike) == ("single-1", {"nvidia.com/gpu": "1"})
    mixed = LedgerEntry.unscoped.filter(node=stage.queue.node, flavor__card_model="H100", reserved__gt=0)
    assert dict(mixed.values_list("resource", "reserved")) == {
        "gpu.cards": 3,
        "gpu.cores": 2 * 15 + 43,
        "gpu.memory": 2 * 10_240 + 40_960,
        "cpu": 2000,
        "memory": 2048,
    }


def test_instances_of_others_are_theirs(stage: KubeStage) -> None:
    limits = {"nvidia.com/mig-1g.10gb": "3"}
    container = {"name": "main", "image": "x", "resources": {"limits": limits}}
    body = {"metadata": {"name": "inference"}, "spec": {"nodeName": "mixed-1", "containers": [container]}}
    stage.api.call("POST", "/api/v1/namespaces/theirs/pods", body)
    stage.observe()
    assert Device.unscoped.filter(foreign_holders=1, profile="1g.10gb").count() == 3
    one, two = start(stage, "one", "1g.10gb"), start(stage, "two", "1g.10gb")
    stage.run(9)
    assert sorted([state(one), state(two)]) == [JobState.QUEUED, JobState.RUNNING]
