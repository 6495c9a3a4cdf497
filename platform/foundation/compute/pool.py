"""The processes that compute for the requests of one web process."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final

import structlog

from foundation.compute.calls import Call
from foundation.compute.process import ComputeProcess, ProcessEnded

log = structlog.get_logger(__name__)

MOST: Final = 2
"""The most processes: one more would take memory, and share the processors with the others."""
MOST_WAITING: Final = 6
"""The most waiting calls: each blocks a thread that answers requests."""


class NoneFree(TimeoutError):
    """No process was free in time, could be started, or answered."""


class ProcessPool:
    """Processes that are started on demand, each with `modules` loaded.

    Calls are computed in the order of their arrival. Of each user one call is computed at a time, and one
    more may wait.
    """

    def __init__(self, modules: Sequence[str], most: int = MOST) -> None:
        self._modules, self._most = modules, most
        self._changed = threading.Condition()
        self._idle: list[ComputeProcess] = []
        self._count = 0
        self._waiting: list[str] = []
        """The users whose calls wait, in the order of arrival, each once."""
        self._running: set[str] = set()
        """The users whose calls are being computed."""

    def start_process(self) -> None:
        """Start a process if there is none, so that the first call needn't wait for it."""
        with self._changed, suppress(OSError):  # the first call raises the error
            self._forget_ended()
            if not self._count:
                self._add_process()

    @property
    def running_count(self) -> int:
        """The number of calls that are being computed."""
        return len(self._running)

    @property
    def waiting_count(self) -> int:
        """The number of calls that wait for a process."""
        return len(self._waiting)

    def end_idle(self) -> None:
        """End idle processes."""
        with self._changed:
            while self._idle:
                self._idle.pop().kill()
                self._count -= 1

    def run(self, call: Call, *, wait_s: float, user: str = "") -> Any:
        """Return the result of the function, or raise its error; `user` is the calling user.

        Raises: NoneFree after `wait_s` without a process, or at once if a call of the same user or too many
        other calls are waiting; also if the process was killed, for instance for lack of memory.
        """
        outcome = self._ask(pickle.dumps(call), wait_s, user)
        found, error = pickle.loads(outcome)  # noqa: S301 (from a process that was started here)
        if error is not None:
            raise error
        return found

    def _ask(self, call: bytes, wait_s: float, user: str) -> bytes:
        try:
            return self._ask_once(call, wait_s, user)
        except ProcessEnded as error:
            if error.read:
                log.warning("computing process was killed")
                raise NoneFree from error
        try:
            return self._ask_once(call, wait_s, user)  # the other one was idle too long, and has ended
        except ProcessEnded as error:
            log.warning("computing process ended", read=error.read)
            raise NoneFree from error

    def _ask_once(self, call: bytes, wait_s: float, user: str) -> bytes:
        process = self._take(user, wait_s)
        try:
            outcome = process.send_call(call)
        except TimeoutError as error:
            self._give_up(process, user)
            log.warning("computing took too long")
            raise NoneFree from error
        except BaseException:
            self._give_up(process, user)
            raise
        self._give_back(process, user)
        return outcome

    def _take(self, user: str, wait_s: float) -> ComputeProcess:
        with self._changed:
            if user in self._waiting or len(self._waiting) >= MOST_WAITING:
                raise NoneFree
            self._waiting.append(user)
            try:
                if not self._changed.wait_for(lambda: self._may_begin(user), wait_s):
                    raise NoneFree
                process = self._pop_idle()
                self._running.add(user)
                return process
            finally:
                self._waiting.remove(user)
                self._changed.notify_all()

    def _may_begin(self, user: str) -> bool:
        self._forget_ended()
        following = next((each for each in self._waiting if each not in self._running), None)
        return following == user and bool(self._idle or self._count < self._most)

    def _pop_idle(self) -> ComputeProcess:
        if not self._idle:
            try:
                self._add_process()
            except OSError as error:
                log.warning("computing process could not be started", exc_info=True)
                raise NoneFree from error
        return self._idle.pop()

    def _add_process(self) -> None:
        self._idle.append(ComputeProcess(self._modules))
        self._count += 1

    def _forget_ended(self) -> None:
        for process in [each for each in self._idle if not each.is_alive]:
            self._idle.remove(process)
            self._count -= 1
            process.kill()

    def _give_back(self, process: ComputeProcess, user: str) -> None:
        with self._changed:
            self._running.remove(user)
            self._idle.append(process)
            self._changed.notify_all()

    def _give_up(self, process: ComputeProcess, user: str) -> None:
        process.kill()
        with self._changed:
            self._running.remove(user)
            self._count -= 1
            self._changed.notify_all()
