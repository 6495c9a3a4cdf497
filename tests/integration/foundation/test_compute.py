"""Processes beside a web process: they compute as the request would, and no request waits in vain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import OperationalError
from django.utils import translation

from foundation.compute.calls import Call
from foundation.compute.pool import MOST_WAITING, NoneFree, ProcessPool
from foundation.compute.process import ComputeProcess
from foundation.core.errors import Refused
from foundation.monitoring.outages import DatabaseReadOnly, DatabaseUnavailable, StorageFull, find_outage
from foundation.sql.row_scope import RowScope, use_scope
from tests.fixtures import compute
from tests.fixtures.wait import wait_until


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    """Yield a pool of one process, so that a second call has to wait."""
    made = ProcessPool(["tests.fixtures.compute"], most=1)
    yield made
    made.end_idle()


def run(
    pool: ProcessPool, function: Callable[..., Any], *args: Any, wait_s: float = 60, user: str = ""
) -> Any:
    return pool.run(Call(function, args, {}), wait_s=wait_s, user=user)


class Asking(threading.Thread):
    """A request in a thread of its own; `outcome` is its result or its error."""

    def __init__(self, pool: ProcessPool, function: Callable[..., Any], *args: Any, user: str = "") -> None:
        super().__init__()
        self.outcome: Any = None
        self._call = lambda: run(pool, function, *args, user=user)
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


def test_an_error_says_where_it_was_raised(pool: ProcessPool) -> None:
    for function, kind in ((compute.refuse, Refused), (compute.raise_unpicklable, RuntimeError)):
        with pytest.raises(kind) as raised:
            run(pool, function)
        assert f"in {function.__name__}" in "".join(traceback.format_exception(raised.value))


@pytest.mark.parametrize(
    ("cause", "outage"),
    [
        (psycopg.errors.DiskFull, StorageFull),
        (psycopg.errors.ReadOnlySqlTransaction, DatabaseReadOnly),
        (psycopg.errors.AdminShutdown, DatabaseUnavailable),
        (psycopg.OperationalError, DatabaseUnavailable),
        (psycopg.errors.QueryCanceled, None),
    ],
)
def test_an_outage_stays_one(
    pool: ProcessPool, cause: type[psycopg.Error], outage: type[Exception] | None
) -> None:
    with pytest.raises(outage or OperationalError) as raised:
        run(pool, compute.raise_database_error, cause)
    assert isinstance(find_outage(raised.value) or raised.value, outage or OperationalError)
    assert "raise_database_error" in "".join(raised.value.__notes__)


def is_computing(pool: ProcessPool) -> bool:
    return pool.running_count == 1


def ask_while_busy(pool: ProcessPool, end: Path) -> Asking:
    """Let a call of one user be computed until the file `end` exists."""
    busy = Asking(pool, compute.compute_until, str(end), user="busy")
    wait_until(lambda: is_computing(pool), "the process is busy", within_s=30)
    return busy


def test_calls_have_their_turns_in_order_and_one_user_waits_once(pool: ProcessPool, tmp_path: Path) -> None:
    """Calls of a user with a running call come after those of others, and a third call is refused at once."""
    end, order = tmp_path / "end", tmp_path / "order"
    asking = [ask_while_busy(pool, end)]
    for number, user in enumerate(("busy", "other", "third")):
        asking.append(Asking(pool, compute.write_line, str(order), user, user=user))
        wait_until(lambda wanted=number + 1: pool.waiting_count == wanted, "the call waits", within_s=30)

    begun = time.monotonic()
    for user in ("busy", "other"):
        with pytest.raises(NoneFree):
            run(pool, compute.describe_context, 1, user=user)
    assert time.monotonic() - begun < 10

    end.touch()
    for each in asking:
        each.join(30)
    assert order.read_text(encoding="utf-8").split() == ["busy", "other", "third"]
    assert (pool.running_count, pool.waiting_count) == (0, 0)


def test_one_user_has_one_process_where_two_are_allowed(tmp_path: Path) -> None:
    pool, end = ProcessPool(["tests.fixtures.compute"], most=2), tmp_path / "end"
    busy = ask_while_busy(pool, end)
    again = Asking(pool, compute.compute_until, str(end), user="busy")
    wait_until(lambda: pool.waiting_count == 1, "the second call waits", within_s=30)

    assert run(pool, compute.describe_context, 1, user="other")[0] == 1

    assert (pool.running_count, pool.waiting_count) == (1, 1)
    end.touch()
    for each in (busy, again):
        each.join(30)
        assert each.outcome == "found"
    pool.end_idle()


def test_few_calls_wait(pool: ProcessPool, tmp_path: Path) -> None:
    end = tmp_path / "end"
    asking = [ask_while_busy(pool, end)]
    asking += [Asking(pool, compute.compute_until, str(end), user=f"{n}") for n in range(MOST_WAITING)]
    wait_until(lambda: pool.waiting_count == MOST_WAITING, "the calls wait", within_s=30)
    with pytest.raises(NoneFree):
        run(pool, compute.describe_context, 1, user="one more")
    end.touch()
    for each in asking:
        each.join(30)
        assert each.outcome == "found"


def test_no_caller_waits_longer_than_asked_for_a_process(pool: ProcessPool, tmp_path: Path) -> None:
    end = tmp_path / "end"
    busy = ask_while_busy(pool, end)
    begun = time.monotonic()
    with pytest.raises(NoneFree):
        run(pool, compute.describe_context, 1, wait_s=0.2, user="other")
    assert time.monotonic() - begun < 10
    end.touch()
    busy.join(30)
    assert busy.outcome == "found"


def test_a_killed_process_is_replaced(pool: ProcessPool) -> None:
    with pytest.raises(NoneFree):
        run(pool, compute.end_process)
    first = run(pool, compute.describe_context, 1)[1]
    os.kill(first, 9)
    assert run(pool, compute.describe_context, 1)[1] != first


def count_open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_process_that_cannot_be_started_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made, before = ProcessPool([]), count_open_files()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    for _ in range(3):
        made.start_process()
        with pytest.raises(NoneFree):
            run(made, compute.describe_context, 1)
    assert count_open_files() == before
    assert (made.running_count, made.waiting_count) == (0, 0)


def test_a_process_that_does_not_read_is_not_waited_for() -> None:
    """The call is larger than what the socket buffers without a reader."""
    process = ComputeProcess([], answer_s=1)
    os.kill(process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(TimeoutError):
            process.send_call(bytes(10_000_000))
    finally:
        process.kill()


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
