"""Agents with the stand-in of NVIDIA's library on the nodes of a real API server, from driver to page.

Each node has eight GPUs that the cluster only counts and two pods with four each. The driver of each node
is scripted, differently for every GPU, and the node's /proc shows the pod of each process. No other source
reports the GPUs of the pods: those of the first pod are the last four of its node.

All nodes are measured twice, with different scripts. Pages round their figures, so the bounds here are that
rounding. Series are exact, and the hours of the report are within 0.5 %.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from html import unescape
from pathlib import Path
from statistics import fmean
from typing import Any, Final
from urllib.parse import quote, urlencode

import pytest

from benchmarks.support.control_plane import ControlPlane
from telemetry.series.levels.job import MAX_LINES
from tests.e2e.real_cluster import CARDS, MODEL, Installation, installation
from tests.e2e.scripted_nodes import INTERVAL_S, TOTAL_MIB, GpuScript, ScriptedNode, scripted_node
from tests.fixtures.nvml_driver import Driver
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.wait import wait_until

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]
NODES: Final = 20
JOBS: Final = ("first", "second")
HALF: Final = CARDS // 2
LOOKED_AT: Final = 6
FRESH_MS: Final = 28_000
"""The age in seconds up to which pages show a measurement."""
CHART_STEP_S: Final = 20
"""The seconds between two points of a chart of a few minutes."""
NUMBER: Final = r"([\d.,]+)"


@dataclass(frozen=True)
class HeldGpu:
    """A GPU of a task as the platform knows it, with its script in each phase."""

    job: str
    task: str
    node: ScriptedNode
    index: int
    uuid: str
    gpus: range
    """The GPUs of the driver that may be this one."""

    def scripts(self, phase: int) -> list[GpuScript]:
        return [self.node.scripts(phase)[gpu] for gpu in self.gpus]


@pytest.fixture(scope="module")
def cluster(
    kube: ControlPlane, postgres_server: PostgresServer, migrated_database: str
) -> Iterator[Installation]:
    name = postgres_server.create_database(template=migrated_database)
    database = postgres_server.database_url(name)
    with installation(kube, database, (f"measured={NODES * CARDS}:0",), whole=NODES, parts=False) as it:
        yield it
    postgres_server.drop_database(name)


@pytest.fixture
def held(cluster: Installation, driver: Driver, tmp_path: Path) -> Iterator[list[HeldGpu]]:
    """Return every GPU of the two jobs that fill the cluster, whose nodes have agents."""
    half = {"cards": HALF, "model": MODEL}
    jobs = {name: cluster.submit("measured", replicas=NODES, gpu=half, name=name) for name in JOBS}
    pods = {name: cluster.runs("measured", job, NODES) for name, job in jobs.items()}
    tasks = [(name, task) for name, job in jobs.items() for task in cluster.tasks("measured", job)]
    on_node: dict[str, list[str]] = {}
    for _, task in sorted(tasks, key=lambda found: found[1]["allocation"]["pod"]):
        on_node.setdefault(task["allocation"]["node"], []).append(task["allocation"]["pod"])
    assert len(on_node) == NODES
    owner = {
        pod: (one["metadata"]["uid"], cluster.name_container(one))
        for found in pods.values()
        for pod, one in found.items()
    }
    with ExitStack() as stack:
        nodes: dict[str, ScriptedNode] = {}
        for number, (name, (first, second)) in enumerate(sorted(on_node.items())):
            owners = [owner[second]] * HALF + [owner[first]] * HALF
            nodes[name] = scripted_node(
                cluster.plane, cluster.running.url, driver, tmp_path / name, number, name, owners
            )
            stack.callback(nodes[name].telemetry.stop)
        yield [
            HeldGpu(
                name, task["id"], nodes[at["node"]], device["index"], device["uuid"],
                range(HALF, CARDS) if on_node[at["node"]][0] == at["pod"] else range(HALF),
            )
            for name, task in tasks
            for at in (task["allocation"],)
            for device in task["devices"]
        ]  # fmt: skip


def test_what_drivers_say_is_on_the_pages_of_nodes_and_jobs_and_in_the_usage_report(
    cluster: Installation, held: list[HeldGpu]
) -> None:
    nodes = list({gpu.node.name: gpu.node for gpu in held}.values())
    jobs = {job["name"]: job["id"] for job in cluster._ask("workspaces/measured/jobs")["items"]}
    measure_all(nodes, 0)
    seen_nodes = looked_at(held)
    pages = [
        *(f"/ops/nodes/{node.name}" for node in seen_nodes),
        *(f"/ops/gpus/{quote(gpu.uuid)}" for gpu in one_of_each(held, seen_nodes)),
        *(f"/w/measured/jobs/{job}" for job in jobs.values()),
    ]

    def shown_in_time() -> dict[str, str] | None:
        """Measure all nodes and read the pages; a busy machine may read them too late."""
        measure_all(nodes, 1)
        seen = look(cluster, pages)
        return seen if time.time() * 1000 - min(node.polls[-1][1] for node in nodes) < FRESH_MS else None

    seen = wait_until(shown_in_time, "all nodes are measured and pages read within 28 s", within_s=240)
    assert seen is not None
    placed = {
        node.name: check_node_page(seen[f"/ops/nodes/{node.name}"], node, of_node(held, node))
        for node in seen_nodes
    }
    for gpu in one_of_each(held, seen_nodes):
        check_gpu_page(seen[f"/ops/gpus/{quote(gpu.uuid)}"], gpu, placed[gpu.node.name][gpu.index])
    for name, job in jobs.items():
        check_job_page(seen[f"/w/measured/jobs/{job}"], [gpu for gpu in held if gpu.job == name])
        check_job_series(cluster, job, [gpu for gpu in held if gpu.job == name], placed)
    check_report_and_charts(cluster, held, jobs)


def measure_all(nodes: Sequence[ScriptedNode], phase: int) -> None:
    """Measure all nodes once in a phase, each long enough after its previous poll.

    No time is then counted twice, and the second polls are in a later step of charts than the first ones.
    """

    def measure(node: ScriptedNode) -> None:
        if node.polls:
            due = node.polls[-1][1] / 1000 + max(INTERVAL_S, CHART_STEP_S)
            wait_until(lambda: time.time() > due, "the interval is over")
        node.play(phase)
        what = f"the platform takes a poll of {node.name}"
        wait_until(lambda: node.measure(phase), what, within_s=90)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(measure, nodes))


def look(cluster: Installation, paths: Iterable[str]) -> dict[str, str]:
    command = [sys.executable, "-m", "tests.e2e.agents_view", *paths]
    made = subprocess.run(command, env=cluster.running.environment, check=True, stdout=subprocess.PIPE)
    found: dict[str, str] = json.loads(made.stdout.splitlines()[-1])
    return found


def of_node(held: Iterable[HeldGpu], node: ScriptedNode) -> list[HeldGpu]:
    return [gpu for gpu in held if gpu.node is node]


def looked_at(held: Sequence[HeldGpu]) -> list[ScriptedNode]:
    """Return some nodes of each job."""
    found: dict[str, ScriptedNode] = {}
    for job in JOBS:
        named = sorted({gpu.node.name for gpu in held if gpu.job == job})
        found |= {gpu.node.name: gpu.node for gpu in held if gpu.node.name in named[: LOOKED_AT // 2]}
    assert len(found) >= LOOKED_AT // 2
    return list(found.values())


def one_of_each(held: Sequence[HeldGpu], nodes: Iterable[ScriptedNode]) -> list[HeldGpu]:
    return [of_node(held, node)[0] for node in nodes]


def number(text: str) -> float:
    return float(text.replace(",", ""))


def check_node_page(page: str, node: ScriptedNode, held: Sequence[HeldGpu]) -> dict[int, GpuScript]:
    """Compare each GPU on the node's page with one that its pod uses; returns the script of each index."""
    placed: dict[int, GpuScript] = {}
    for gpu in held:
        card = re.search(rf'<article class="gpu-card [^>]*id="gpu-{gpu.index}">(.*?)</article>', page, re.S)
        assert card, f"{node.name} shows no GPU {gpu.index}"
        use, heat, power = (
            number(found) for found in re.findall(rf"<dd>\s*{NUMBER}[^<]*</dd>", unescape(card[1]))
        )
        memory = re.search(rf"{NUMBER} GiB used of {NUMBER} GiB", card[1])
        assert memory, card[1]
        does = next((one for one in gpu.scripts(1) if one.temperature_c == heat), None)
        assert does, f"{node.name}, GPU {gpu.index}: no GPU of its pod is {heat} °C"
        assert use == pytest.approx(does.utilization, abs=0.5)
        assert power == pytest.approx(does.power_w, abs=0.5)
        assert number(memory[1]) == pytest.approx(does.used_mib / 1024, abs=0.05)
        assert number(memory[2]) == pytest.approx(TOTAL_MIB / 1024, abs=0.05)
        assert f">{gpu.job}<" in card[1]
        placed[gpu.index] = does
    assert len({does.pid for does in placed.values()}) == CARDS
    return placed


def check_gpu_page(page: str, gpu: HeldGpu, does: GpuScript) -> None:
    """The GPU's page shows its one process, the process's pod, and the pod's use of its allocation."""
    processes = re.findall(r'data-label="PID">(\d+)</td>\s*<td[^>]*>(?:<a[^>]*>)?([^<]*)', page)
    assert processes == [(str(does.pid), gpu.job)]
    used = re.search(rf'data-label="Compute used">{NUMBER} %', page)
    memory = re.search(rf'data-label="GPU memory used">{NUMBER} GiB', page)
    assert used and memory, page
    assert number(used[1]) == pytest.approx(does.utilization, abs=0.5)
    assert number(memory[1]) == pytest.approx(does.process_mib / 1024, abs=0.05)


def check_job_page(page: str, held: Sequence[HeldGpu]) -> None:
    """The job's page shows the mean use of its GPUs, and the memory that its processes use."""
    scripts = [gpu.node.scripts(1)[number] for gpu in first_of_tasks(held) for number in gpu.gpus]
    use = re.search(rf'<p class="big"><b>{NUMBER} %</b>', page)
    memory = re.search(rf"{NUMBER} GiB of {NUMBER} GiB", page)
    assert use and memory, page
    assert number(use[1]) == pytest.approx(fmean(does.utilization for does in scripts), abs=0.5)
    total = sum(does.process_mib for does in scripts)
    assert number(memory[1]) == pytest.approx(total / 1024, abs=0.05)
    assert number(memory[2]) == pytest.approx(len(scripts) * TOTAL_MIB / 1024, abs=0.05)


def first_of_tasks(held: Iterable[HeldGpu]) -> list[HeldGpu]:
    return list({gpu.task: gpu for gpu in held}.values())


def check_job_series(
    cluster: Installation, job: str, held: Sequence[HeldGpu], placed: dict[str, dict[int, GpuScript]]
) -> None:
    """Each line of the job has the values of one GPU at every poll, the same GPU as on the node's page."""
    since, until = span_of(held)
    query = urlencode({"level": "job", "id": job, "start": since, "end": until, "step": 10})
    found = cluster._ask(f"metrics/series?{query}")
    by_place = {(gpu.task, gpu.index): gpu for gpu in held}
    lines = 0
    for line in found["series"]:
        if line["measure"] not in ("utilisation", "memory_used") or "/" not in line["subject"]:
            continue
        index = int(line["label"].rpartition(" ")[2])
        gpu = by_place[line["subject"].partition("/")[0], index]
        at = placed.get(gpu.node.name, {}).get(index)
        numbers = [gpu.node.scripts(1).index(at)] if at else list(gpu.gpus)
        possible = [
            [
                does.utilization if line["measure"] == "utilisation" else does.process_mib
                for phase, _ in gpu.node.polls
                for does in (gpu.node.scripts(phase)[number],)
            ]
            for number in numbers
        ]
        values = [value for value in line["values"] if value is not None]
        assert values in [pytest.approx(each, abs=0.01) for each in possible], line["label"]
        lines += 1
    assert lines == 2 * MAX_LINES  # a chart shows at most so many of the 80 GPUs


def span_of(held: Iterable[HeldGpu]) -> tuple[str, str]:
    """Return a minute before the first poll and the present, as they are written in an address."""
    first = min(node.polls[0][1] for node in (gpu.node for gpu in held)) / 1000 - 60
    return tuple(  # type: ignore[return-value]
        datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ") for at in (first, time.time())
    )


def check_report_and_charts(cluster: Installation, held: list[HeldGpu], jobs: dict[str, str]) -> None:
    """GPU-hours by job in the report and the mean line of each job's chart agree with the polls."""
    last = max(gpu.node.polls[-1][1] for gpu in held) / 1000
    wait_until(lambda: time.time() > last + INTERVAL_S, "the time of the last poll is over")
    since, until = span_of(held)
    charts = {
        name: f"/w/measured/jobs/{job}/charts/utilisation?from={since}&to={until}"
        for name, job in jobs.items()
    }
    report = "/api/v1/workspaces/measured/usage/report?group_by=job"
    seen = look(cluster, [report, *charts.values()])
    rows = {row["name"]: row for row in json.loads(seen[report])["rows"]}
    for name in jobs:
        tasks = first_of_tasks(gpu for gpu in held if gpu.job == name)
        used = [
            gpu.node.scripts(phase)[number].utilization / 100
            for gpu in tasks
            for phase, _ in gpu.node.polls
            for number in gpu.gpus
        ]
        hours = INTERVAL_S / 3600
        row = rows[name]
        assert row["used_gpu_hours"] == pytest.approx(sum(used) * hours, rel=0.005)
        measured = row["used_gpu_hours"] + row["idle_gpu_hours"]
        assert measured == pytest.approx(len(used) * hours, rel=0.005)
        check_chart(json.loads(seen[charts[name]])["figure"], tasks)


def check_chart(figure: Any, tasks: Sequence[HeldGpu]) -> None:
    """The mean line has the mean of the measurements at each time, and a gap without measurements."""
    line = next(trace for trace in figure["data"] if trace["name"] == "Compute")
    points = {
        datetime.fromisoformat(at).timestamp(): value for at, value in zip(line["x"], line["y"], strict=True)
    }
    expected: dict[float, list[int]] = {}
    for gpu in tasks:
        for phase, at_ms in gpu.node.polls:
            found = [gpu.node.scripts(phase)[number].utilization for number in gpu.gpus]
            expected.setdefault(at_ms / 1000 // CHART_STEP_S * CHART_STEP_S, []).extend(found)
    # Before the first measurement there is a gap, which reaches into the step of the first poll.
    begun = min(at_ms for gpu in tasks for _, at_ms in gpu.node.polls) / 1000
    shown = {at: value for at, value in points.items() if value is not None and at >= begun}
    means = {at: fmean(values) for at, values in expected.items() if at >= begun}
    assert means and shown == pytest.approx(means, abs=0.05)
