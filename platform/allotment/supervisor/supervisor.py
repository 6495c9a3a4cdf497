"""Starts the programs of a plan, keeps them running, and stops them in order."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from allotment.supervisor import console, logfile
from allotment.supervisor.child import ChildProcess, Program, spawn_process
from allotment.supervisor.errors import StartError
from allotment.supervisor.programs import ProgramPlan
from allotment.supervisor.readiness import Readiness
from allotment.supervisor.signals import Signals

BROKER_START_S: Final = 30.0  # a large append-only file takes a while to load
COMPLAIN_AFTER_S: Final = 60.0  # after that time the terminal shows what is missing
CRASHES_BEFORE_READY: Final = 5
ROTATE_EVERY_S: Final = 10.0
ASK_EVERY_S: Final = 0.5
WATCH_EVERY_S: Final = 15.0


class StopRequest(Exception):
    """The user asked to stop while the platform was still starting."""


class Supervisor:
    """Runs a plan until a stop is requested. `run` may be called once."""

    def __init__(
        self,
        *,
        plan: ProgramPlan,
        logs: Path,
        signals: Signals,
        broker_answers: Callable[[], bool],
        readiness: Callable[[], Readiness],
        on_ready: Callable[[], None],
        say: Callable[[str], None] = console.print_line,
    ) -> None:
        self._plan, self._logs, self._signals, self._say = plan, logs, signals, say
        self._broker_answers, self._readiness, self._on_ready = broker_answers, readiness, on_ready
        self._children: list[ChildProcess] = []
        self._was_ready = False
        self._is_ready = False
        self._next_question = 0.0
        self._next_rotation = 0.0
        self._complain_at = 0.0

    def run(self) -> int:
        """Start and watch all programs, and return 0 after an orderly stop. Raises: StartError."""
        try:
            self._start()
            while not self._signals.stop_requests:
                self._turn()
                self._signals.sleep_until_signal(ASK_EVERY_S)
        except StopRequest:
            self._say("Stopped before the platform was ready.")
        finally:
            self._stop()
        return 0

    # --- start --------------------------------------------------------------------------------------
    def _start(self) -> None:
        if self._plan.broker:
            self._add(self._plan.broker)
            self._await_broker()
        for step in self._plan.steps:
            self._run_step(step)
        for program in self._plan.services:
            self._add(program)
        self._say("Starting " + ", ".join(program.name for program in self._plan.services) + " …")
        self._complain_at = time.monotonic() + COMPLAIN_AFTER_S

    def _add(self, program: Program) -> None:
        child = ChildProcess(program, self._logs / f"{program.name}.log")
        self._children.append(child)
        child.start_process()

    def _await_broker(self) -> None:
        deadline = time.monotonic() + BROKER_START_S
        broker = self._children[0]
        while not self._broker_answers():
            if not broker.running or time.monotonic() > deadline:
                self._give_up("the broker did not start", broker.program.name, broker.log)
            self._pause()

    def _run_step(self, step: Program) -> None:
        self._say(f"{step.label or step.name} …")
        log = self._logs / f"{step.name}.log"
        process = spawn_process(step, log)
        try:
            while (status := process.poll()) is None:
                self._pause()
        finally:
            process.kill()
            process.wait()
        if status != 0:
            self._give_up(console.describe_exit(step.name, status), step.name, log)

    def _pause(self) -> None:
        self._signals.sleep_until_signal(0.05)
        if self._signals.stop_requests:
            raise StopRequest

    def _give_up(self, what: str, name: str, log: Path) -> None:
        self._say(console.last_words(name, log))
        raise StartError(what)

    # --- watch --------------------------------------------------------------------------------------
    def _turn(self) -> None:
        now = time.monotonic()
        for child in self._children:
            self._look_after(child, now)
        if now >= self._next_rotation:
            self._next_rotation = now + ROTATE_EVERY_S
            for child in self._children:
                logfile.rotate_log(child.log)
        if now >= self._next_question:
            self._ask(now)

    def _look_after(self, child: ChildProcess, now: float) -> None:
        status = child.reap_exit_status()
        if status is not None and child.restart_at is not None:
            ending = console.describe_exit(child.program.name, status)
            if not self._was_ready and child.crashes >= CRASHES_BEFORE_READY:
                self._give_up(f"{ending}, {child.crashes} times", child.program.name, child.log)
            wait = child.restart_at - now
            self._say(f"{ending}; starting it again in {wait:.1f} s (log: {child.log})")
        elif child.restart_at is not None and now >= child.restart_at:
            child.start_process()

    def _ask(self, now: float) -> None:
        answer = self._readiness()
        self._next_question = now + (WATCH_EVERY_S if answer.ready else ASK_EVERY_S)
        if answer.ready and not self._is_ready:
            if self._was_ready:
                self._say("Working again.")
            else:
                self._on_ready()
        elif self._is_ready and not answer.ready:
            self._say("Not working: " + "; ".join(answer.problems))
        elif not answer.ready and not self._was_ready and now >= self._complain_at:
            self._complain_at = now + COMPLAIN_AFTER_S
            self._say("Still waiting for " + "; ".join(answer.problems))
        self._is_ready = answer.ready
        self._was_ready = self._was_ready or answer.ready

    # --- stop ---------------------------------------------------------------------------------------
    def _stop(self) -> None:
        """Stop the services first and the broker last, so that no service loses the broker while it works."""
        requests = self._signals.stop_requests
        if self._children:
            self._say("Stopping …")
        has_broker = self._plan.broker is not None
        services = self._children[1:] if has_broker else self._children
        self._stop_together(list(reversed(services)), requests)
        self._stop_together(self._children[:1] if has_broker else [], requests)

    def _stop_together(self, children: Iterable[ChildProcess], requests: int) -> None:
        children = [child for child in children if child.pid]
        for child in children:
            child.request_end()
        started = time.monotonic()
        waiting = [child for child in children if child.running]
        while waiting and self._signals.stop_requests <= requests:  # a second Ctrl-C ends the wait
            waited = time.monotonic() - started
            waiting = [child for child in waiting if child.running and waited < child.program.stop_s]
            self._signals.sleep_until_signal(0.1)
        for child in children:
            if child.running:
                self._say(f"{child.program.name} did not stop in time and was killed (log: {child.log})")
            child.kill_group()
