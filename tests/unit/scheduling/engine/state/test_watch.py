"""What housekeeping has to look at follows the jobs as they come, change and go."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import Delta, JobGone, JobPut, Snapshot
from scheduling.engine.model import Instant, Job, JobState
from scheduling.engine.state.watch import Watch
from tests.unit.scheduling.engine.builders import NOW, job, node, role, world

instants = st.none() | st.integers(0, 9).map(Instant)


@st.composite
def jobs(draw: st.DrawFn) -> Job:
    return replace(
        job(draw(st.sampled_from("xyz")), "a", role(2, 1, least=draw(st.integers(1, 2)))),
        state=draw(st.sampled_from(JobState)),
        max_run_s=draw(st.none() | st.integers(0, 9)),
        admitted_at=draw(instants),
        running_since=draw(instants),
        broken_since=draw(instants),
        idle_since=draw(instants),
    )


def told(watch: Watch) -> tuple[object, ...]:
    sets = (watch.broken, watch.idle, watch.elastic["a"], watch.unstarted())
    return (*(sorted(ids) for ids in sets), dict(watch.tasks), list(watch.ends()), watch.overdue(Instant(7)))


@given(st.lists(jobs() | st.sampled_from("xyz"), max_size=12))
@settings(max_examples=200)
def test_following_changes_is_the_same_as_starting_anew(changes: list[Job | str]) -> None:
    kept: Snapshot = world([node("n")], [])
    for change in changes:
        kept.apply(Delta((JobGone(change) if isinstance(change, str) else JobPut(change),)))
    assert told(kept.watch) == told(Watch(kept.jobs.values()))


def test_a_job_is_overdue_from_the_moment_on_at_which_its_time_is_over() -> None:
    limited = replace(job("j"), state=JobState.LIVE, admitted_at=NOW, max_run_s=60)
    watch = Watch([limited])
    assert watch.overdue(Instant(NOW + 59)) == []
    assert watch.overdue(Instant(NOW + 60)) == ["j"]
    assert list(watch.ends()) == [(NOW + 60, "j")]
