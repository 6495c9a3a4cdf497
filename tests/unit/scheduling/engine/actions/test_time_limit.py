"""Run-time limits."""

from __future__ import annotations

import pytest

from scheduling.engine.model import Instant, Job
from tests.unit.scheduling.engine.actions.worlds import act, live, running_world, settle, told
from tests.unit.scheduling.engine.builders import NOW, job, node

EARLY = Instant(NOW - 500)


@pytest.mark.parametrize(
    ("entry", "ended"),
    [
        (live(job("j", max_run_s=100), running_since=Instant(NOW - 100)), True),
        (live(job("j", max_run_s=100), running_since=Instant(NOW - 99)), False),
        (live(job("j", max_run_s=100), running_since=Instant(NOW - 10), admitted_at=EARLY), False),
        (live(job("j", max_run_s=100), running_since=None, admitted_at=EARLY), True),
        (live(job("j", max_run_s=100), running_since=None, admitted_at=None), False),
        (live(job("j"), running_since=EARLY), False),
    ],
)
def test_a_job_ends_when_it_has_run_its_time(entry: Job, ended: bool) -> None:
    snapshot = running_world([node("n1")], {}, [entry])
    result = act(snapshot, "time_limit")
    assert told(result) == ([("evict", "j", "TIME_LIMIT")] if ended else [])
    settle(snapshot, result)
    assert told(act(snapshot, "time_limit")) == []
