"""Agents with the stand-in of NVIDIA's library on the nodes of a real API server, from driver to page.

Each node has eight GPUs that the cluster only counts and two pods with four each. The driver says what every
GPU does, and the node's /proc to which pod each process belongs. Nobody else tells which GPUs the pods got:
those of the first pod are the last four of its node.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.support.control_plane import ControlPlane
from telemetry.agent.api import AgentApi
from telemetry.agent.assembly import TelemetryOptions, assemble_telemetry
from telemetry.agent.pods import PodTable
from telemetry.agent.resizing.loop import Agent
from telemetry.series.job import MAX_LINES
from tests.builders.node_files import cgroup_path, put_process
from tests.e2e.real_cluster import CARDS, MODEL, Installation, installation
from tests.fixtures.agents import token
from tests.fixtures.nvml_driver import Driver, server
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.wait import wait_until

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]
NODES: Final = 20
USES: Final = {"first": (80, 60), "second": (20, 40)}
"""Percent that each GPU is used by the pods of a job: by the first and by the second one of a node."""


@pytest.fixture(scope="module")
def cluster(
    kube: ControlPlane, postgres_server: PostgresServer, migrated_database: str
) -> Iterator[Installation]:
    name = postgres_server.create_database(template=migrated_database)
    with installation(kube, postgres_server.database_url(name), ("measured=160:0",)) as it:
        yield it
    postgres_server.drop_database(name)


def node_driver(driver: Driver, folder: Path, node: int, pods: list[str], uses: tuple[int, int]) -> Driver:
    """The driver of one node: the first of the pods is on the last four GPUs."""
    lines = server(CARDS)
    for index in range(CARDS):
        pod = 0 if index >= CARDS // 2 else 1
        lines[f"{index}.uuid"] = f"GPU-{node:04d}{index:04d}-0000-0000-0000-000000000000"
        lines[f"{index}.utilization"] = f"{uses[pod]} 5"
        lines[f"{index}.process.0"] = f"{1000 + index} 9000 C -1 -1 {uses[pod]} 3 0 0"
        put_process(folder / "proc", 1000 + index, cgroup_path(pods[pod], f"{index:064x}"))
    made = Driver(driver.library, folder / "driver")
    return made.put(lines)


def measure(cluster: Installation, made: Driver, folder: Path, node: str, monkeypatch: Any) -> None:
    """Run the agent of one node until the platform has taken a poll of it."""
    for key, value in made.environment.items():
        monkeypatch.setenv(key, value)
    tokens = {name: folder / name for name in ("kube", "platform")}
    tokens["kube"].write_text(token(cluster.plane, node), encoding="ascii")
    tokens["platform"].write_text(token(cluster.plane, node, "allotment"), encoding="ascii")
    pods = PodTable()
    api = AgentApi(cluster.plane.url, tokens["kube"], cluster.plane.certificate)
    Agent(api, node, folder / "regions", pods).list_once()
    options = TelemetryOptions(
        node=node,
        root=folder / "regions",
        proc=folder / "proc",
        nvml_timeout_s=60,
        platform_url=cluster.running.url,
        cluster="real",
        token_file=tokens["platform"],
    )
    telemetry = assemble_telemetry(options, pods)
    assert telemetry.pusher is not None
    try:

        def taken() -> bool:
            telemetry.poll_once()
            assert telemetry.pusher is not None
            while len(telemetry.buffer) and telemetry.pusher.push_once():
                pass
            return not len(telemetry.buffer) and bool(telemetry.sampler.describe_devices())

        wait_until(taken, f"the platform takes a poll of {node}: {telemetry.pusher.results}", within_s=60)
    finally:
        telemetry.stop()


def look(cluster: Installation, job: str, *nodes: str) -> Any:
    command = [sys.executable, "-m", "tests.e2e.agents_view", "measured", job, *nodes]
    made = subprocess.run(command, env=cluster.running.environment, check=True, stdout=subprocess.PIPE)
    return json.loads(made.stdout.splitlines()[-1])


def test_what_drivers_say_is_on_the_pages_of_nodes_and_jobs_and_in_the_usage_report(
    cluster: Installation, driver: Driver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = {"cards": CARDS // 2, "model": MODEL}
    jobs = {name: cluster.submit("measured", replicas=NODES, gpu=half, name=name) for name in USES}
    by_node: dict[str, list[tuple[str, str, str]]] = {}
    for name, job in jobs.items():
        for pod in cluster.runs("measured", job, NODES).values():
            found = (name, pod["metadata"]["name"], pod["metadata"]["uid"])
            by_node.setdefault(pod["spec"]["nodeName"], []).append(found)
    assert len(by_node) == NODES
    expected: dict[str, int] = {}
    node_driver_of: dict[str, Driver] = {}
    for number, (node, pods) in enumerate(sorted(by_node.items())):
        (job_name, first, first_uid), (same, second, second_uid) = sorted(pods)
        assert same == job_name
        expected |= dict(zip((first, second), USES[job_name], strict=True))
        folder = tmp_path / node
        (folder / "regions").mkdir(parents=True)
        made = node_driver(driver, folder, number, [first_uid, second_uid], USES[job_name])
        node_driver_of[node] = made
        measure(cluster, made, folder, node, monkeypatch)

    last = max(by_node)
    uses = USES[by_node[last][0][0]]

    def shown() -> Any:
        """Measure and read: a page shows what was measured in the last 30 s, on a busy machine too."""
        measure(cluster, node_driver_of[last], tmp_path / last, last, monkeypatch)
        seen = look(cluster, jobs["first"], last)
        found = [len(re.findall(rf">\s*{use} %", seen["pages"][last])) for use in uses]
        return seen if min(found) >= CARDS // 2 else None

    seen = wait_until(shown, f"the page of {last} shows {uses}", within_s=120)
    rows = {row["name"]: row for row in seen["report"]["rows"]}
    for name, job in jobs.items():
        row, mean = rows[name], sum(USES[name]) / 2
        measured = float(row["used_gpu_hours"]) + float(row["idle_gpu_hours"])
        assert measured > 0
        assert float(row["used_gpu_hours"]) / measured == pytest.approx(mean / 100, rel=0.005)
        average, of_tasks = job_lines(cluster, job)
        assert average == pytest.approx(mean, rel=0.005)
        # Each task has the use of its own GPUs, whichever the node gave it. At most 64 lines are shown.
        right = {task["id"]: {expected[task["allocation"]["pod"]]} for task in cluster.tasks("measured", job)}
        assert len(of_tasks) == MAX_LINES // (CARDS // 2)
        assert of_tasks == {task: right[task] for task in of_tasks}


def job_lines(cluster: Installation, job: str) -> tuple[float | None, dict[str, set[float | None]]]:
    """The last use that the job's charts show: its average, and that of the GPUs of each task."""
    found = cluster._ask(f"metrics/series?level=job&id={job}")
    last = {
        line["subject"]: next((value for value in reversed(line["values"]) if value is not None), None)
        for line in found["series"]
        if line["measure"] == "utilisation"
    }
    average = last.pop("average")
    of_tasks: dict[str, set[float | None]] = {}
    for subject, value in last.items():
        of_tasks.setdefault(subject.partition("/")[0], set()).add(value)
    return average, of_tasks
