"""The quota that a node still has while it lends: arithmetic over moments."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from quotas.distribution.loans import Flow, least_own_nominal

T0 = datetime(2026, 5, 1, tzinfo=UTC)


def at(hours: int) -> datetime:
    return T0 + timedelta(hours=hours)


def test_nothing_flows() -> None:
    assert least_own_nominal(5, [], at(0), at(9)) == 5
    assert least_own_nominal(None, [Flow(at(1), -3)], at(0), at(9)) is None


def test_what_is_lent_at_the_start_is_gone_and_what_returns_then_is_there() -> None:
    assert least_own_nominal(5, [Flow(at(0), -3)], at(0), at(9)) == 2
    assert least_own_nominal(5, [Flow(at(2), -3), Flow(at(2), 3)], at(0), at(9)) == 5


def test_what_is_lent_at_the_end_does_not_count() -> None:
    assert least_own_nominal(5, [Flow(at(9), -3)], at(0), at(9)) == 5
    assert least_own_nominal(5, [Flow(at(8), -3)], at(0), at(9)) == 2


def test_the_least_of_several_moments_counts() -> None:
    flows = [Flow(at(6), 4), Flow(at(1), -2), Flow(at(3), -2), Flow(at(5), 2)]
    assert least_own_nominal(5, flows, at(0), at(9)) == 1
    assert least_own_nominal(5, flows, at(6), at(9)) == 7


@given(st.integers(0, 50), st.lists(st.tuples(st.integers(0, 20), st.integers(-9, 9))), st.integers(0, 18))
def test_it_is_the_least_of_all_hours(own: int, flows: list[tuple[int, int]], start: int) -> None:
    end = start + 2
    by_hand = min(own + sum(n for hour, n in flows if hour <= now) for now in range(start, end))
    assert least_own_nominal(own, [Flow(at(hour), n) for hour, n in flows], at(start), at(end)) == by_hand
