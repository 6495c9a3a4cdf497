"""Processes beside a web process: they compute as the request would, and none is waited for in vain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.utils import translation

from foundation.compute.calls import Call
from foundation.compute.pool import NoneFree, ProcessPool, Superseded
from foundation.compute.process import ProcessEnded
from foundation.core.errors import Refused
from foundation.sql.row_scope import RowScope, use_scope
from tests.fixtures import compute
from tests.fixtures.wait import wait_until


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    """One process, so that a second call has to wait."""
    made = ProcessPool(["tests.fixtures.compute"], most=1)
    yield made
    made.close()


def run(
    pool: ProcessPool, function: Callable[..., Any], *args: Any, wait_s: float = 60, key: str = ""
) -> Any:
    return pool.run(Call(function, args, {}), wait_s=wait_s, key=key)


class Asking(threading.Thread):
    """A request in a thread of its own; `outcome` is what it got, or its error."""

    def __init__(self, pool: ProcessPool, function: Callable[..., Any], *args: Any, key: str = "") -> None:
        super().__init__()
        self.outcome: Any = None
        self._call = lambda: run(pool, function, *args, key=key)
        self.start()

    def run(self) -> None:
        try:
            self.outcome = self._call()
        except Exception as error:
            self.outcome = error


def test_it_computes_elsewhere_as_the_request_would(pool: ProcessPool) -> None:
    with translation.override("zh-hans"), use_scope(RowScope("{/a/}", "someone")):
        number, process, language, user, previews = run(pool, compute.describe_context, 7)

    assert process != os.getpid()
    assert (number, language, user, previews) == (7, "zh-hans", "someone", False)
    assert run(pool, compute.describe_context, 8)[2:4] == (translation.get_language(), "")


def test_errors_arrive_with_their_numbers(pool: ProcessPool) -> None:
    with pytest.raises(Refused) as refused:
        run(pool, compute.refuse)
    assert (refused.value.code, refused.value.numbers) == ("NO_ROOM", {"short": 3})
    with pytest.raises(RuntimeError, match="ValueError"):
        run(pool, compute.raise_unpicklable)


def test_a_superseded_call_ends_before_its_time(pool: ProcessPool, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    older = Asking(pool, compute.compute_until, str(first), key="page")
    wait_until(lambda: older.is_alive() and is_computing(pool), "the first call is computed", within_s=30)
    newer = Asking(pool, compute.compute_until, str(second), key="page")

    older.join(30)

    assert isinstance(older.outcome, Superseded)
    assert first.read_text(encoding="utf-8") == "dropped"
    second.touch()
    newer.join(30)
    assert newer.outcome == "found"


def is_computing(pool: ProcessPool) -> bool:
    return pool.busy == 1


def test_a_call_that_waits_is_superseded_without_being_computed(pool: ProcessPool, tmp_path: Path) -> None:
    other, queued = tmp_path / "other", tmp_path / "queued"
    busy = Asking(pool, compute.compute_until, str(other))
    wait_until(lambda: is_computing(pool), "the process is busy", within_s=30)
    older = Asking(pool, compute.compute_until, str(queued), key="page")
    wait_until(lambda: pool.has_call("page"), "the call waits", within_s=30)
    newer = Asking(pool, compute.describe_context, 1, key="page")

    older.join(30)

    assert isinstance(older.outcome, Superseded) and not queued.exists()
    assert busy.is_alive()
    other.touch()
    busy.join(30)
    newer.join(30)
    assert newer.outcome[0] == 1


def test_nobody_waits_longer_than_asked_for_a_process(pool: ProcessPool, tmp_path: Path) -> None:
    end = tmp_path / "end"
    busy = Asking(pool, compute.compute_until, str(end))
    wait_until(lambda: is_computing(pool), "the process is busy", within_s=30)
    begun = time.monotonic()
    with pytest.raises(NoneFree):
        run(pool, compute.describe_context, 1, wait_s=0.2)
    assert time.monotonic() - begun < 10
    end.touch()
    busy.join(30)
    assert busy.outcome == "found"


def test_a_killed_process_is_replaced(pool: ProcessPool) -> None:
    with pytest.raises(ProcessEnded):
        run(pool, compute.end_process)
    first = run(pool, compute.describe_context, 1)[1]
    os.kill(first, 9)
    assert run(pool, compute.describe_context, 1)[1] != first


_ASK_AND_DIE = """
import os, signal
from foundation.compute.calls import Call
from foundation.compute.pool import ProcessPool
from tests.fixtures import compute
pool = ProcessPool([])
print(pool.run(Call(compute.describe_context, (1,), {}), wait_s=60)[1], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_process_ends_with_who_started_it() -> None:
    command = [sys.executable, "-c", _ASK_AND_DIE]
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL
    folder = Path("/proc", ended.stdout.strip())

    def is_gone() -> bool:
        try:
            return "(zombie)" in (folder / "status").read_text(encoding="utf-8")
        except OSError:
            return True

    wait_until(is_gone, "the process has ended", within_s=30)
