"""The results that `bench kube` draws from its figures, and the size of its quick form."""

from __future__ import annotations

import pytest

from benchmarks.kube.figures import KubeFigures, Size, build_report, size_of
from benchmarks.kube.pod import build_pod
from benchmarks.support.report import FigureRow, read_limits

BOUNDS = read_limits("kube")


def test_the_whole_run_is_what_the_limits_say() -> None:
    assert size_of(BOUNDS, 1.0) == Size(nodes=500, each=8, owned=512, plain=2000, steady=400)


@pytest.mark.parametrize("share", [0.001, 0.01, 0.1, 0.5])
def test_a_share_of_it_leaves_cards_to_be_borrowed_and_whole_nodes_to_be_taken_back(share: float) -> None:
    size = size_of(BOUNDS, share)
    assert 0 < size.owned < size.cards < 4000
    assert size.owned % size.each == 0
    assert size.plain <= size.cards
    assert size.steady >= 100


def rows(**changed: float) -> dict[str, FigureRow]:
    """The rows of a run of 80 cards that were filled in 4 s: 20 pods a second."""
    size = Size(nodes=10, each=8, owned=16, plain=80, steady=100)
    figures = {
        "created": 100.0,
        "created_and_bound": 40.0,
        "minimal": 50.0,
        "filled_s": 4.0,
        "reclaimed_s": 2.0,
        **changed,
    }
    steady_s = [0.1] * 94 + [changed.get("slow", 1.5)] * 6
    figures.pop("slow", None)
    made = build_report(BOUNDS, size, KubeFigures(steady_s=steady_s, **figures))
    assert made.rate == size.cards / figures["filled_s"]
    return {row.what: row for row in made.rows}


def test_half_the_rate_of_bare_calls_is_enough() -> None:
    row = rows()["bare pods bound in the time of one of ours"]
    assert (row.measured, row.limit, row.passed) == (2.0, 2.5, True)


def test_minimal_pods_are_shown_beside_it_without_a_limit() -> None:
    row = rows()["minimal pods bound in the time of one of ours"]
    assert (row.measured, row.limit, row.passed) == (2.5, None, True)


def test_a_third_of_it_is_not() -> None:
    assert not rows(created_and_bound=60.0)["bare pods bound in the time of one of ours"].passed


def test_six_slow_jobs_of_a_hundred_count_and_are_measured_as_they_are() -> None:
    name = "submit to bound at 20 jobs/s, p95 s"
    assert rows()[name].measured == 1.5
    assert not rows(slow=2.5)[name].passed


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        ({"filled_s": 181.0}, "80 jobs of one card bound, s"),
        ({"reclaimed_s": 31.0}, "one job takes 16 cards back, s"),
    ],
)
def test_a_value_beyond_its_limit_fails_the_row(changed: dict[str, float], what: str) -> None:
    assert rows()[what].passed
    assert not rows(**changed)[what].passed


def test_the_bare_pods_are_pods_of_the_platform_with_one_card() -> None:
    pod = build_pod("bare")
    assert pod["kind"] == "Pod"
    assert pod["metadata"]["namespace"] == "bare"
    limits = pod["spec"]["containers"][0]["resources"]["limits"]
    assert "1" in {str(value) for name, value in limits.items() if "gpu" in name}
