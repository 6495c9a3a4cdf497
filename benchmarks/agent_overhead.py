"""`allotment bench agent-overhead`: processor time and memory of the node agent.

The driver is the fake driver of the tests, so the time inside a real driver is not measured. The agent polls
once a second to have many polls in a short time; the limits apply to the cost of a poll relative to the
normal interval.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from benchmarks.support.postgres import MissingProgram
from benchmarks.support.report import FigureRow, Report, read_limits
from tests.fixtures.nvml_driver import Driver, compile_library, server
from tests.fixtures.sample_server import SampleServer

_NO_INSTANCE: Final = "4294967295 4294967295"
_GPM: Final = (1, 2, 3, 5, 10, 20, 21, 60, 61)
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")


def run() -> Report:
    """Run the agent for a while and measure both of its processes."""
    limits, begun = read_limits("agent-overhead"), time.monotonic()
    with tempfile.TemporaryDirectory() as name, _platform() as platform:
        folder = Path(name)
        driver = _make_driver(folder, limits)
        key = folder / "key"
        key.write_text(platform.key, encoding="ascii")
        command = [
            *(sys.executable, "-m", "telemetry.agent.cli", "--standalone", "--node", "gpu-1"),
            *("--interval", "1", "--metrics-port", "0", "--root", name),
            *("--platform-url", platform.url, "--key-file", str(key)),
        ]
        process = subprocess.Popen(
            command, env={**os.environ, **driver.environment}, stderr=subprocess.DEVNULL
        )
        try:
            _wait_for_batches(platform, 5)
            before, polls = _cpu_s(process.pid), len(platform.batches)
            _wait_for_batches(platform, polls + limits["polls"])
            spent_s, polled = _cpu_s(process.pid) - before, len(platform.batches) - polls
            rss_mib = sum(_rss_mib(pid) for pid in _family(process.pid))
        finally:
            process.terminate()
            process.wait(10)
    share = 100 * spent_s / polled / limits["interval_s"]
    rows = [
        FigureRow("processor time at the interval, % of a core", share, limits["cpu_percent"]),
        FigureRow("processor time of a poll, ms", 1000 * spent_s / polled),
        FigureRow("memory of both processes, MiB", rss_mib, limits["rss_mib"]),
    ]
    seconds = time.monotonic() - begun
    size = {name: limits[name] for name in ("gpus", "processes_per_gpu", "polls", "interval_s")}
    return Report(
        name="agent-overhead", size=size, rows=rows, seconds=seconds, rate=polled / seconds,
        peak_rss_mib=rss_mib,
    )  # fmt: skip


def _make_driver(folder: Path, limits: Mapping[str, int]) -> Driver:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise MissingProgram("a C compiler is missing; on Debian and Ubuntu: apt install gcc")
    driver = Driver(compile_library(compiler, folder), folder / "driver")
    lines = server(limits["gpus"])
    for index in range(limits["gpus"]):
        lines[f"{index}.gpm"] = 1
        lines |= {f"{index}.gpm.{metric}": 50 for metric in _GPM}
        for number in range(limits["processes_per_gpu"]):
            # Process 1 exists, so that its cgroup and its name are read.
            lines[f"{index}.process.{number}"] = f"{number + 1} 300 C {_NO_INSTANCE} 20 2 0 0"
    return driver.put(lines)


@contextmanager
def _platform() -> Iterator[SampleServer]:
    platform = SampleServer(interval_s=None)  # the server does not change the agent's interval
    platform.start()
    try:
        yield platform
    finally:
        platform.stop()


def _wait_for_batches(platform: SampleServer, count: int) -> None:
    deadline = time.monotonic() + 30 + 3 * count
    while len(platform.batches) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(platform.batches)} of {count} batches came")
        time.sleep(0.2)


def _family(pid: int) -> list[int]:
    """Return the ids of a process and its children."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    children = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return [pid, *children]


def _cpu_s(pid: int) -> float:
    fields = [Path(f"/proc/{each}/stat").read_text().rpartition(")")[2].split() for each in _family(pid)]
    return sum(int(row[11]) + int(row[12]) for row in fields) * _TICK_S


def _rss_mib(pid: int) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024
