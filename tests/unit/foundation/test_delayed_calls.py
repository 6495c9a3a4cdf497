"""Calls come at their time and in their order, unless they are cancelled; children of a fork begin anew."""

from __future__ import annotations

import os
import signal
import threading
import time

from foundation.messaging.delayed_calls import DelayedCalls, delayed_calls
from tests.fixtures.wait import wait_until

LONG_S = 600.0


def test_calls_are_made_at_their_time_and_the_thread_ends_after_the_last() -> None:
    calls, made, begun = DelayedCalls(), list[str](), time.monotonic()
    calls.call_later(1.5, lambda: made.append("second"))
    calls.call_later(0.1, lambda: made.append("first"))
    thread = calls._thread
    assert thread is not None

    wait_until(lambda: len(made) == 2, "both calls were made", within_s=10)

    assert made == ["first", "second"]
    assert time.monotonic() - begun >= 1.5
    wait_until(lambda: not thread.is_alive(), "the thread ended", within_s=10)
    calls.call_later(0, lambda: made.append("third"))
    wait_until(lambda: made[2:] == ["third"], "a call after that was made", within_s=10)


def test_an_early_call_does_not_wait_for_a_late_one() -> None:
    calls, made = DelayedCalls(), threading.Event()
    late = calls.call_later(LONG_S, lambda: None)
    wait_until(lambda: calls._wakes_at < float("inf"), "the thread waits", within_s=10)

    calls.call_later(0.01, made.set)

    assert made.wait(10)
    calls.cancel_call(late)


def test_a_cancelled_call_is_not_made() -> None:
    calls, made = DelayedCalls(), list[str]()
    cancelled = calls.call_later(0.05, lambda: made.append("cancelled"))
    calls.call_later(0.2, lambda: made.append("kept"))

    calls.cancel_call(cancelled)

    wait_until(lambda: "kept" in made, "the other call was made", within_s=10)
    assert made == ["kept"]
    calls.cancel_call(cancelled)


def test_what_a_call_raises_stops_no_other() -> None:
    calls, made = DelayedCalls(), threading.Event()
    calls.call_later(0, lambda: 1 / 0)
    calls.call_later(0.05, made.set)
    assert made.wait(10)


def test_a_child_of_a_fork_has_a_thread_of_its_own() -> None:
    kept = delayed_calls.call_later(LONG_S, lambda: None)
    try:
        with delayed_calls._lock:  # held by a thread that the child does not have
            child = os.fork()
            if not child:
                signal.signal(signal.SIGALRM, signal.SIG_DFL)
                signal.alarm(20)  # one that waits for the lock would wait for ever
                made = threading.Event()
                delayed_calls.call_later(0, made.set)
                os._exit(0 if made.wait(10) and delayed_calls._waiting == {} else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        delayed_calls.cancel_call(kept)
