"""One run: work goes on, one fault after the other is injected, and the laws are looked at after each."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

from clusters.models import Cell, Cluster
from foundation import clock, outbox
from foundation.errors import Conflict
from scheduling.models import TERMINAL_STATES, Allocation, Job
from scheduling.services.job import job_cancel, job_resume, job_submit, job_suspend
from scheduling.spec import parse_job
from tests.builders import pipeline
from tests.builders.kube_stage import KubeStage
from tests.chaos.actors import Actor, Order, lease_is_over
from tests.chaos.api_faults import ApiFault, BadDay
from tests.chaos.laws import assert_all_told, assert_laws
from tests.fixtures.wait import wait_until

POINTS: Final = (
    "submit.before_commit",
    "submit.after_commit",
    "cycle.leased",
    "cycle.before_commit",
    "commit.before_write",
    "commit.after_write",
    "cycle.after_commit",
    "execute.leased",
    "execute.before_ensure",
    "kubernetes.after_create",
    "kubernetes.locked",
    "kubernetes.after_bind",
    "execute.after_ensure",
    "execute.after_note",
    "execute.before_remove",
    "kubernetes.after_delete",
    "execute.after_remove",
    "execute.after_dissolve",
    "observe.leased",
    "observe.before_apply",
    "observe.before_commit",
    "observe.after_chunk",
    "observe.before_cursor",
    "sweep.before_hints",
    "relay.before_publish",
    "relay.after_publish",
)
# Where a worker that wakes up late finds that another has done its work.
SLEEPY: Final = (
    "cycle.leased",
    "cycle.before_commit",
    "execute.leased",
    "execute.before_ensure",
    "kubernetes.after_create",
    "kubernetes.locked",
    "execute.after_ensure",
    "execute.before_remove",
    "observe.leased",
    "observe.before_apply",
    "observe.before_cursor",
)
_ROUNDS: Final = 40  # a fault that is not met by then is no part of this work
_LIVE: Final = 8
_INTERFERENCE: Final = 0.2
_UNTIL_LISTED: Final = 9  # by then a whole list has told that pods are gone
_STEP: Final = timedelta(seconds=3)


class NeverMet(AssertionError):
    """A fault was planted and nobody came by."""


@dataclass
class ChaosRun:
    """The state of one run; `injected` counts the faults that were met, by kind and place."""

    stage: KubeStage
    draw: random.Random
    accepted: set[str] = field(default_factory=set)
    injected: Counter[str] = field(default_factory=Counter)
    _closing: bool = False
    _actor: Actor | None = None
    _folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="allotment-chaos-")))

    def __post_init__(self) -> None:
        for name in ("planted", "accepted"):
            (self._folder / name).mkdir()
        # Once here, so that forks find every module imported and every cache filled.
        self._work(self._order())
        self._time_passes()

    def inject(self, faults: int, *, first: int = 0) -> None:
        """Inject so many faults: those of the list from number `first` on, then at random."""
        listed = self._listed()
        for number in range(first, first + faults):
            fault = listed[number] if number < len(listed) else self.draw.choice(listed)
            fault()
            assert_laws(self.stage, self.accepted)

    def heal(self) -> None:
        """Let all work end, and look whether anything is left."""
        self._closing = True
        self._until(lambda: not Job.unscoped.exclude(state__in=TERMINAL_STATES).exists())
        assert_all_told(self.stage)
        for job in Job.unscoped.exclude(state__in=TERMINAL_STATES):
            job_cancel(acting_user=self.stage.user, job=job)
        self._until(lambda: not self.stage.pods() and not self.stage.shared())
        assert_laws(self.stage, self.accepted)
        self.stage.assert_nothing_is_held()

    def close(self) -> None:
        """End the worker that is left."""
        if self._actor:
            self._actor.end()
        shutil.rmtree(self._folder)

    def _until(self, settled: Callable[[], bool]) -> None:
        """Go on until it is settled, or for a while."""
        for _ in range(_ROUNDS):
            if settled():
                return
            self._round()

    def _listed(self) -> list[Callable[[], None]]:
        def of(act: Callable[[str], None], place: str) -> Callable[[], None]:
            return lambda: act(place)

        killed = [of(self._kill, point) for point in POINTS]
        asleep = [of(self._sleep, point) for point in SLEEPY]
        bad = [of(self._bad_day, kind.value) for kind in ApiFault]
        return [*killed, *asleep, *bad, self._lose_messages]

    # Faults

    def _kill(self, point: str) -> None:
        """A worker, the relay or a web process dies by SIGKILL at a point."""
        plant = self._plant(point, "kill")
        for _ in range(_ROUNDS):
            if self._round() is None:
                assert not plant.exists()
                self.injected[f"kill {point}"] += 1
                return
        plant.unlink()
        raise NeverMet(point)

    def _sleep(self, point: str) -> None:
        """A worker falls asleep, loses its lease to another, and wakes up when that one is done."""
        plant = self._plant(point, "stop")
        for _ in range(_ROUNDS):
            sleeper = self._worker()
            sleeper.ask(self._order())
            wait_until(lambda w=sleeper: w.asleep() or w.has_answered(), "the round is over")
            if sleeper.asleep():
                self._leases_end()
                self._actor = None
                self._go_on_without()
                sleeper.wake()
                sleeper.answer()
                sleeper.end()
                self.injected[f"sleep {point}"] += 1
                return
            sleeper.answer()
            self._time_passes()
        plant.unlink()
        raise NeverMet(point)

    def _go_on_without(self) -> None:
        """While a worker sleeps: a little work, or all that it was about to do is taken back."""
        rounds = self.draw.randint(1, 3)
        if self.draw.random() < _INTERFERENCE:
            for job in Job.unscoped.exclude(state__in=TERMINAL_STATES).order_by("id"):
                with suppress(Conflict):
                    job_suspend(acting_user=self.stage.user, job=job)
            rounds = _UNTIL_LISTED
        for _ in range(rounds):
            self._round()

    def _bad_day(self, kind: str) -> None:
        """The API server treats the calls of one round badly."""
        for _ in range(_ROUNDS):
            answer = self._round(day=kind)
            if answer and answer["met"]:
                self.injected[f"api {kind}"] += 1
                return
        raise NeverMet(kind)

    def _lose_messages(self) -> None:
        """The broker forgets whatever it was given; only the sweep knows what is owed."""
        self._round(forgetful=True)
        self.injected["broker forgets"] += 1

    # Rounds

    def _round(self, **more: Any) -> Order | None:
        """One round of work by the worker, or by a new one where the last has died; None when it died now."""
        worker = self._worker()
        worker.ask(self._order(**more))
        answer = worker.answer()
        if answer is None:
            self._leases_end()
        self._time_passes()
        return answer

    def _worker(self) -> Actor:
        if self._actor is None or not self._actor.alive:
            self._actor = Actor(self._work, self._folder / "planted")
        return self._actor

    def _order(self, **more: Any) -> Order:
        number = len(list((self._folder / "accepted").iterdir()))
        at, seed = clock.now().isoformat(), self.draw.random()
        return {"at": at, "number": number, "seed": seed, "closing": self._closing, **more}

    def _time_passes(self) -> None:
        """Three seconds for everybody; the kubelets do what is due."""
        for allocation in Allocation.unscoped.select_related("attempt__job").filter(removed_at__isnull=True):
            key = (allocation.namespace, allocation.pod_name)
            self.stage.kubelets.scripts[key] = allocation.attempt.job.simulate
        self.stage.traveller.shift(_STEP)
        self.stage.kubelets.step()
        self.accepted |= {path.name for path in (self._folder / "accepted").iterdir()}

    def _leases_end(self) -> None:
        lease_is_over(Cell, self.stage.cell.pk)
        lease_is_over(Cluster, self.stage.cluster.pk)

    def _plant(self, point: str, what: str) -> Path:
        plant = self._folder / "planted" / point
        plant.write_text(what, encoding="utf-8")
        return plant

    # Work, in the worker

    def _work(self, order: Order) -> Order:
        """What web, relay and workers do in a moment."""
        self.stage.traveller.move_to(datetime.fromisoformat(order["at"]))
        draw = random.Random(order["seed"])
        with BadDay.drawn(order.get("day"), draw) as day:
            if not order["closing"]:
                if Job.unscoped.exclude(state__in=TERMINAL_STATES).count() < _LIVE:
                    self._submit(order["number"])
                if draw.random() < _INTERFERENCE:
                    self._interfere(draw)
            if order.get("forgetful"):
                outbox.Hint.unscoped.all().delete()
            else:
                outbox.publish_due()
                pipeline.step(self.stage.cell, self.stage.cluster)
        return {"met": day.met}

    def _submit(self, number: int) -> None:
        gpu: dict[str, object] = {"cards": 1 + number % 4}
        if number % 3 == 0:
            gpu = {"cards": 1, "mode": "slice", "cores": 30, "memory": "8Gi"}
        resources = {"cpu": 1, "memory": "1Gi", "gpu": gpu}
        role = {"replicas": 1 + number % 3, "image": "train:1", "resources": resources}
        again = [{"on": "task_failed", "do": "restart_task", "max": 1}] if number % 4 else []
        simulate = {"run_s": 4 * (number % 5), "exit_code": int(number % 7 == 0)}
        name = f"job-{number}"
        body = {"name": name, "roles": [role], "lifecycle": again, "simulate": simulate}
        user, workspace = self.stage.user, self.stage.queue.workspace
        # Somebody may have been killed after it was accepted and before anybody was told.
        with suppress(Conflict):
            job_submit(acting_user=user, workspace=workspace, spec=parse_job(body))
        (self._folder / "accepted" / name).touch()

    def _interfere(self, draw: random.Random) -> None:
        live = list(Job.unscoped.exclude(state__in=TERMINAL_STATES).order_by("id"))
        if live:
            service = draw.choice((job_suspend, job_resume, job_resume, job_cancel))
            with suppress(Conflict):
                service(acting_user=self.stage.user, job=draw.choice(live))
