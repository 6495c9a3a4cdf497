"""Reasons of jobs with a claim whose volume is created for a node, on a real API server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from benchmarks.support.control_plane import ControlPlane
from foundation.core.reasons import Reason
from scheduling.models import Allocation, GpuRequestMode, Job, JobState
from tests.builders.jobs import RoleOf
from tests.builders.kube_stage import KubeStage
from tests.builders.volume_stage import CLASSES, ZONE, bind, claim, start, volume, volume_stage

pytestmark = [pytest.mark.server, pytest.mark.django_db]


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    with volume_stage(kube, monkeypatch) as made:
        yield made


def claim_on_demand(stage: KubeStage, **more: object) -> None:
    """Create a claim whose volume is created for the node of its first pod."""
    mode = {"provisioner": "disk.example", "volumeBindingMode": "WaitForFirstConsumer"}
    stage.api.call("POST", CLASSES, {"metadata": {"name": "standard"}, **mode, **more})
    claim(stage, "data", storageClassName="standard")


def gang_on_two_nodes(stage: KubeStage) -> Job:
    """Return a job that mounts the claim and needs more than one node, after a cycle has evaluated it."""
    job = stage.start("gang", RoleOf(mode=GpuRequestMode.WHOLE, replicas=2, cards=5), run_s=10_000)
    Job.unscoped.filter(pk=job.pk).update(volumes=[{"claim": "data", "mount": "/mnt/data"}])
    stage.run(9)
    job.refresh_from_db()
    return job


def test_a_job_that_needs_several_nodes_waits_for_the_volume_to_be_created(stage: KubeStage) -> None:
    """A gang on two nodes isn't reported as unschedulable while the volume is created for one of them."""
    claim_on_demand(stage)
    first = start(stage, "first", "data")
    stage.run(9)
    gang = gang_on_two_nodes(stage)
    assert (gang.reason, gang.reason_numbers["uncreated_claim"]) == (Reason.VOLUME_NODE_CONFLICT, "data")
    volume(stage, "everywhere")
    bind(stage, "data", "everywhere")
    stage.run(12)
    gang.refresh_from_db()
    assert (gang.state, gang.reason) == (JobState.RUNNING, "")
    held = Allocation.unscoped.filter(attempt__job__in=[first, gang], released_at=None)
    assert set(held.values_list("node__name", flat=True)) == {"whole-1", "whole-2"}


def test_the_topologies_of_a_storage_class_hold_for_the_volume_as_well(stage: KubeStage) -> None:
    claim_on_demand(stage, allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}])
    gang = gang_on_two_nodes(stage)
    assert (gang.reason, gang.reason_numbers["claim"]) == (Reason.VOLUME_NODES_TOO_SMALL, "data")
