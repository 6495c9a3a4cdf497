"""The stopwatch of the work of a thread."""

from __future__ import annotations

import threading
import time

import pytest

from foundation.core import clock


def test_cpu_time_counts_and_waiting_counts_only_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    cpu, wall = 5.0, 100.0
    monkeypatch.setattr(clock.time, "thread_time", lambda: cpu)
    monkeypatch.setattr(clock.time, "monotonic", lambda: wall)
    read = clock.start_work_stopwatch(most_wall_per_work=10.0)

    assert read() == 0.0
    cpu, wall = 7.0, 110.0  # a fifth of a processor
    assert read() == 2.0
    wall = 150.0  # stopped since
    assert read() == 5.0


def test_other_threads_do_not_count() -> None:
    read = clock.start_work_stopwatch(most_wall_per_work=1_000_000.0)

    def work() -> None:
        until = time.thread_time() + 0.05
        while time.thread_time() < until:
            pass

    other = threading.Thread(target=work)
    other.start()
    other.join()
    assert read() < 0.04
    work()
    assert read() >= 0.04
