"""The agent's side of the process that calls NVML: a deadline for each answer, and then a new process.

It is a process and not a thread: NVML holds a lock while a call hangs, so no other thread of that process
could call NVML, and only a new process loads the library of a replaced driver. A process that hangs in the
kernel cannot be killed; it is abandoned, and after a few abandoned ones no more are started.

A device whose call hung is left out for a while, and the others are polled without it. Devices that are down
are found again only by a new enumeration, that is by a new process.
"""

from __future__ import annotations

import json
import logging
import mmap
import os
import select
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from telemetry.agent.nvml.progress import PROGRESS_BYTES, read_note

log = logging.getLogger(__name__)
COMMAND: Final = (sys.executable, "-m", "telemetry.agent.nvml.worker")
ABANDONED_MOST: Final = 3
_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
_ABSENT_S: Final = 60.0
_LONGEST_ABSENT_S: Final = 1800.0
_CHUNK: Final = 1 << 16
_LONGEST_ANSWER: Final = 16 << 20


class PollState(StrEnum):
    """The result of a poll."""

    OK = "ok"
    PENDING = "pending"
    """No answer yet, and still within the deadline."""
    HUNG = "hung"
    EXITED = "exited"
    MISSING = "nvml-missing"
    MISMATCH = "driver-mismatch"
    WAITING = "waiting"
    """No process runs; a new one is started later."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one poll. `answer`: the worker's measurements; `call` and `device`: where it hung."""

    state: PollState
    answer: dict[str, Any] | None = None
    text: str = ""
    device: str = ""
    call: str = ""


@dataclass(slots=True)
class _Absence:
    """The time until which a device is left out, and the length of its next absence."""

    until: float
    length_s: float = _ABSENT_S
    hung: bool = False


@dataclass(slots=True)
class NvmlProcess:
    """Polls NVML with a deadline, in seconds. `clock`: a monotonic clock.

    `start_deadline_s` applies to the first answer of a process: enumerating takes seconds for each device if
    the driver keeps none of its state (persistence mode off).
    """

    deadline_s: float
    start_deadline_s: float
    clock: Callable[[], float]
    command: Sequence[str] = COMMAND
    starts: int = 0
    abandoned: int = 0
    """The number of killed processes that have not ended."""
    _process: subprocess.Popen[bytes] | None = None
    _note: mmap.mmap | None = None
    _received: bytearray = field(default_factory=bytearray)
    _asked_at: float | None = None
    _answered: bool = False
    _due: float = 0.0
    _pause_s: float = _PAUSE_S
    _abandoned: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _absent: dict[int, _Absence] = field(default_factory=dict)
    _indexes: dict[str, int] = field(default_factory=dict)

    def poll(self, wait_s: float) -> Outcome:
        """Request measurements and wait for them for at most `wait_s`, and never longer than the deadline."""
        now = self.clock()
        self._abandoned = [process for process in self._abandoned if process.poll() is None]
        self.abandoned = len(self._abandoned)
        if self._process is not None and self._asked_at is None and self._is_return_due(now):
            self._end("devices that were left out are tried again", pause=False)
        if self._process is None and not self._start(now):
            return Outcome(PollState.WAITING)
        if self._asked_at is None:
            self._ask(now)
        return self._await_answer(wait_s)

    def close(self) -> None:
        """Kill the process without waiting for it."""
        if self._process is not None:
            self._end("the agent ends", pause=False)

    def _start(self, now: float) -> bool:
        if now < self._due or self.abandoned >= ABANDONED_MOST:
            return False
        skipped = [
            str(index) for index, absence in self._absent.items() if absence.hung and now < absence.until
        ]
        note = os.memfd_create("progress")
        try:
            os.ftruncate(note, PROGRESS_BYTES)
            self._note = mmap.mmap(note, PROGRESS_BYTES)
            self._process = subprocess.Popen(  # noqa: S603 (our own program)
                [*self.command, str(note), *skipped],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                pass_fds=(note,),
            )
        finally:
            os.close(note)
        self._received.clear()
        self._answered, self._asked_at = False, None
        self.starts += 1
        return True

    def _ask(self, now: float) -> None:
        assert self._process is not None and self._process.stdin is not None  # noqa: S101
        self._asked_at = now
        try:
            os.write(self._process.stdin.fileno(), b"\n")
        except BrokenPipeError:
            log.debug("the worker has ended; reading its output says so")

    def _await_answer(self, wait_s: float) -> Outcome:
        assert self._process is not None and self._process.stdout is not None  # noqa: S101
        assert self._asked_at is not None  # noqa: S101
        deadline = self._asked_at + (self.deadline_s if self._answered else self.start_deadline_s)
        until = min(self.clock() + wait_s, deadline)
        output = self._process.stdout.fileno()
        while b"\n" not in self._received:
            left = until - self.clock()
            ready = select.select([output], [], [], max(0.0, left))[0]
            if not ready:
                return self._give_up() if self.clock() >= deadline else Outcome(PollState.PENDING)
            chunk = os.read(output, _CHUNK)
            self._received += chunk
            if not chunk or len(self._received) > _LONGEST_ANSWER:
                self._end("the process that calls NVML ended", pause=True)
                return Outcome(PollState.EXITED, text="the process that calls NVML ended")
        line, _, rest = self._received.partition(b"\n")
        self._received = rest
        self._asked_at = None
        try:
            answer = json.loads(line)
        except ValueError:  # a library in that process wrote to its output
            self._end("the process that calls NVML answered no JSON", pause=True)
            return Outcome(PollState.EXITED, text="no JSON")
        return self._accept(answer)

    def _accept(self, answer: dict[str, Any]) -> Outcome:
        if "problem" in answer:
            self._end(answer["text"], pause=True)
            return Outcome(PollState(answer["problem"]), text=answer["text"])
        self._answered, self._pause_s = True, _PAUSE_S
        self._indexes.update(
            {row["uuid"]: row["index"] for row in answer["devices"] if row["parent"] is None}
        )
        self._keep_absent(answer)
        return Outcome(PollState.OK, answer)

    def _keep_absent(self, answer: dict[str, Any]) -> None:
        now = self.clock()
        down = {int(index) for index in answer["down"]}
        seen = {row["index"] for row in answer["devices"]}
        for index in down:
            absence = self._absent.setdefault(index, _Absence(now + _ABSENT_S))
            if absence.until <= now:
                absence.length_s = min(2 * absence.length_s, _LONGEST_ABSENT_S)
                absence.until = now + absence.length_s
        for index in seen & self._absent.keys():
            del self._absent[index]

    def _is_return_due(self, now: float) -> bool:
        return any(absence.until <= now for absence in self._absent.values())

    def _give_up(self) -> Outcome:
        """Kill the process after its deadline, and leave out the device at which it hangs."""
        assert self._note is not None  # noqa: S101
        device, call = read_note(self._note)
        index = self._indexes.get(device, -1)
        if device.startswith("#"):
            index = int(device[1:])
        if index >= 0:
            before = self._absent.get(index)
            length_s = min(2 * before.length_s, _LONGEST_ABSENT_S) if before else _ABSENT_S
            self._absent[index] = _Absence(self.clock() + length_s, length_s, hung=True)
        text = f"NVML does not return from {call or 'a call'}{f' of {device}' if device else ''}"
        self._end(text, pause=index < 0)
        return Outcome(PollState.HUNG, text=text, device=device, call=call)

    def _end(self, reason: str, *, pause: bool) -> None:
        process = self._process
        assert process is not None  # noqa: S101
        self._process, self._asked_at = None, None
        process.kill()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        self._abandoned.append(process)
        if pause:
            self._due = self.clock() + self._pause_s
            log.warning("%s; again in %.0f s", reason, self._pause_s)
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        else:
            log.info("%s", reason)
