"""What a pod is told about its gang."""

from __future__ import annotations

import pytest
import time_machine

from scheduling.execution.peers import peers_of
from scheduling.execution.task_specs import task_specs
from scheduling.models import Allocation, Job, JobKind, JobRole, Task
from tests.builders import jobs
from tests.builders.stage import Stage

pytestmark = pytest.mark.django_db


def gang(*roles: tuple[str, int, int], kind: JobKind = JobKind.PYTORCH, name: str = "7b-sft") -> list[Task]:
    """Tasks by role, as name, replicas and cards; nothing is stored."""
    job = Job(name=name, kind=kind)
    made = [(JobRole(job=job, name=role, gpu_cards=cards), count) for role, count, cards in roles]
    return [Task(job=job, role=role, index=index) for role, count in made for index in range(count)]


def test_every_task_is_told_who_it_is_and_where_its_peers_are() -> None:
    tasks = gang(("master", 1, 1), ("worker", 2, 1))
    peers = peers_of(tasks[0].job, 3, tasks)
    told = [peers.environment(task) for task in tasks]
    identity = tasks[0].job.pk.hex[-8:]
    hosts = [
        f"7b-sft-{identity}-3-{end}.j7b-sft-{identity}-3" for end in ("master-0", "worker-0", "worker-1")
    ]
    assert [(own["ROLE"], own["TASK_INDEX"], own["RANK"]) for own in told] == [
        ("master", "0", "0"), ("worker", "0", "1"), ("worker", "1", "2"),
    ]  # fmt: skip
    for own in told:
        assert (own["MASTER_ADDR"], own["MASTER_PORT"]) == (hosts[0], "23456")
        assert own["WORLD_SIZE"] == "3"
        assert own["HOSTS"].split(",") == hosts
        assert own["ALLOTMENT_JOB"] == "7b-sft"
    assert not peers.files


@pytest.mark.parametrize(
    ("roles", "expected"),
    [
        ([("launcher", 1, 0), ("worker", 2, 4)], ["worker-0 4", "worker-1 4"]),
        ([("main", 2, 1)], ["main-0 1", "main-1 1"]),
        ([("launcher", 1, 0), ("worker", 1, 0)], ["launcher-0 1", "worker-0 1"]),
    ],
)
def test_a_hostfile_names_who_takes_processes(roles: list[tuple[str, int, int]], expected: list[str]) -> None:
    tasks = gang(*roles, kind=JobKind.MPI, name="mpi")
    peers = peers_of(tasks[0].job, 1, tasks)
    head = f"mpi-{tasks[0].job.pk.hex[-8:]}-1"
    lines = [
        line.replace(f".{head} slots=", " ").replace(f"{head}-", "")
        for line in peers.files["hostfile"].splitlines()
    ]
    assert lines == expected
    assert peers.environment(tasks[0])["OMPI_MCA_orte_default_hostfile"] == "/etc/allotment/hostfile"


def test_one_task_alone_finds_itself_without_a_service() -> None:
    tasks = gang(("main", 1, 1), name="alone")
    assert peers_of(tasks[0].job, 1, tasks).hosts == [f"alone-{tasks[0].job.pk.hex[-8:]}-1-main-0"]


def test_a_list_too_long_for_a_variable_becomes_a_file() -> None:
    tasks = gang(("worker", 2000, 1))
    peers = peers_of(tasks[0].job, 1, tasks)
    own = peers.environment(tasks[7])
    assert "HOSTS" not in own
    assert own["HOSTS_FILE"] == "/etc/allotment/peers"
    assert peers.files["peers"].splitlines() == list(peers.hosts)


def test_an_elastic_gang_counts_the_tasks_that_were_started() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage(cards=4)
        stage.submit("elastic", jobs.RoleOf(name="worker", replicas=8, min_replicas=1, cards=2))
        stage.run(0)

        held = Allocation.unscoped.select_related("task__role", "attempt__job", "node").order_by("pod_name")
        specs = task_specs(list(held))
        assert [spec.environment["WORLD_SIZE"] for spec in specs] == ["2", "2"]
        assert [spec.environment["RANK"] for spec in specs] == ["0", "1"]
        gang = specs[0].gang
        assert gang is not None
        assert gang.name.startswith("elastic-")
        assert specs[0].environment["HOSTS"] == ",".join(f"{spec.ref.name}.{gang.name}" for spec in specs)
