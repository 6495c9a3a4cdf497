"""One supervised process: it ends with the supervisor, in its own session, with its own log file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from allotment.supervisor import logfile

FIRST_DELAY_S: Final = 0.5
LONGEST_DELAY_S: Final = 30.0
# A child that ran for so long counts as healthy; its next crash restarts the back-off.
HEALTHY_AFTER_S: Final = 60.0


@dataclass(frozen=True, kw_only=True)
class Program:
    """A program to run. `stop_s` is how long it may take to end after SIGTERM before it is killed."""

    name: str
    label: str = ""
    command: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)
    stop_s: float = 10.0


def spawn_process(program: Program, log: Path) -> subprocess.Popen[bytes]:
    """Start `program` so that it ends with this process. Call it from the main thread: see `deathsig`."""
    descriptor = logfile.open_for_append(log)
    try:
        return subprocess.Popen(  # noqa: S603 - our own commands
            [sys.executable, "-m", "allotment.supervisor.tether", str(os.getpid()), *program.command],
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=subprocess.STDOUT,
            env={**os.environ, **program.environment},
            # Its own session: Ctrl-C reaches the supervisor alone, which stops the children in order,
            # and the whole group, pool processes included, can be killed at once.
            start_new_session=True,
        )
    finally:
        os.close(descriptor)


class ChildProcess:
    """A program that is kept running. All times are those of the monotonic clock, in seconds."""

    def __init__(self, program: Program, log: Path) -> None:
        self.program = program
        self.log = log
        self.crashes = 0
        self.restart_at: float | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0

    @property
    def running(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id while it runs."""
        return self._process.pid if self._process else None

    def start_process(self) -> None:
        """Start the process."""
        self.restart_at = None
        self._started_at = time.monotonic()
        self._process = spawn_process(self.program, self.log)

    def reap_exit_status(self) -> int | None:
        """Return the exit status of an ended process, once; plan the next start with growing delays."""
        status = self._process.poll() if self._process else None
        if status is None:
            return None
        now = time.monotonic()
        self.crashes = 1 if now - self._started_at >= HEALTHY_AFTER_S else self.crashes + 1
        self.restart_at = now + min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** (self.crashes - 1))
        self._kill_group()  # the pool of a worker that died lives on for a moment
        self._process = None
        return status

    def request_end(self) -> None:
        """Ask the process to end."""
        if self._process is not None and self.running:
            self._process.terminate()

    def kill_group(self) -> None:
        """Kill the process and its group, and wait for the end."""
        if self._process is not None:
            self._kill_group()
            self._process.wait()
            self._process = None

    def _kill_group(self) -> None:
        if self._process is None:
            return
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return  # no process is left in the group
