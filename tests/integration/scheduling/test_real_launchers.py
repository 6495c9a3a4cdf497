"""Launchers of MPI find their peers by the environment of a pod: the real programs, as processes."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
import time_machine

from scheduling.execution.task_specs import task_specs
from scheduling.models import Allocation, JobKind
from tests.builders import jobs
from tests.builders.stage import Stage
from tests.fixtures.need import need
from tests.fixtures.real_tasks import RealTask, real_tasks

pytestmark = pytest.mark.django_db
# Open MPI refuses to run as root, as which a check in a container runs.
_AS_ROOT: Final = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


@pytest.fixture
def tasks(tmp_path: Path) -> Sequence[RealTask]:
    """Return a launcher without a card and two workers of two cards, in the order of their ranks."""
    launcher, workers = jobs.RoleOf(name="launcher", cards=0), jobs.RoleOf(name="worker", replicas=2, cards=2)
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage()
        stage.submit("7b-sft", launcher, workers, kind=JobKind.MPI)
        stage.run(0)
        held = Allocation.unscoped.select_related("task__role", "attempt__job", "node").order_by("pod_name")
        return real_tasks(tmp_path, task_specs(list(held)), _AS_ROOT)


def program(name: str, package: str) -> str:
    found = shutil.which(name)
    return found or need(name, f"apt-get install {package}")


def script(variable: str) -> list[str]:
    return ["sh", "-c", f'echo "process ${variable} $ON_POD"']


def placed(told: str) -> Counter[str]:
    """Return how many processes ran on which host; each rank once."""
    lines = [line.split() for line in told.splitlines() if line.startswith("process ")]
    assert sorted(rank for _, rank, _ in lines) == [str(n) for n in range(len(lines))], told
    return Counter(pod for _, _, pod in lines)


def test_open_mpi_starts_as_many_processes_on_each_worker_as_it_has_cards(
    tasks: Sequence[RealTask], tmp_path: Path
) -> None:
    mpirun = program("mpirun.openmpi", "openmpi-bin")
    launcher, *workers = tasks
    command = [mpirun, "--mca", "plm_rsh_agent", str(tmp_path / "ssh"), *script("OMPI_COMM_WORLD_RANK")]
    status, told = launcher.run(command)
    assert (status, placed(told)) == (0, {worker.pod: 2 for worker in workers}), told
    calls = (tmp_path / "ssh.log").read_text().splitlines()
    assert len(calls) == 2
    assert all("-o ConnectionAttempts=10 " in call for call in calls)
    # With names cut at the first dot, as without the platform's variable, it starts nothing.
    status, told = launcher.run(command, {"OMPI_MCA_orte_keep_fqdn_hostnames": "false"})
    assert (status != 0, placed(told)) == (True, {})


def test_mpich_starts_as_many_processes_on_each_worker_as_it_has_cards(
    tasks: Sequence[RealTask], tmp_path: Path
) -> None:
    mpiexec = program("mpiexec.hydra", "mpich")
    launcher, *workers = tasks
    command = [mpiexec, "-launcher-exec", str(tmp_path / "ssh"), *script("PMI_RANK")]
    assert launcher.environment["HYDRA_IFACE"] == "eth0"
    here = {"HYDRA_IFACE": "lo"}  # the interface of this machine with addresses that its tasks have
    status, told = launcher.run(command, here)
    assert (status, placed(told)) == (0, {worker.pod: 2 for worker in workers}), told
    calls = (tmp_path / "ssh.log").read_text().splitlines()
    assert len(calls) == 2
    assert all("-o ConnectionAttempts=10 " in call for call in calls)
    # Workers call back to an address: by default the launcher's short name, which they cannot resolve.
    assert all(re.search(r" --control-port [0-9.]+:[0-9]+ ", call) for call in calls)
    # MPICH cannot read the file of Open MPI.
    slots = launcher.environment["OMPI_MCA_orte_default_hostfile"]
    status, told = launcher.run(command, {**here, "HYDRA_HOST_FILE": slots})
    assert (status != 0, "slots not supported" in told) == (True, True)
