"""Names to numbers, scripts, and the load of a pod."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusters.backends.simulated import chance
from clusters.backends.simulated.load import HEAT_S, LoadCurve, has_cooled
from clusters.backends.simulated.script import Script


def test_the_same_names_give_the_same_number() -> None:
    assert chance.random_fraction("a", 1) == chance.random_fraction("a", 1)
    assert chance.random_fraction("ab", "c") != chance.random_fraction("a", "bc")
    values = [chance.random_between(10, 20, "pod", n) for n in range(1000)]
    assert 10 <= min(values) < 10.1
    assert 19.9 < max(values) < 20
    assert 14.5 < sum(values) / 1000 < 15.5


def test_a_script_without_words_runs_until_removed() -> None:
    assert Script.read_simulate({}) == Script(None, 0, 0.65, None)
    assert Script.read_simulate({"start_s": 0}) == Script(None, 0, 0.65, 0)
    assert Script.read_simulate({"run_s": 1.5, "exit_code": 137, "gpu_utilisation": 0, "else": 1}) == Script(
        1500, 137, 0.0
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("run_s", -1),
        ("run_s", "60"),
        ("run_s", True),
        ("exit_code", 256),
        ("start_s", -1),
        ("gpu_utilisation", 1.1),
    ],
)
def test_a_script_names_what_is_out_of_range(key: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"simulate.{key} must be a number"):
        Script.read_simulate({key: value})


@given(
    st.floats(min_value=0, max_value=1),
    st.floats(min_value=1.7e9, max_value=2e9),
    st.floats(min_value=0, max_value=1e6),
)
def test_load_stays_between_nothing_and_everything(mean: float, at_s: float, age_s: float) -> None:
    curve = LoadCurve.for_pod("pod", mean)
    assert 0 <= curve.compute_share(at_s, age_s) <= 1
    assert 0 <= curve.memory_used(1000, age_s) <= 1000
    for ended_s in (None, 0.0, age_s):
        assert 0 <= curve.lagged_share(at_s, age_s, ended_s, HEAT_S) <= 1


def test_load_rises_from_nothing_and_never_jumps() -> None:
    curve = LoadCurve.for_pod("pod", 0.7)
    values = [curve.compute_share(1.8e9 + age, age) for age in range(600)]
    assert values[0] == 0
    assert max(abs(b - a) for a, b in pairwise(values)) < 0.05
    assert 0.6 < sum(values[120:]) / len(values[120:]) < 0.8


def test_heat_ends_after_the_pod() -> None:
    curve = LoadCurve.for_pod("pod", 0.7)
    heats = [curve.lagged_share(1.8e9 + s, 900 + s, s, HEAT_S) for s in range(0, 400, 20)]
    assert all(later < earlier for earlier, later in pairwise(heats))
    assert heats[-1] < 0.001
    assert has_cooled(400)
    assert not has_cooled(60)
