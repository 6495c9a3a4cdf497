"""A chaos run: platform work with one injected fault after the other; the invariants are checked after each.

A step of work is repeated, each time on the state that the last fault left, until it completes. So every
fault but the last of a step is followed at once by a process that has to cope with it.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.support.control_plane import ControlPlane
from foundation.core import clock
from foundation.core.errors import Conflict
from scheduling.models import TERMINAL_STATES, Allocation, Job, JobState
from scheduling.services.jobs.job import job_cancel, job_resume, job_suspend
from tests.builders.kube_stage import KubeStage
from tests.chaos import servers
from tests.chaos.actors import Actor, Order
from tests.chaos.api_faults import API_FAULTS
from tests.chaos.laws import Look, assert_books_and_jobs, assert_every_job_has_ended_or_has_a_reason
from tests.chaos.machine import Machine
from tests.chaos.places import ASLEEP, CALLING, POINTS
from tests.chaos.servers import ServerFault
from tests.chaos.work import Work
from tests.fixtures.agents import Agents
from tests.fixtures.wait import wait_until

_STEP: Final = timedelta(seconds=3)
_LONG_STEP: Final = timedelta(seconds=11)  # long enough for a full list of pods, which shows deletions
_IN_A_ROW: Final = 8
_DELIVERIES: Final = 3
_IDLE_ROUNDS: Final = 40
_HEALING_ROUNDS: Final = 60  # four for each attempt of a task, and jobs wait for others
_INTERFERENCE: Final = 0.2
# Servers take seconds to restart, a worker a moment.
_WEIGHTS: Final = {"kill": 50, "api": 25, "sleep": 10, "broker": 10, "freeze": 4, "server": 1}
# In few rounds a server can die, so the run waits for those while such faults are left on the list.
_LISTED_WEIGHTS: Final = {**dict.fromkeys(_WEIGHTS, 1), "server": 1000}


@dataclass(frozen=True, slots=True)
class Fault:
    """A kind of fault, with its point in the code or its manner."""

    kind: str
    point: str = ""
    manner: str = ""

    def __str__(self) -> str:
        return " ".join(filter(None, (self.kind, self.manner, self.point)))


def _known() -> dict[str, list[Fault]]:
    """Return every fault, by the step of work that it hits."""
    found = {step: [Fault("kill", point) for point in points] for step, points in POINTS.items()}
    for step, points in ASLEEP.items():
        found[step] += [Fault("sleep", point) for point in points]
    for step, manners in API_FAULTS.items():
        found[step] += [Fault("api", manner=manner.value) for manner in manners]
    for step, points in CALLING.items():
        for server in ServerFault:
            kind = "freeze" if server is ServerFault.API_SERVER_FREEZES else "server"
            found[step] += [Fault(kind, point, server.value) for point in points]
    found["relay"].append(Fault("broker", manner="forgets"))
    return found


FAULTS: Final = _known()


class NeverMet(AssertionError):
    """An error for faults that were planted again and again and that no process met."""


class ChaosRun:
    """The state of a run; `injected` counts the faults that were met, by kind and place.

    Listed faults are met first, each once; the others are drawn.
    """

    def __init__(
        self, stage: KubeStage, plane: ControlPlane, draw: random.Random, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.stage, self._plane, self._draw = stage, plane, draw
        self.injected: Counter[str] = Counter()
        self._machine = Machine(monkeypatch)
        self._folder = Path(tempfile.mkdtemp(prefix="allotment-chaos-"))
        self._planted = self._folder / "planted"
        self._planted.mkdir()
        self._work = Work(stage, self._folder, monkeypatch)
        self._agents = Agents(plane)
        self._look = Look(stage, self._agents)
        stage.cluster.live_resize = True
        stage.cluster.save(update_fields=["live_resize"])
        self._actor: Actor | None = None
        self._listed: list[Fault] = []
        self._wanted = 0
        self._closing = self._calm = False
        # Run once here, so that forks inherit every imported module and every filled cache.
        for step in POINTS:
            self._work(self._order(step))
        self._time_passes(_STEP)

    def inject(self, faults: int, listed: Sequence[Fault] = ()) -> None:
        """Inject a number of faults: those of the list first, as the work meets them; then drawn ones."""
        self._wanted, self._listed = self.injected.total() + faults, list(listed)
        idle = 0
        while self.injected.total() < self._wanted:
            before = self.injected.total()
            self._round()
            assert_books_and_jobs()
            self._look.assert_accepted(self._work.accepted())
            idle = 0 if self.injected.total() > before else idle + 1
            if idle > _IDLE_ROUNDS:
                raise NeverMet(", ".join(map(str, self._listed)))

    def heal(self) -> None:
        """Let all work end, and check that nothing is left."""
        self._closing = True
        for job in Job.unscoped.filter(state=JobState.SUSPENDED):
            job_resume(acting_user=self.stage.user, job=job)
        self._until(lambda: not Job.unscoped.exclude(state__in=TERMINAL_STATES).exists())
        assert_every_job_has_ended_or_has_a_reason(self.stage)
        for job in Job.unscoped.exclude(state__in=TERMINAL_STATES):
            job_cancel(acting_user=self.stage.user, job=job)
        self._until(lambda: not self.stage.pods() and not self.stage.shared())
        assert_books_and_jobs()
        self.stage.assert_nothing_is_held()

    def close(self) -> None:
        """End the last worker."""
        if self._actor:
            self._actor.end()
        shutil.rmtree(self._folder)

    # Work

    def _until(self, settled: Callable[[], bool]) -> None:
        """Run rounds, in longer and longer steps, until it is settled or a limit is reached."""
        step = _STEP
        for _ in range(_HEALING_ROUNDS):
            if settled():
                return
            self._round(step)
            step = min(step * 1.5, timedelta(minutes=2))

    def _round(self, step: timedelta = _STEP) -> None:
        """Run a few seconds of work: users, beat, relay, and workers as long as there are messages."""
        if not self._closing:
            self._step("web")
        self._step("sweep")
        for _ in range(_DELIVERIES):
            self._step("relay")
            messages = sorted(self._work.messages.iterdir())
            for message in messages:
                message.unlink(missing_ok=True)
                self._step(message.name)
            if not messages:
                break
        self._look.assert_laws("a round of work")
        self._time_passes(step)

    def _step(self, do: str) -> None:
        """Run a step of work until it completes; sometimes with planted faults."""
        most = min(_IN_A_ROW, len(FAULTS[do]) - 1)
        for _ in range(0 if self._calm else self._draw.randint(0, most)):
            if self.injected.total() == self._wanted:
                break
            met = self._hit(do)
            if met is None:
                return
            self.injected[str(met)] += 1
            with suppress(ValueError):
                self._listed.remove(met)
            self._look.assert_laws(met)
        self._ask(do)

    def _ask(self, do: str, **more: Any) -> Order | None:
        """Order a step from the worker, replaced if it has died; None when it died in this step."""
        worker = self._worker()
        worker.ask(self._order(do, **more))
        return worker.answer()

    def _worker(self) -> Actor:
        if self._actor is None or not self._actor.alive:
            self._actor = Actor(self._work, self._planted)
        return self._actor

    def _order(self, do: str, **more: Any) -> Order:
        return {"do": do, "at": clock.now().isoformat(), "seed": self._draw.random(), **more}

    def _time_passes(self, step: timedelta) -> None:
        """Move all clocks by the same time, and run the kubelets."""
        for allocation in Allocation.unscoped.select_related("attempt__job").filter(removed_at__isnull=True):
            key = (allocation.namespace, allocation.pod_name)
            self.stage.kubelets.scripts[key] = allocation.attempt.job.simulate
        self.stage.traveller.shift(step)
        self._machine.passes(step.total_seconds())
        self.stage.kubelets.step()
        self._agents.step()
        self._look.again()

    # Faults

    def _hit(self, do: str) -> Fault | None:
        """Run a step with faults of one kind, from the rarest on; return the one that it met, if any."""
        listed = [fault for fault in FAULTS[do] if fault in self._listed]
        some = listed or FAULTS[do]
        kinds = sorted({fault.kind for fault in some})
        weights = _LISTED_WEIGHTS if listed else _WEIGHTS
        (kind,) = self._draw.choices(kinds, [weights[kind] for kind in kinds])
        of_kind = [fault for fault in some if fault.kind == kind]
        rarest = min(of_kind, key=lambda fault: (self.injected[str(fault)], self._draw.random()))
        match kind:
            case "kill":
                return self._kill(do, self._from(rarest, do))
            case "sleep":
                return self._sleep(do, self._from(rarest, do))
            case "api":
                return self._bad_day(do, rarest)
            case "broker":
                return self._forget(do, rarest)
            case _:
                return self._server(do, self._from(rarest, do))

    @staticmethod
    def _from(rarest: Fault, do: str) -> list[Fault]:
        """Return that fault and the same kind at all later points of the step; the worker meets one."""
        like = [fault for fault in FAULTS[do] if (fault.kind, fault.manner) == (rarest.kind, rarest.manner)]
        return like[like.index(rarest) :]

    def _kill(self, do: str, faults: Sequence[Fault]) -> Fault | None:
        """Kill a worker, the relay or a web process at one of the points."""
        with self._lying(faults, "kill") as met:
            if self._ask(do) is not None:
                return None
        self._machine.leases_end()
        return met[0]

    def _sleep(self, do: str, faults: Sequence[Fault]) -> Fault | None:
        """Stop a worker until another one has taken its lease and finished the work."""
        with self._stopped(do, faults) as met:
            if met:
                sleeper, self._actor = self._worker(), None
                self._machine.leases_end()
                self._go_on_without(do)
                sleeper.wake()
                sleeper.end()
        return met[0] if met else None

    def _server(self, do: str, faults: Sequence[Fault]) -> Fault | None:
        """Kill or stop the API server or etcd between two calls of a worker."""
        with self._stopped(do, faults, hurry=True) as met:
            if met:
                with servers.hit(self._plane, ServerFault(met[0].manner)):
                    self._worker().wake()
                self._machine.leases_end()
        return met[0] if met else None

    def _bad_day(self, do: str, fault: Fault) -> Fault | None:
        """Inject a fault of the API server into the calls of one step."""
        answer = self._ask(do, day=fault.manner)
        assert answer is not None
        self._machine.leases_end()
        return fault if answer["met"] else None

    def _forget(self, do: str, fault: Fault) -> Fault | None:
        """Delete all messages of the broker, so that only the sweep can find the work that is due."""
        self._ask(do)
        messages = list(self._work.messages.iterdir())
        for message in messages:
            message.unlink()
        return fault if messages else None

    def _go_on_without(self, do: str) -> None:
        """While a worker sleeps, run the same work in another, or undo what it was about to do."""
        if self._draw.random() >= _INTERFERENCE:
            for step in (do, self._draw.choice(list(POINTS))):
                self._ask(step)
            return
        for job in Job.unscoped.exclude(state__in=TERMINAL_STATES).order_by("id"):
            with suppress(Conflict):
                job_suspend(acting_user=self.stage.user, job=job)
        self._calm, calm = True, self._calm
        for _ in range(3):
            self._round(_LONG_STEP)
        self._calm = calm

    @contextmanager
    def _lying(self, faults: Sequence[Fault], what: str) -> Iterator[list[Fault]]:
        """Plant a fault at each of the points for the block; `met` names those that were met."""
        met: list[Fault] = []
        for fault in faults:
            (self._planted / fault.point).write_text(what, encoding="utf-8")
        yield met
        for fault in faults:
            if not (self._planted / fault.point).exists():
                met.append(fault)
            (self._planted / fault.point).unlink(missing_ok=True)

    @contextmanager
    def _stopped(self, do: str, faults: Sequence[Fault], **more: Any) -> Iterator[list[Fault]]:
        """Yield with a worker stopped within a step; `met` is empty when the step completed instead."""
        worker = self._worker()
        with self._lying(faults, "stop") as met:
            worker.ask(self._order(do, **more))
            wait_until(lambda: worker.asleep() or worker.has_answered(), "the step is over", every_s=0.005)
            asleep = worker.asleep()
        if not asleep:
            worker.answer()
        yield met if asleep else []
