"""The processes that compute for the requests of one web process."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import structlog

from foundation.compute.calls import Call
from foundation.compute.process import ComputeProcess, ProcessEnded

log = structlog.get_logger(__name__)

MOST: Final = 2
"""So many processes at most: one more would take memory, and share the processors with the others."""
ANSWER_S: Final = 60.0
"""A process that has not answered after so many seconds is killed."""


class Superseded(Exception):
    """Whoever asked has asked anew, and does not wait for this answer."""


class NoneFree(TimeoutError):
    """No process was free in time, or none answered in time."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """A call that somebody waits for; `process` is the one that computes it."""

    number: int
    process: ComputeProcess | None = None
    superseded: bool = False


class ProcessPool:
    """Processes that are started when they are needed, each with `modules` loaded."""

    def __init__(self, modules: Sequence[str], most: int = MOST) -> None:
        self._modules, self._most = modules, most
        self._changed = threading.Condition()
        self._idle: list[ComputeProcess] = []
        self._count = 0
        self._latest: dict[str, _Waiting] = {}

    def start(self) -> None:
        """Start a process if there is none, so that the first call needn't wait for it."""
        with self._changed, suppress(OSError):  # the first call says so
            self._forget_ended()
            if not self._count:
                self._add_process()

    @property
    def busy(self) -> int:
        """The number of processes that compute, or begin to."""
        return self._count - len(self._idle)

    def has_call(self, key: str) -> bool:
        """Return whether a call with this key is computed or waits."""
        return key in self._latest

    def close(self) -> None:
        """End the processes that are idle."""
        with self._changed:
            while self._idle:
                self._idle.pop().end()
                self._count -= 1

    def run(self, call: Call, *, wait_s: float, key: str = "") -> Any:
        """Return what the function returns, or raise what it raises.

        A call with a `key` supersedes an earlier one with the same key. It waits `wait_s` for a process.
        Raises: Superseded; NoneFree; ProcessEnded if the process was killed, as for lack of memory.
        """
        pickled, waiting = pickle.dumps(call), _Waiting(call.number)
        if key:
            self._supersede(key, waiting)
        try:
            outcome = self._ask(waiting, pickled, wait_s)
        finally:
            with self._changed:
                if self._latest.get(key) is waiting:
                    del self._latest[key]
        if waiting.superseded:
            raise Superseded
        found, error = pickle.loads(outcome)  # noqa: S301 (from a process that was started here)
        if error is not None:
            raise error
        return found

    def _supersede(self, key: str, waiting: _Waiting) -> None:
        with self._changed:
            older = self._latest.get(key)
            self._latest[key] = waiting
            if older is not None:
                older.superseded = True
                if older.process is not None:
                    older.process.drop(older.number)
                self._changed.notify_all()

    def _ask(self, waiting: _Waiting, call: bytes, wait_s: float) -> bytes:
        for is_last in (False, True):
            process = self._take(waiting, wait_s)
            try:
                outcome = process.ask(call, ANSWER_S)
            except ProcessEnded as error:
                self._give_up(process, waiting)
                if error.read or is_last:
                    raise
            except TimeoutError as error:
                self._give_up(process, waiting)
                log.warning("computing took too long", timeout_s=ANSWER_S)
                raise NoneFree from error
            except BaseException:
                self._give_up(process, waiting)
                raise
            else:
                self._give_back(process, waiting)
                return outcome
        raise AssertionError("unreachable")

    def _take(self, waiting: _Waiting, wait_s: float) -> ComputeProcess:
        until = time.monotonic() + wait_s
        with self._changed:
            while True:
                if waiting.superseded:
                    raise Superseded
                self._forget_ended()
                if not self._idle and self._count < self._most:
                    self._add_process()
                if self._idle:
                    waiting.process = self._idle.pop()
                    return waiting.process
                if not self._changed.wait(until - time.monotonic()) and time.monotonic() >= until:
                    raise NoneFree

    def _add_process(self) -> None:
        self._idle.append(ComputeProcess(self._modules))
        self._count += 1

    def _forget_ended(self) -> None:
        for process in [each for each in self._idle if not each.is_alive]:
            self._idle.remove(process)
            self._count -= 1
            process.end()

    def _give_back(self, process: ComputeProcess, waiting: _Waiting) -> None:
        with self._changed:
            waiting.process = None
            self._idle.append(process)
            self._changed.notify_all()

    def _give_up(self, process: ComputeProcess, waiting: _Waiting) -> None:
        process.end()
        with self._changed:
            waiting.process = None
            self._count -= 1
            self._changed.notify_all()
