"""`allotment-agent`, the same as `allotment agent`: the program on a GPU node.

It measures the node's GPUs (docs/agent.md), and changes the memory of running slices at the platform's
request (docs/kubernetes.md). It needs neither Django nor the platform's database.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from telemetry.agent.api import AgentApi, Unavailable
from telemetry.agent.assembly import TelemetryOptions, assemble_telemetry
from telemetry.agent.exposition import serve_metrics
from telemetry.agent.pods import PodTable
from telemetry.agent.resizing.loop import Agent

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_ROOT: Final = Path("/usr/local/vgpu/containers")
_METRICS_PORT: Final = 9401
_LONGEST_INTERVAL_S: Final = 300
_USAGE: Final = 2


def add_agent_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the flags; a pod of the DaemonSet gets their values from its manifest."""
    parser.add_argument("--node", default=os.environ.get("NODE_NAME", ""), help="default: NODE_NAME")
    parser.add_argument("--server", default=_in_cluster(), help="API server address; default: in-cluster")
    parser.add_argument("--token-file", type=Path, default=_ACCOUNT / "token")
    parser.add_argument("--certificate-file", type=Path, default=_ACCOUNT / "ca.crt")
    parser.add_argument("--root", type=Path, default=_ROOT, help="HAMi container directory")
    parser.add_argument("--once", action="store_true", help="resize all pods once and exit; no telemetry")
    parser.add_argument(
        "--standalone", action="store_true", help="node outside a cluster: devices and processes, no pods"
    )
    _add_telemetry_arguments(parser)


def _add_telemetry_arguments(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("telemetry")
    group.add_argument("--interval", type=float, default=15.0, help="seconds between polls; default: 15")
    group.add_argument(
        "--nvml-timeout", type=float, default=10.0, help="seconds after which a poll of NVML is given up"
    )
    group.add_argument("--proc", type=Path, default=Path("/proc"), help="/proc of the node")
    group.add_argument("--metrics-address", default="0.0.0.0", help="default: all addresses")  # noqa: S104 (a pod's)
    group.add_argument(
        "--metrics-port", type=int, default=_METRICS_PORT, help=f"0: none; default: {_METRICS_PORT}"
    )
    group.add_argument(
        "--platform-url",
        default=os.environ.get("PLATFORM_URL", ""),
        help="platform address; or PLATFORM_URL",
    )
    group.add_argument("--platform-ca-file", type=Path, help="certificate authority of the platform")
    group.add_argument(
        "--cluster",
        default=os.environ.get("PLATFORM_CLUSTER", ""),
        help="name or id of this cluster on the platform; or PLATFORM_CLUSTER",
    )
    group.add_argument(
        "--platform-token-file", type=Path, help="service account token of audience allotment, for a key"
    )
    group.add_argument("--key-file", type=Path, help="file with a node key, instead of a token")
    group.add_argument("--print-metrics", action="store_true", help="print all metrics in Markdown and exit")
    group.add_argument("--buffer-mib", type=int, default=16, help="memory for unsent polls; default: 16")


def agent_command(options: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; 0 done, 1 the API did not answer (with --once), 2 bad usage."""
    if options.print_metrics:
        # Imported only here: it loads the NVML binding, which the agent keeps out of this process.
        sys.stdout.write(importlib.import_module("telemetry.agent.describing").metrics_table())
        return 0
    if problem := _find_problem(options):
        sys.stderr.write(f"{problem}\n")
        return _USAGE
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    pods = PodTable()
    agent = None
    if not options.standalone:
        api = AgentApi(options.server, options.token_file, options.certificate_file)
        agent = Agent(api, options.node, options.root, pods)
    if options.once:
        return 0 if agent is None else _once(agent)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    telemetry = assemble_telemetry(_telemetry_options(options), pods)
    try:
        if options.metrics_port:
            render, is_alive = telemetry.exposition.render, telemetry.is_alive
            serve_metrics(options.metrics_address, options.metrics_port, render, is_alive)
        telemetry.start()
        logging.info("node %s: GPUs are measured every %g s", options.node, options.interval)
        if agent is None:
            threading.Event().wait()
        else:
            agent.run(pause=time.sleep)
    finally:
        telemetry.stop()
    return 0


def main(argv: Sequence[str] | None = None) -> None:
    """Run the entry point `allotment-agent`."""
    parser = argparse.ArgumentParser(
        prog="allotment-agent", description="Allotment node agent: measures GPUs, resizes running slices"
    )
    add_agent_arguments(parser)
    raise SystemExit(agent_command(parser.parse_args(argv)))


def _find_problem(options: argparse.Namespace) -> str:
    """Return what is missing or out of range; "" for valid options."""
    if not options.node:
        return "--node is missing, and this is no pod of a cluster that would tell it"
    if not options.standalone:
        if not options.server:
            return "--server is missing, and this is no pod that would tell it (or: --standalone)"
        for file in (options.token_file, options.certificate_file):
            if not file.is_file():
                return f"file {file} not found"
    if not 1 <= options.interval <= _LONGEST_INTERVAL_S:
        return f"--interval is from 1 to {_LONGEST_INTERVAL_S}"
    if options.nvml_timeout <= 0 or options.buffer_mib < 1:
        return "--buffer-mib is at least 1, and --nvml-timeout above 0"
    if options.platform_url:
        if not options.platform_url.startswith(("https://", "http://")):
            return "--platform-url begins with https:// or http://"
        if options.key_file is None and not (options.platform_token_file and options.cluster):
            return "--platform-url needs --key-file, or --platform-token-file and --cluster"
    return ""


def _telemetry_options(options: argparse.Namespace) -> TelemetryOptions:
    return TelemetryOptions(
        node=options.node,
        root=options.root,
        proc=options.proc,
        interval_s=options.interval,
        nvml_timeout_s=options.nvml_timeout,
        platform_url=options.platform_url,
        certificate_file=options.platform_ca_file,
        cluster=options.cluster,
        token_file=options.platform_token_file,
        key_file=options.key_file,
        buffer_bytes=options.buffer_mib << 20,
    )


def _once(agent: Agent) -> int:
    try:
        agent.list_once()
    except Unavailable as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _end(*_: object) -> None:
    """Exit at once: the next agent can finish everything that is half done."""
    raise SystemExit(0)


def _in_cluster() -> str:
    host, port = (
        os.environ.get("KUBERNETES_SERVICE_HOST", ""),
        os.environ.get("KUBERNETES_SERVICE_PORT", "443"),
    )
    host = f"[{host}]" if ":" in host else host
    return f"https://{host}:{port}" if host else ""


if __name__ == "__main__":
    main()
