"""The steps of the platform's processes; each step runs in an actor that may be killed in it.

The broker is a folder: the relay writes the names of tasks there, a file each, and a worker takes and runs
one.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest

from clusters.backends.kubernetes.client import api
from foundation.core.errors import Conflict, Invalid, Refused
from foundation.messaging import outbox
from scheduling.execution.execute import execute_cluster
from scheduling.execution.observe import observe_cluster
from scheduling.job_file import parse_job
from scheduling.models import TERMINAL_STATES, GpuRequestMode, Job, Task, TaskState
from scheduling.services.cycle import cycle_run
from scheduling.services.jobs.job import job_cancel, job_resume, job_submit, job_suspend
from scheduling.services.resizing.resize import slice_memory_resize
from scheduling.services.sweep import hint_observation, sweep_cells
from tests.builders.kube_stage import KubeStage
from tests.chaos.actors import Order
from tests.chaos.api_faults import BadDay

_LIVE: Final = 8
_INTERFERENCE: Final = 0.3
_IMPATIENT_S: Final = 0.2
_RESIZED: Final = 0.6
_CARD_MIB: Final = 40_960


class Work:
    """The steps of one installation. `folder` holds what outlives every process: messages, and the names of
    jobs whose acceptance was reported to a user."""

    def __init__(self, stage: KubeStage, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._stage = stage
        self.messages, self._accepted = folder / "messages", folder / "accepted"
        self.messages.mkdir()
        self._accepted.mkdir()
        self._steps: Final[Mapping[str, Callable[[random.Random], object]]] = {
            "web": self._web,
            "sweep": self._beat,
            "relay": lambda _: outbox.publish_due(),
            "cycle": lambda _: cycle_run(cell_id=stage.cell.pk),
            "freed": lambda _: cycle_run(cell_id=stage.cell.pk, freed=True),
            "execute": lambda _: execute_cluster(cluster_id=stage.cluster.pk),
            "observe": lambda _: observe_cluster(cluster_id=stage.cluster.pk),
        }
        for topic in outbox.Topic:
            message = self.messages / topic.value
            monkeypatch.setitem(outbox._publishers, topic.value, lambda _, message=message: message.touch())

    def accepted(self) -> set[str]:
        """Return the jobs that the platform has accepted."""
        return {path.name for path in self._accepted.iterdir()}

    def __call__(self, order: Order) -> Order:
        """Run one step: `do` names it, `at` is the time, `seed` seeds its random choices.

        `day` is the fault of the API server for its calls, `hurry` gives them short timeouts. Returns how
        many calls were hit.
        """
        self._stage.traveller.move_to(datetime.fromisoformat(order["at"]))
        draw = random.Random(order["seed"])
        with BadDay.drawn(order.get("day"), draw) as day, pytest.MonkeyPatch.context() as hurry:
            if order.get("hurry"):
                hurry.setattr(api, "ANSWER_S", _IMPATIENT_S)
                hurry.setattr(api, "CONNECT_S", _IMPATIENT_S)
            self._steps[order["do"]](draw)
        return {"met": day.met}

    def _web(self, draw: random.Random) -> None:
        """Submit jobs, as long as few are active, and cancel some now and then."""
        if Job.unscoped.exclude(state__in=TERMINAL_STATES).count() < _LIVE:
            self._submit(len(list(self._accepted.iterdir())))
        live = list(Job.unscoped.exclude(state__in=TERMINAL_STATES).order_by("id"))
        if live and draw.random() < _INTERFERENCE:
            service = draw.choice((job_suspend, job_resume, job_resume, job_cancel))
            with suppress(Conflict):
                service(acting_user=self._stage.user, job=draw.choice(live))
        self._resize(draw)

    def _resize(self, draw: random.Random) -> None:
        """Resize running slices up and down."""
        running = Task.unscoped.filter(state=TaskState.RUNNING, role__gpu_mode=GpuRequestMode.SLICE)
        for task in running.select_related("role", "job__queue", "job__workspace").order_by("id"):
            if draw.random() < _RESIZED:
                with suppress(Conflict, Invalid, Refused):
                    mib = draw.randrange(1, _CARD_MIB)
                    slice_memory_resize(acting_user=self._stage.user, task=task, memory_mib=mib)

    @staticmethod
    def _beat(_: random.Random) -> None:
        hint_observation()
        sweep_cells()

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
        user, workspace = self._stage.user, self._stage.queue.workspace
        # A process may have been killed after it accepted the job and before it answered.
        with suppress(Conflict):
            job_submit(acting_user=user, workspace=workspace, spec=parse_job(body))
        (self._accepted / name).touch()
