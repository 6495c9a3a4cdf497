"""A cluster that does not answer is asked less and less often."""

from __future__ import annotations

import pytest

from clusters.backends.base import BackendUnavailable
from clusters.backends.kubernetes.client.breaker import FAILURES, LONGEST_PAUSE_S, CircuitBreaker


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def refused(breaker: CircuitBreaker) -> bool:
    try:
        breaker.check_closed()
    except BackendUnavailable:
        return True
    return False


def test_it_opens_after_failures_in_a_row_only(clock: Clock) -> None:
    breaker = CircuitBreaker(clock)
    for _ in range(FAILURES - 1):
        breaker.record_failure()
    breaker.record_success()
    for _ in range(FAILURES - 1):
        breaker.record_failure()
    assert not refused(breaker)
    breaker.record_failure()
    assert refused(breaker)
    with pytest.raises(BackendUnavailable, match=f"{FAILURES} calls in a row failed"):
        breaker.check_closed()


def test_after_a_pause_one_call_is_let_through(clock: Clock) -> None:
    breaker = CircuitBreaker(clock)
    for _ in range(FAILURES):
        breaker.record_failure()
    clock.now += 1.0
    assert not refused(breaker)
    assert refused(breaker)
    breaker.record_success()
    assert not refused(breaker)
    assert not refused(breaker)


def test_pauses_grow_to_a_limit_and_begin_anew_after_a_success(clock: Clock) -> None:
    breaker = CircuitBreaker(clock)
    for _ in range(50):
        breaker.record_failure()
    assert refused(breaker)
    clock.now += LONGEST_PAUSE_S
    assert not refused(breaker)
    breaker.record_success()
    for _ in range(FAILURES):
        breaker.record_failure()
    clock.now += 1.0
    assert not refused(breaker)


def test_one_subject_counts_once_until_something_succeeds(clock: Clock) -> None:
    breaker = CircuitBreaker(clock)
    for _ in range(FAILURES):
        breaker.record_failure("a")
    for number in range(FAILURES - 2):
        breaker.record_failure(f"b{number}")
    assert not refused(breaker)
    breaker.record_success()
    for number in range(FAILURES):
        assert not refused(breaker)
        breaker.record_failure(f"b{number}")
    assert refused(breaker)
