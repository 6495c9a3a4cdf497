"""Assembles the parts of telemetry from the options of the command."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from telemetry.agent.cgroups import ProcessTable
from telemetry.agent.clock import SteadyClock
from telemetry.agent.exposition import MetricsExposition
from telemetry.agent.nvml.process import NvmlProcess
from telemetry.agent.pods import PodTable
from telemetry.agent.push.buffer import Buffer
from telemetry.agent.push.keys import ExchangedKey, FileKey, KeySource
from telemetry.agent.push.pusher import Pusher
from telemetry.agent.push.requests import Platform
from telemetry.agent.sampling import Sampler
from telemetry.agent.slices import SliceReader
from telemetry.agent.telemetry import Telemetry

_START_FACTOR: Final = 6
"""How many times as long as a poll an enumeration may take."""


@dataclass(frozen=True, slots=True)
class TelemetryOptions:
    """The options of the command. An empty `platform_url`: nothing is sent.

    `key_file` takes precedence over `token_file`, whose token is exchanged for a key.
    """

    node: str
    root: Path
    proc: Path
    interval_s: float = 15.0
    nvml_timeout_s: float = 10.0
    platform_url: str = ""
    certificate_file: Path | None = None
    cluster: str = ""
    token_file: Path | None = None
    key_file: Path | None = None
    buffer_bytes: int = 16 << 20


def assemble_telemetry(options: TelemetryOptions, pods: PodTable) -> Telemetry:
    """Assemble the parts; nothing is started yet."""
    clock, table = SteadyClock(), ProcessTable(options.proc)
    nvml = NvmlProcess(options.nvml_timeout_s, _START_FACTOR * options.nvml_timeout_s, time.monotonic)
    # Process 1 of a container that does not share the node's processes is the agent itself.
    sees_host = options.proc != Path("/proc") or os.getpid() != 1
    slices = SliceReader(options.root, table, sees_host)
    sampler = Sampler(nvml, pods, slices, table, time.monotonic, time.time)
    buffer = Buffer(options.buffer_bytes)
    exposition = MetricsExposition(options.node, sampler.describe_devices, sampler.index_of)
    telemetry = Telemetry(sampler, buffer, exposition, options.interval_s)
    if options.platform_url:
        platform = Platform(options.platform_url, options.certificate_file)
        keys = _make_keys(options, platform)
        telemetry.pusher = Pusher(
            platform, keys, options.node, buffer, clock, telemetry.set_interval, time.sleep
        )
    exposition.self_metrics = telemetry.self_metrics(clock)
    return telemetry


def _make_keys(options: TelemetryOptions, platform: Platform) -> KeySource:
    if options.key_file is not None:
        return FileKey(options.key_file)
    assert options.token_file is not None  # noqa: S101 (the command has refused it)
    return ExchangedKey(platform, options.cluster, options.node, options.token_file, time.time)
