"""Nodes with scripted drivers, different for every GPU, and the agents that measure them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.support.control_plane import ControlPlane
from telemetry.agent.api import AgentApi
from telemetry.agent.assembly import TelemetryOptions, assemble_telemetry
from telemetry.agent.nvml.process import COMMAND
from telemetry.agent.pods import PodTable
from telemetry.agent.resizing.loop import Agent
from telemetry.agent.telemetry import Telemetry
from tests.builders.node_files import cgroup_path, put_process
from tests.fixtures.agents import token
from tests.fixtures.nvml_driver import Driver, server

INTERVAL_S: Final = 15
TOTAL_MIB: Final = 40_960
_CONTEXT_MIB: Final = 300
"""The memory (MiB) that a driver uses on a GPU besides that of processes."""
_FIRST_PID: Final = 1000


@dataclass(frozen=True, slots=True)
class GpuScript:
    """The script of a GPU: use in percent, memory of its process (MiB), watts, degrees."""

    pid: int
    utilization: int
    process_mib: int
    power_w: int
    temperature_c: int

    @property
    def used_mib(self) -> int:
        """The memory that the driver reports for the whole GPU."""
        return self.process_mib + _CONTEXT_MIB


def script_of(node: int, gpu: int, phase: int) -> GpuScript:
    """Return the script of a GPU in one phase of the day; no two GPUs and no two phases are equal."""
    return GpuScript(
        pid=_FIRST_PID + 10 * node + gpu,
        utilization=5 + (7 * node + 11 * gpu + 23 * phase) % 90,
        process_mib=1500 + 700 * gpu + 61 * node + 2048 * phase,
        power_w=90 + 13 * gpu + 6 * node + 40 * phase,
        temperature_c=31 + node + gpu + 5 * phase,
    )


@dataclass(slots=True)
class ScriptedNode:
    """A node with its agent. `pods`: uid and container of the pod on each GPU, by index of the driver.

    `polls`: the phase and the time (ms since 1970) of each poll that the platform has accepted.
    """

    number: int
    name: str
    pods: Sequence[tuple[str, str]]
    driver: Driver
    telemetry: Telemetry
    polls: list[tuple[int, int]] = field(default_factory=list)

    def scripts(self, phase: int) -> list[GpuScript]:
        """Return the scripts of its GPUs, by index of the driver."""
        return [script_of(self.number, gpu, phase) for gpu in range(len(self.pods))]

    def play(self, phase: int) -> None:
        """Set the driver's answers to those of a phase."""
        lines: dict[str, object] = {}
        for gpu, does in enumerate(self.scripts(phase)):
            lines |= {
                f"{gpu}.utilization": f"{does.utilization} 5",
                f"{gpu}.memory": f"{TOTAL_MIB} {does.used_mib} 600",
                f"{gpu}.power": 1000 * does.power_w,
                f"{gpu}.temperature": does.temperature_c,
                f"{gpu}.process.0": f"{does.pid} {does.process_mib} C -1 -1 {does.utilization} 3 0 0",
            }
        self.driver.put(lines)

    def measure(self, phase: int) -> bool:
        """Poll once and send the result; returns whether the platform has accepted the values of the GPUs."""
        assert self.telemetry.pusher is not None
        if not len(self.telemetry.buffer):
            self.telemetry.poll_once()
        (batch,) = self.telemetry.buffer.peek(1 << 20)
        told = json.loads(batch.to_json(self.telemetry.pusher.clock))
        if not self.telemetry.pusher.push_once() or len(self.telemetry.buffer) or not told["devices"]:
            return False
        self.polls.append((phase, told["at_ms"]))
        return True


def scripted_node(
    plane: ControlPlane,
    url: str,
    driver: Driver,
    folder: Path,
    number: int,
    name: str,
    pods: Sequence[tuple[str, str]],
) -> ScriptedNode:
    """Create the node's driver, its /proc, and its agent, which is not started."""
    (folder / "regions").mkdir(parents=True)
    lines = server(len(pods))
    for gpu, (pod, container) in enumerate(pods):
        lines[f"{gpu}.uuid"] = f"GPU-{number:04d}{gpu:04d}-0000-0000-0000-000000000000"
        put_process(folder / "proc", script_of(number, gpu, 0).pid, cgroup_path(pod, container))
    own = Driver(driver.library, folder / "driver").put(lines)
    tokens = {audience: folder / (audience or "kube") for audience in ("", "allotment")}
    for audience, file in tokens.items():
        file.write_text(token(plane, name, audience), encoding="ascii")
    table = PodTable()
    Agent(AgentApi(plane.url, tokens[""], plane.certificate), name, folder / "regions", table).list_once()
    options = TelemetryOptions(
        node=name,
        root=folder / "regions",
        proc=folder / "proc",
        interval_s=INTERVAL_S,
        nvml_timeout_s=60,
        platform_url=url,
        cluster="real",
        token_file=tokens["allotment"],
    )
    telemetry = assemble_telemetry(options, table)
    # Every node has a library and a driver of its own, whatever the environment of the test.
    variables = [f"{key}={value}" for key, value in own.environment.items()]
    telemetry.sampler.nvml.command = ("/usr/bin/env", *variables, *COMMAND)
    return ScriptedNode(number, name, pods, own, telemetry)
