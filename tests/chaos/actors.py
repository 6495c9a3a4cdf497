"""Processes that run platform work in steps, and may be killed or stopped within a step."""

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
    """An error in the work that no fault explains."""


class Actor:
    """A forked process that runs a step of `work` for each order.

    `planted` is the folder of the faults that it may meet. It has its own memory, database connection and
    leases, which end with it.
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
        """Order a step; the process may be killed before it answers."""
        self._orders.write(json.dumps(order) + "\n")
        self._orders.flush()

    def answer(self) -> Order | None:
        """Return the answer to the step; None when the process was killed. Raises: ActorFailed."""
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
        """Return whether the process was stopped within its present step, instead of answering it."""
        status = Path(f"/proc/{self.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
        return status == "T"

    def has_answered(self, within_s: float = 0.0) -> bool:
        """Return whether there is an answer to be read, or the process has died."""
        return bool(select.select([self._answers], [], [], within_s)[0])

    def wake(self) -> Order | None:
        """Continue the process, past later stops; return its answer, None when it was killed."""
        while not self.has_answered(0.01):
            if self.asleep():
                os.kill(self.pid, signal.SIGCONT)
        return self.answer()

    def end(self) -> None:
        """Kill the process at once."""
        if self.alive:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.alive = False


def _pipe() -> tuple[TextIO, TextIO]:
    out, into = os.pipe()
    return os.fdopen(out, "r", encoding="utf-8"), os.fdopen(into, "w", encoding="utf-8")


def _live(work: Work, planted: Path, orders: TextIO, answers: TextIO) -> None:
    """Run the child process, until its parent ends or a fault kills it."""
    try:
        faults._FOLDER = str(planted)  # type: ignore[misc]  # read from the environment once
        gc.freeze()  # exempts the parent's objects from garbage collection in every child
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
    except BaseException:  # the parent raises it
        return {"error": traceback.format_exc()}
