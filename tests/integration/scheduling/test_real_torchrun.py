"""Agents of torchrun meet by the environment of a pod: the real program, as processes. Runs on request.

`ALLOTMENT_TORCHRUN` is the command that starts torchrun: `torchrun`, or `python3 -m torch.distributed.run`.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import Popen
from typing import Final

import pytest
import time_machine

from scheduling.execution.task_specs import task_specs
from scheduling.models import Allocation, JobKind
from tests.builders import jobs
from tests.builders.stage import Stage
from tests.fixtures.programs import read_to_end
from tests.fixtures.real_tasks import RealTask, end, real_tasks
from tests.fixtures.wait import wait_until

pytestmark = [pytest.mark.django_db, pytest.mark.timeout(300)]
TORCHRUN: Final = shlex.split(os.environ["ALLOTMENT_TORCHRUN"])
# PyTorch 1.13 under Python 3.11 cannot read its own default of these two.
_MORE: Final = {"OMP_NUM_THREADS": "1", "PET_REDIRECTS": "1", "PET_TEE": "1"}
_TRAIN: Final = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
name = os.environ["ROLE"] + os.environ["TASK_INDEX"] + "." + os.environ["LOCAL_RANK"]
with open(sys.argv[1] + "/" + name, "a") as out:
    out.write(f"{dist.get_rank()} of {int(total.item())}\\n")
while len(sys.argv) > 2 and int(total.item()) < int(sys.argv[2]):
    time.sleep(0.2)
dist.barrier()
"""


class Run:
    """A program started in tasks, and what its processes have written."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.processes = folder, list[Popen[str]]()
        (folder / "train.py").write_text(_TRAIN)
        (folder / "out").mkdir()

    def start(self, task: RealTask, *arguments: str) -> Popen[str]:
        # As in docs/jobs.md: only the program is given.
        command = [*TORCHRUN, str(self.folder / "train.py"), str(self.folder / "out"), *arguments]
        self.processes.append(task.start(command, _MORE, private=True))
        return self.processes[-1]

    def ends(self) -> None:
        for process in self.processes:
            told, _ = read_to_end(process, within_s=120)
            assert process.returncode == 0, told

    def last(self) -> dict[str, str]:
        return {path.name: path.read_text().splitlines()[-1] for path in (self.folder / "out").iterdir()}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Run]:
    made = Run(tmp_path)
    yield made
    for process in made.processes:
        end(process)


def started(tmp_path: Path, *roles: jobs.RoleOf, cards: int = 16) -> Sequence[RealTask]:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage(cards=cards)
        stage.submit("7b-sft", *roles, kind=JobKind.PYTORCH)
        stage.run(0)
        held = Allocation.unscoped.select_related("task__role", "attempt__job", "node")
        ordered = held.order_by("task__role__position", "task__index")
        return real_tasks(tmp_path, task_specs(list(ordered)))


def test_a_fixed_job_meets_with_a_process_for_each_card(run: Run, tmp_path: Path) -> None:
    roles = jobs.RoleOf(name="master", cards=1), jobs.RoleOf(name="worker", replicas=2, cards=2)
    for task in reversed(started(tmp_path, *roles)):  # the master comes last
        run.start(task)
    run.ends()
    assert run.last() == {
        "master0.0": "0 of 5", "worker0.0": "1 of 5", "worker0.1": "2 of 5",
        "worker1.0": "3 of 5", "worker1.1": "4 of 5",
    }  # fmt: skip


def test_one_task_alone_runs_a_process_for_each_card(run: Run, tmp_path: Path) -> None:
    (task,) = started(tmp_path, jobs.RoleOf(cards=2))
    run.start(task)
    run.ends()
    assert run.last() == {"main0.0": "0 of 2", "main0.1": "1 of 2"}


def test_an_elastic_job_goes_on_with_those_that_join(run: Run, tmp_path: Path) -> None:
    tasks = started(tmp_path, jobs.RoleOf(name="worker", replicas=3, min_replicas=2, cards=1))
    assert len(tasks) == 3
    for task in tasks[:2]:
        run.start(task, "3")
    both = re.compile(r"\d of 2")
    wait_until(lambda: len(run.last()) == 2, "two have met", within_s=90)
    assert all(both.fullmatch(line) for line in run.last().values())
    run.start(tasks[2], "3")
    run.ends()
    assert sorted(run.last().values()) == ["0 of 3", "1 of 3", "2 of 3"]
