"""Processes that do platform work, step by step, and may be killed or put to sleep amid one."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TextIO

from django.db import connections

from foundation.core import faults

Order = dict[str, Any]
Work = Callable[[Order], Order]

# Connections of the parent that a child must not close: it would end them for the parent as well.
_inherited: Final[list[object]] = []


class ActorFailed(AssertionError):
    """The work raised something that no fault explains."""


class Actor:
    """One forked process, which does a step of `work` for each order.

    `planted` is the folder with the faults that it may meet. Its memory, its database connection and its
    leases are its own and die with it.
    """

    def __init__(self, work: Work, planted: Path) -> None:
        orders, self._orders = _pipe()
        self._answers, answers = _pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._orders.close()
            self._answers.close()
            _live(work, planted, orders, answers)
        orders.close()
        answers.close()
        self.alive = True

    def ask(self, order: Order) -> None:
        """Have it do a step; it may not live to answer."""
        self._orders.write(json.dumps(order) + "\n")
        self._orders.flush()

    def answer(self) -> Order | None:
        """What came of the step; None when it was killed. Raises: ActorFailed."""
        line = self._answers.readline()
        if line:
            answer: Order = json.loads(line)
            if "error" in answer:
                raise ActorFailed(answer["error"])
            return answer
        self.alive = False
        status = os.waitpid(self.pid, 0)[1]
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            raise ActorFailed(f"a worker ended with the status {status}")
        return None

    def asleep(self) -> bool:
        """Whether it has been put to sleep in its present step, instead of answering it."""
        status = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        return status == "T"

    def has_answered(self, within_s: float = 0.0) -> bool:
        """Whether there is an answer to be read, or it has died."""
        return bool(select.select([self._answers], [], [], within_s)[0])

    def wake(self) -> Order | None:
        """Have it go on, whatever puts it to sleep again; what came of its step, None when it was killed."""
        while not self.has_answered(0.01):
            if self.asleep():
                os.kill(self.pid, signal.SIGCONT)
        return self.answer()

    def end(self) -> None:
        """Kill it where it stands."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.alive = False


def _pipe() -> tuple[TextIO, TextIO]:
    out, into = os.pipe()
    return os.fdopen(out, "r", encoding="utf-8"), os.fdopen(into, "w", encoding="utf-8")


def _live(work: Work, planted: Path, orders: TextIO, answers: TextIO) -> None:
    """The child's whole life, which ends with the parent's or by a fault."""
    try:
        faults._FOLDER = str(planted)  # type: ignore[misc]  # read from the environment once
        gc.freeze()  # what the parent made is not looked through again in every child
        for connection in connections.all(initialized_only=True):
            _inherited.append(connection.connection)
            connection.connection = None
        for line in orders:
            answers.write(json.dumps(_done(work, json.loads(line))) + "\n")
            answers.flush()
    finally:
        os._exit(0)


def _done(work: Work, order: Order) -> Order:
    try:
        return work(order)
    except BaseException:  # told by the parent
        return {"error": traceback.format_exc()}
