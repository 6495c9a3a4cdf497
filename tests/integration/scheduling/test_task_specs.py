"""The environment and files by which a pod knows its gang."""

from __future__ import annotations

import pytest
import time_machine

from scheduling.execution.peers import peers_of
from scheduling.execution.task_specs import task_specs
from scheduling.models import Allocation, Job, JobKind, JobRole, Task
from tests.builders import jobs
from tests.builders.stage import Stage

pytestmark = pytest.mark.django_db


def gang(
    *roles: tuple[str, int, int], kind: JobKind = JobKind.PYTORCH, name: str = "7b-sft", most: int = 0
) -> list[Task]:
    """Return tasks by role, as name, replicas and cards, unsaved. `most`: the maximum size of roles."""
    job = Job(name=name, kind=kind)
    made = [
        (
            JobRole(job=job, name=role, gpu_cards=cards, replicas=most or count, min_replicas=count),
            count,
        )
        for role, count, cards in roles
    ]
    return [Task(job=job, role=role, index=index) for role, count in made for index in range(count)]


def test_every_task_knows_its_rank_and_its_peers() -> None:
    tasks = gang(("master", 1, 1), ("worker", 2, 1))
    peers = peers_of(tasks[0].job, 3, tasks)
    told = [peers.task_environment(task) for task in tasks]
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
    assert peers.files["machinefile"] == peers.files["hostfile"].replace(" slots=", ":")
    told = peers.launcher_environment(tasks[0])
    assert {told[f"{name}_default_hostfile"] for name in ("OMPI_MCA_orte", "PRTE_MCA_prte")} == {
        "/etc/allotment/hostfile"
    }
    assert {told["HYDRA_HOST_FILE"], told["I_MPI_HYDRA_HOST_FILE"]} == {"/etc/allotment/machinefile"}


def torchrun_options(environment: dict[str, str]) -> dict[str, str]:
    """Return the options that torchrun would have without arguments: those whose default its parser reads
    from `PET_<OPTION>`, and no other variable (`torch.distributed.argparse_util.env`)."""
    known = (
        *("nnodes", "nproc_per_node", "rdzv_backend", "rdzv_endpoint", "rdzv_id", "rdzv_conf", "standalone"),
        *("max_restarts", "monitor_interval", "start_method", "role", "module", "no_python", "run_path"),
        *("log_dir", "redirects", "tee", "node_rank", "master_addr", "master_port", "local_addr"),
    )
    named = {key.removeprefix("PET_").lower(): value for key, value in environment.items() if "PET_" in key}
    assert named.keys() <= set(known), "each is an option of torchrun"
    return named


def test_torchrun_gets_everything_that_it_needs_to_meet() -> None:
    tasks = gang(("master", 1, 2), ("worker", 2, 4))
    peers = peers_of(tasks[0].job, 3, tasks)
    told = [torchrun_options(peers.launcher_environment(task)) for task in tasks]
    same = {"nnodes": "3", "master_addr": peers.hosts[0], "master_port": "29500"}
    assert told == [
        {**same, "node_rank": "0", "nproc_per_node": "2"},
        {**same, "node_rank": "1", "nproc_per_node": "4"},
        {**same, "node_rank": "2", "nproc_per_node": "4"},
    ]


def test_an_elastic_job_of_torchrun_meets_at_a_rendezvous_whatever_its_size() -> None:
    """The variables before and after growth agree in everything that the agents must share."""
    told = []
    job = Job(name="grows", kind=JobKind.PYTORCH)
    role = JobRole(job=job, name="worker", gpu_cards=1, replicas=4, min_replicas=1)
    every = [Task(job=job, role=role, index=index) for index in range(4)]
    for size in (1, 2, 4):
        peers = peers_of(job, 1, every[:size])
        options = [torchrun_options(peers.launcher_environment(task)) for task in every[:size]]
        conf = [own.pop("rdzv_conf") for own in options]
        assert conf == ["is_host=true", *["is_host=false"] * (size - 1)], "the first task hosts it"
        assert all(own == options[0] for own in options)
        assert peers.size == max(size, 2), "one that may get peers is found by them"
        told.append(options[0])
        assert not {"RANK", "WORLD_SIZE"} & peers.task_environment(every[0]).keys(), "these would change"
    assert told[0] == told[1] == told[2]
    assert (told[0]["nnodes"], told[0]["rdzv_backend"]) == ("1:4", "c10d")
    assert told[0]["rdzv_endpoint"] == f"{peers.hosts[0]}:29400"
    assert peers_of(job, 2, every[:2]).launcher_environment(every[0])["PET_RDZV_ID"] != told[0]["rdzv_id"]


def test_other_kinds_get_no_variables_of_launchers() -> None:
    tasks = gang(("main", 2, 1), kind=JobKind.BATCH)
    peers = peers_of(tasks[0].job, 1, tasks)
    assert (peers.launcher_environment(tasks[0]), peers.files) == ({}, {})


def test_a_job_file_may_say_otherwise_to_a_launcher_but_not_who_a_task_is() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage(cards=4)
        own = {"OMPI_MCA_plm_rsh_args": "-p 2222", "PET_NNODES": "7", "RANK": "9"}
        for kind in (JobKind.MPI, JobKind.PYTORCH):
            stage.submit(kind.value, jobs.RoleOf(replicas=2), kind=kind, environment=own)
        stage.run(0)
        held = Allocation.unscoped.select_related("task__role", "attempt__job", "node").order_by("pod_name")
        specs = [spec.environment for spec in task_specs(list(held))]
    assert {spec["PET_NNODES"] for spec in specs} == {"7"}
    assert {spec["OMPI_MCA_plm_rsh_args"] for spec in specs} == {"-p 2222"}
    assert sorted(str(spec["RANK"]) for spec in specs) == ["0", "0", "1", "1"]


def test_one_task_alone_finds_itself_without_a_service() -> None:
    tasks = gang(("main", 1, 1), name="alone")
    assert peers_of(tasks[0].job, 1, tasks).hosts == [f"alone-{tasks[0].job.pk.hex[-8:]}-1-main-0"]


def test_a_list_too_long_for_a_variable_becomes_a_file() -> None:
    tasks = gang(("worker", 2000, 1))
    peers = peers_of(tasks[0].job, 1, tasks)
    own = peers.task_environment(tasks[7])
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
