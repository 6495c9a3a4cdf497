"""A simulated cluster has no volumes: claims keep no job from its nodes."""

from __future__ import annotations

import pytest
import time_machine

from scheduling.models import HOLDING_STATES, Job, MountedClaim
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db


def test_a_job_with_a_claim_runs_in_a_simulated_cluster() -> None:
    stage = Stage()
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        job = stage.submit("train", run_s=10_000)
        Job.unscoped.filter(pk=job.pk).update(volumes=[{"claim": "data", "mount": "/data"}])
        stage.run(15)
    assert state(job) in HOLDING_STATES
    assert not MountedClaim.unscoped.exists()
