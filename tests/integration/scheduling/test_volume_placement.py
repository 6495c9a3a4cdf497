"""Pods are bound where their volumes are, by the claims and volumes of a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.base import AccessDenied, BackendUnavailable
from clusters.backends.kubernetes import KubernetesBackend
from clusters.backends.registry import backend_for
from foundation.core import clock
from foundation.core.quantities import Resource
from foundation.core.reasons import Reason
from foundation.models import Hint
from scheduling import engine
from scheduling.engine import model as em
from scheduling.engine_input.config import engine_config
from scheduling.engine_input.jobs import engine_job
from scheduling.execution.volumes.claims import read_mounted_claims
from scheduling.job_file import parse_job
from scheduling.models import ClaimPhase, Job, JobState, MountedClaim
from scheduling.services.cycle import cycle_run
from scheduling.services.jobs.job_check import job_check
from scheduling.services.jobs.job_preview import JobPreview, preview_submission
from scheduling.snapshots import cell_snapshot
from scheduling.snapshots.cell_parts import Seeker, placement_snapshot
from scheduling.snapshots.snapshot_cache import checkout_snapshot
from tests.builders.kube_stage import KubeStage
from tests.builders.volume_stage import CLAIMS, bind, claim, node_of, start, volume, volume_stage

pytestmark = [pytest.mark.server, pytest.mark.django_db]
_A_WHILE = timedelta(seconds=30)


@pytest.fixture
def stage(kube: ControlPlane, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeStage]:
    with volume_stage(kube, monkeypatch) as made:
        yield made


def reason_of(job: Job) -> tuple[str, dict[str, object]]:
    job.refresh_from_db()
    return job.reason, job.reason_numbers


@pytest.mark.parametrize(("zone", "node"), [("a", "whole-1"), ("b", "whole-2")])
def test_a_pod_is_bound_in_the_zone_of_its_volume(stage: KubeStage, zone: str, node: str) -> None:
    volume(stage, "disk", [zone])
    volume(stage, "shared")
    claim(stage, "data", "disk")
    claim(stage, "everywhere", "shared")
    fill = start(stage, "fill", cards=4)  # of two nodes the fuller one would be taken next, in either zone
    stage.run(6)
    job = start(stage, "train", "data", "everywhere")
    stage.run(9)
    assert node_of(job) == node, node_of(fill)
    stage.assert_bound_as_decided()
    assert [pod["spec"]["nodeName"] for name, pod in stage.pods().items() if "train" in name] == [node]


def test_a_job_waits_for_the_zone_of_its_volume_and_reports_that(stage: KubeStage) -> None:
    volume(stage, "disk", ["a"])
    claim(stage, "data", "disk")
    first = start(stage, "first", "data", cards=8, run_s=20)
    stage.run(6)
    second = start(stage, "second", "data")
    stage.run(6)
    assert node_of(first) == "whole-1"
    reason, numbers = reason_of(second)
    assert (reason, numbers["claim"], numbers["excluded_nodes"]) == (Reason.VOLUME_NODE_CONFLICT, "data", 1)
    stage.run(40)
    assert node_of(second) == "whole-1"


def test_no_gpus_are_held_for_claims_that_are_not_bound(stage: KubeStage) -> None:
    claim(stage, "pending")
    volume(stage, "disk", ["b"])
    jobs = {name: start(stage, name, name) for name in ("pending", "missing")}
    stage.run(6)
    for name, job in jobs.items():
        reason, numbers = reason_of(job)
        assert (reason, numbers[f"{name}_claim"], numbers["cluster"]) == (
            Reason.VOLUME_CLAIM_NOT_BOUND, name, "east",
        )  # fmt: skip
    stage.assert_nothing_is_held()
    bind(stage, "pending", "disk")
    claim(stage, "missing", "disk")
    stage.run(40)
    assert {node_of(job) for job in jobs.values()} == {"whole-2"}


def test_a_claim_that_is_being_deleted_is_not_mounted_by_new_jobs(stage: KubeStage) -> None:
    volume(stage, "disk")
    claim(stage, "data", "disk")
    stage.api.call("PATCH", f"{CLAIMS}/data", {"metadata": {"finalizers": ["kubernetes.io/pvc-protection"]}})
    old = start(stage, "old", "data")
    stage.run(6)
    assert node_of(old)
    stage.api.call("DELETE", f"{CLAIMS}/data")
    stage.run(24)  # so long after the first read the claim is read again
    new = start(stage, "new", "data")
    stage.run(6)
    assert reason_of(new)[0] == Reason.VOLUME_CLAIM_NOT_BOUND
    assert "deleting_claim" in reason_of(new)[1]
    old.refresh_from_db()
    assert old.state == JobState.RUNNING


def test_a_fresh_job_waits_for_the_first_read(stage: KubeStage) -> None:
    volume(stage, "disk", ["a"])
    claim(stage, "data", "disk")
    job = start(stage, "train", "data")
    cycle_run(cell_id=stage.cell.pk)
    reason, numbers = reason_of(job)
    assert (reason, numbers["unread_claim"]) == (Reason.VOLUME_CLAIM_UNREAD, "data")
    Hint.unscoped.all().delete()
    assert read_mounted_claims(stage.cluster, backend_for(stage.cluster))
    assert Hint.unscoped.filter(topic="cycle").exists()
    assert not read_mounted_claims(stage.cluster, backend_for(stage.cluster))
    stage.traveller.shift(timedelta(seconds=3))
    cycle_run(cell_id=stage.cell.pk)
    assert node_of(job) == "whole-1"


def test_without_the_permission_for_volumes_bound_claims_start_anywhere(
    stage: KubeStage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object) -> None:
        raise AccessDenied("persistentvolumes is forbidden")

    monkeypatch.setattr(KubernetesBackend, "read_volume_terms", refuse)
    volume(stage, "disk", ["a"])
    claim(stage, "data", "disk")
    job, missing = start(stage, "train", "data"), start(stage, "other", "gone")
    stage.run(6)
    assert node_of(job)
    assert reason_of(missing)[0] == Reason.VOLUME_CLAIM_NOT_BOUND
    assert MountedClaim.unscoped.get(name="data").terms_at is None
    monkeypatch.setattr(KubernetesBackend, "list_volume_claims", refuse)
    unlisted = start(stage, "unlisted", "new")
    stage.run(6)
    assert node_of(unlisted)
    assert MountedClaim.unscoped.get(name="new").phase == ClaimPhase.UNKNOWN


def test_volumes_that_do_not_answer_keep_what_was_known(
    stage: KubeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume(stage, "disk", ["a"])
    claim(stage, "data", "disk")
    claim(stage, "later", "disk")
    old = start(stage, "old", "data", cards=8)
    stage.run(6)

    def fail(*_: object) -> None:
        raise BackendUnavailable("timed out")

    monkeypatch.setattr(KubernetesBackend, "read_volume_terms", fail)
    new, unread = start(stage, "new", "data"), start(stage, "unread", "later")
    stage.run(30)
    assert node_of(old) == "whole-1"
    assert reason_of(new)[0] == Reason.VOLUME_NODE_CONFLICT
    assert reason_of(unread)[0] == Reason.VOLUME_CLAIM_UNREAD


def test_claims_that_nothing_mounts_any_more_are_forgotten(stage: KubeStage) -> None:
    start(stage, "first", "gone")
    start(stage, "second", "lost")
    stage.run(6)
    assert MountedClaim.unscoped.count() == 2
    Job.unscoped.filter(name="first").update(state=JobState.CANCELLED, finished_at=clock.now())
    stage.run(24)
    assert [row.name for row in MountedClaim.unscoped.all()] == ["lost"]


def test_a_kept_snapshot_follows_the_claims(stage: KubeStage) -> None:
    claim(stage, "data")
    volume(stage, "disk", ["a"])
    job = start(stage, "train", "data")
    stage.run(3)

    def seen() -> tuple[em.MountedVolume, ...]:
        kept, _ = checkout_snapshot(stage.cell.pk)
        fresh = cell_snapshot(stage.cell.pk)
        found = [taken.snapshot.jobs[str(job.pk)].rules.volume_claims for taken in (kept, fresh)]
        assert found[0] == found[1]
        return found[0]

    assert [item.state for item in seen()] == [em.ClaimState.PENDING]
    bind(stage, "data", "disk")
    read_mounted_claims(stage.cluster, backend_for(stage.cluster))
    MountedClaim.unscoped.update(read_at=clock.now() - _A_WHILE)
    assert read_mounted_claims(stage.cluster, backend_for(stage.cluster))
    assert [(item.state, bool(item.terms)) for item in seen()] == [(em.ClaimState.BOUND, True)]


def test_jobs_without_claims_cost_no_query(stage: KubeStage) -> None:
    start(stage, "plain")
    with CaptureQueriesContext(connection) as asked:
        cell_snapshot(stage.cell.pk)
        checkout_snapshot(stage.cell.pk)
    assert not [query for query in asked.captured_queries if "mountedclaim" in query["sql"]]
    with CaptureQueriesContext(connection) as asked:
        read_mounted_claims(stage.cluster, backend_for(stage.cluster))
    assert len(asked) == 1


def test_jobs_that_kueue_admitted_are_placed_by_their_volumes(stage: KubeStage) -> None:
    volume(stage, "disk", ["b"])
    claim(stage, "data", "disk")
    job = start(stage, "train", "data")
    job.refresh_from_db()
    read_mounted_claims(stage.cluster, backend_for(stage.cluster))
    own, flavor = str(job.pk), str(stage.flavor.pk)
    quotas = tuple(em.Quota(flavor=flavor, resource=resource, own_nominal=None) for resource in Resource)
    seeker = Seeker(
        job=replace(engine_job(job, list(job.roles.all())), queue=own),
        queue=em.Queue(id=own, quota_node=own, flavors=(flavor,)),
        quota=em.QuotaNode(id=own, quotas=quotas),
    )
    taken = placement_snapshot(stage.cluster, [seeker], {own: job})
    result = engine.run_cycle(taken.snapshot, engine_config(), em.Instant(clock.now().timestamp()))
    placed = {task.node for decision in result.decisions for task in decision.allocations}
    assert {taken.names[node] for node in placed} == {"whole-2"}


def test_a_preview_knows_the_claims_that_were_read(stage: KubeStage) -> None:
    volume(stage, "disk", ["a"])
    claim(stage, "data", "disk")
    start(stage, "first", "data", cards=8)
    stage.run(6)

    def preview(name: str) -> JobPreview:
        role = {"name": "main", "replicas": 1, "image": "a:1", "resources": {"gpu": {"cards": 1}}}
        volumes = [{"claim": name, "mount": "/data"}]
        spec = parse_job({"name": "asked", "queue": stage.queue.name, "roles": [role], "volumes": volumes})
        return preview_submission(
            job_check(acting_user=stage.user, workspace=stage.queue.workspace, spec=spec)
        )

    assert (preview("data").reason, preview("data").numbers["claim"]) == (Reason.VOLUME_NODE_CONFLICT, "data")
    assert preview("never-read").reason == ""
