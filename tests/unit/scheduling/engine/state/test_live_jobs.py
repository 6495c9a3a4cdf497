"""The index of jobs for housekeeping follows jobs as they are added, changed and removed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import Delta, JobPut, JobRemoved, Snapshot
from scheduling.engine.model import Instant, Job, JobState
from scheduling.engine.state.live_jobs import LiveJobIndex
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
        idle_since=draw(instants),
    )


def index_contents(watch: LiveJobIndex) -> tuple[object, ...]:
    sets = (watch.idle, watch.elastic["a"], watch.jobs_without_start())
    return (
        *(sorted(ids) for ids in sets),
        dict(watch.wanted_tasks),
        list(watch.run_time_ends()),
    )


@given(st.lists(jobs() | st.sampled_from("xyz"), max_size=12))
@settings(max_examples=200)
def test_following_changes_is_the_same_as_starting_anew(changes: list[Job | str]) -> None:
    kept: Snapshot = world([node("n")], [])
    for change in changes:
        kept.apply_delta(Delta((JobRemoved(change) if isinstance(change, str) else JobPut(change),)))
    assert index_contents(kept.live_jobs) == index_contents(LiveJobIndex(kept.jobs.values()))


def test_the_run_time_of_a_job_counts_from_its_admission_until_it_runs() -> None:
    limited = replace(job("j"), state=JobState.LIVE, admitted_at=NOW, max_run_s=60)
    assert list(LiveJobIndex([limited]).run_time_ends()) == [(NOW + 60, "j")]


LIVE, AT = {"state": JobState.LIVE}, Instant(5)


@pytest.mark.parametrize(
    ("facts", "noted"),
    [
        ({}, {"tasks": 2}),
        ({"state": JobState.LEAVING, "idle_since": AT, "max_run_s": 1}, {}),
        ({"idle_since": AT}, {"tasks": 2, "idle": True}),
        ({"min_available": 1}, {"tasks": 2, "elastic": True}),
        ({"max_run_s": 60}, {"tasks": 2, "unstarted": True}),
        ({"admitted_at": AT}, {"tasks": 2}),
        ({"max_run_s": 60, "admitted_at": AT}, {"tasks": 2, "end": 65.0}),
        ({"max_run_s": 60, "admitted_at": AT, "running_since": Instant(9)}, {"tasks": 2, "end": 69.0}),
    ],
)
def test_a_job_is_noted_for_what_there_is_to_do(facts: dict[str, Any], noted: dict[str, object]) -> None:
    def of(watch: LiveJobIndex) -> dict[str, object]:
        sets = {"idle": watch.idle, "elastic": watch.elastic["a"]}
        sets["unstarted"] = dict.fromkeys(watch.jobs_without_start())
        found: dict[str, object] = {name: True for name, ids in sets.items() if "j" in ids}
        counts = {
            "tasks": watch.wanted_tasks.get("j"),
            "end": {name: end for end, name in watch.run_time_ends()}.get("j"),
        }
        return found | {name: count for name, count in counts.items() if count is not None}

    known = replace(job("j", "a", replace(role(3), ended=1)), **{**LIVE, **facts})
    others = [
        replace(job(name), **LIVE, max_run_s=60, admitted_at=Instant(at)) for name, at in (("i", 4), ("k", 6))
    ]
    assert of(LiveJobIndex([known])) == noted
    watch = LiveJobIndex(others)
    watch.update_job(None, known)
    assert of(watch) == noted
    assert list(watch.run_time_ends()) == sorted(watch.run_time_ends())
    plain = replace(known, **LIVE, idle_since=None, max_run_s=None)
    watch.update_job(known, plain)
    watch.update_job(plain, None)
    assert of(watch) == {}
    assert list(watch.run_time_ends()) == [(64, "i"), (66, "k")]


def test_ends_come_in_their_order() -> None:
    limited = [
        replace(job(name), **LIVE, admitted_at=Instant(at), max_run_s=10)
        for name, at in (("late", 9), ("early", 1), ("middle", 5))
    ]
    assert [name for _, name in LiveJobIndex(limited).run_time_ends()] == ["early", "middle", "late"]
