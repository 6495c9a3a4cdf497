"""Run times: quantiles of what was seen, conditional on what has run, from the most specific group."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.prediction.run_times import JobTraits, PastRun, RunGroup, RunTimes, SurvivalCurve

TRAITS = JobTraits("team", "ed", "torch", "batch", 100)
seconds = st.integers(1, 10_000).map(float)
shares = st.floats(0.0, 0.999)


@given(st.lists(seconds, min_size=1, max_size=40), st.integers(0, 39))
def test_without_censoring_quantiles_are_those_of_the_runs(times: list[float], place: int) -> None:
    ranked = sorted(times)
    place %= len(ranked)
    curve = SurvivalCurve([(each, True) for each in times])

    assert curve.find_quantile(0.0, (place + 0.5) / len(ranked)) == ranked[place]


@given(st.lists(st.tuples(seconds, st.booleans()), min_size=1, max_size=40), seconds, shares, shares)
def test_a_run_lasts_longer_than_it_has_run_and_quantiles_rise(
    runs: list[tuple[float, bool]], elapsed: float, one: float, other: float
) -> None:
    curve = SurvivalCurve(runs)
    low, high = (curve.find_quantile(elapsed, share) for share in sorted((one, other)))

    assert elapsed <= low <= high


@given(st.lists(seconds, min_size=2, max_size=40), seconds)
def test_what_has_run_longer_counts_alone(times: list[float], elapsed: float) -> None:
    later = sorted(each for each in times if each > elapsed)
    curve = SurvivalCurve([(each, True) for each in times])

    assert curve.count_ended_after(elapsed) == len(later)
    for place, each in enumerate(later):
        assert curve.find_quantile(elapsed, (place + 0.5) / len(later)) == each


def test_runs_that_go_on_move_the_rest_out() -> None:
    """Of four runs two ended at 10 and 20, two go on at 15 and 30: beyond 20 survive 3/4 of 1/2."""
    curve = SurvivalCurve([(10.0, True), (15.0, False), (20.0, True), (30.0, False)])

    assert curve.find_quantile(0.0, 0.24) == 10.0
    assert curve.find_quantile(0.0, 0.60) == 20.0
    # Nothing ended beyond 30: the median of the rest is as long again.
    assert curve.find_quantile(0.0, 1.0 - 0.375 / 2) == pytest.approx(60.0)
    assert curve.find_quantile(100.0, 0.5) == pytest.approx(200.0)


def test_the_most_specific_group_with_enough_runs_is_the_basis() -> None:
    own = [PastRun(TRAITS, 100.0, True)] * 30
    others = [PastRun(replace(TRAITS, user="mo", image="x"), 5_000.0, True)] * 300
    times = RunTimes([*own, *others])

    found = times.estimate_run_time(TRAITS)
    assert (found.basis.level, found.basis.runs) == (RunGroup.SAME_JOB, 30)
    # 30 of 40 parts are the group's own, and the same again in the group above; few others remain.
    draws = [found.draw_run_time((place + 0.5) / 400, 0.5) for place in range(400)]
    assert 0.9 < draws.count(100.0) / 400 < 1.0

    few = times.estimate_run_time(replace(TRAITS, image="new"))
    assert few.basis.level is RunGroup.USER_SIZE
    stranger = times.estimate_run_time(JobTraits("new", "new", "", "batch", 800))
    assert (stranger.basis.level, stranger.basis.runs) == (RunGroup.ALL, 330)


@given(shares, shares, seconds, seconds)
def test_a_limit_ends_every_run(group: float, share: float, elapsed: float, limit: float) -> None:
    times = RunTimes([PastRun(TRAITS, 50.0, True), PastRun(TRAITS, 9_000.0, False)])

    drawn = times.estimate_run_time(TRAITS, elapsed_s=elapsed, limit_s=limit).draw_run_time(group, share)

    assert elapsed < drawn <= max(limit, elapsed + 1.0)


def test_nothing_is_learned_from_runs_that_never_ended() -> None:
    with pytest.raises(ValueError, match="ended"):
        RunTimes([PastRun(TRAITS, 50.0, False)])
