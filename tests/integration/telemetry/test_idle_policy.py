"""The idle time-out of a workspace's policy, from measured cards to suspended jobs."""

from __future__ import annotations

from datetime import timedelta

from scheduling.models import Job, JobEvent, JobState, WorkspacePolicy
from telemetry.services.idle import idle_report
from tests.builders import tenancy
from tests.integration.telemetry.conftest import START, Bench


def measure(bench: Bench, busy: float) -> None:
    """Six minutes in which the whole card idles, and one of the two slices is as busy as told."""
    for tick in range(37):
        at = START + timedelta(seconds=10 * tick)
        bench.clock.move_to(at)
        bench.write(
            bench.card(at, 1, 1.0, 30_000),
            bench.pod(at, bench.sliced, 0, 0.0, 5_000),
            bench.pod(at, bench.sliced, 1, busy, 5_000),
        )


def states(bench: Bench) -> dict[str, str]:
    return dict(Job.unscoped.values_list("name", "state"))


def running(bench: Bench) -> None:
    Job.unscoped.update(state=JobState.RUNNING)


def test_a_job_is_suspended_when_all_its_cards_idle_too_long(bench: Bench) -> None:
    running(bench)
    WorkspacePolicy.unscoped.create(tenant=tenancy.root(), idle_timeout_s=300)
    measure(bench, busy=40.0)
    assert idle_report() == 1
    assert states(bench) == {"sliced": JobState.RUNNING, "whole": JobState.EVICTING}
    bench.whole.refresh_from_db()
    assert bench.whole.after_eviction == JobState.SUSPENDED
    told = JobEvent.unscoped.get(job=bench.whole, code="evicting").numbers
    assert told == {"rule": "IDLE", "cards": 1, "limit_s": 300}
    assert idle_report() == 0


def test_only_where_a_policy_says_so_and_for_as_long_as_it_says(bench: Bench) -> None:
    running(bench)
    measure(bench, busy=0.0)
    assert idle_report() == 0
    WorkspacePolicy.unscoped.create(tenant=bench.world.workspace, idle_timeout_s=600)
    assert idle_report() == 0
    WorkspacePolicy.unscoped.update(idle_timeout_s=300)
    assert idle_report() == 1
    assert states(bench) == {"sliced": JobState.EVICTING, "whole": JobState.RUNNING}
