"""Processes that do one round of platform work and may be killed in the middle of it."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

from django.db import connections
from django.db.models import Q
from django.db.models.functions import Now

from foundation import faults
from foundation.models import Leased
from tests.fixtures.wait import wait_until

_FINE: Final = 0
_FAILED: Final = 3
# Connections of the parent that a child must not close: it would end them for the parent as well.
_inherited: Final[list[object]] = []


class ActorFailed(AssertionError):
    """The work raised something that no fault explains."""


class Actor:
    """One forked process. `planted` is the folder with the faults that it may meet."""

    def __init__(self, work: Callable[[], None], planted: Path) -> None:
        self._errors = planted.parent / "errors"
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._be(work, planted)

    def _be(self, work: Callable[[], None], planted: Path) -> None:
        """The child's whole life; it ends here, whatever happens."""
        code = _FAILED
        try:
            faults._FOLDER = str(planted)  # type: ignore[misc]  # read from the environment once
            for connection in connections.all(initialized_only=True):
                _inherited.append(connection.connection)
                connection.connection = None
            work()
            code = _FINE
        except BaseException:
            with self._errors.open("a", encoding="utf-8") as file:
                traceback.print_exc(file=file)
        finally:
            os._exit(code)

    def wait(self) -> bool:
        """Wait for its end; returns whether it was killed. Raises: ActorFailed."""
        return self._judge(os.waitpid(self.pid, 0)[1])

    def wait_asleep(self) -> bool:
        """Wait until it has fallen asleep or ended; returns whether it sleeps. Raises: ActorFailed."""
        status = os.waitpid(self.pid, os.WUNTRACED)[1]
        if os.WIFSTOPPED(status):
            return True
        self._judge(status)
        return False

    def wake(self) -> bool:
        """Let it go on and wait for its end; returns whether it was killed."""
        os.kill(self.pid, signal.SIGCONT)
        return self.wait()

    def _judge(self, status: int) -> bool:
        if os.WIFSIGNALED(status):
            if os.WTERMSIG(status) != signal.SIGKILL:
                raise ActorFailed(f"a worker ended by signal {os.WTERMSIG(status)}")
            return True
        if os.WEXITSTATUS(status) != _FINE:
            raise ActorFailed(self._errors.read_text(encoding="utf-8"))
        return False


def lease_is_over(model: type[Leased], pk: object) -> None:
    """Wait until whoever died has lost the lease of a row."""
    free = Q(lease_until__isnull=True) | Q(lease_until__lt=Now())
    wait_until(
        lambda: model._base_manager.filter(free, pk=pk).exists(),
        "the lease of a dead worker runs out",
        every_s=0.02,
    )
