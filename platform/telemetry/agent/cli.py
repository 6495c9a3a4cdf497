"""`allotment-agent`, the same as `allotment agent`: the program on a GPU node.

It changes the memory of running parts of cards where the platform wants it (docs/kubernetes.md), and does
nothing else. It needs neither Django nor the platform's database.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from telemetry.agent.api import AgentApi, Unavailable
from telemetry.agent.loop import Agent

_ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_ROOT: Final = Path("/usr/local/vgpu/containers")
_USAGE: Final = 2


def add_agent_arguments(parser: argparse.ArgumentParser) -> None:
    """What the command takes; a pod of the DaemonSet needs none of it."""
    parser.add_argument("--node", default=os.environ.get("NODE_NAME", ""), help="default: NODE_NAME")
    parser.add_argument("--server", default=_in_cluster(), help="API server address; default: in-cluster")
    parser.add_argument("--token-file", type=Path, default=_ACCOUNT / "token")
    parser.add_argument("--certificate-file", type=Path, default=_ACCOUNT / "ca.crt")
    parser.add_argument("--root", type=Path, default=_ROOT, help="HAMi container directory")
    parser.add_argument("--once", action="store_true", help="process all pods once and exit")


def agent_command(options: argparse.Namespace) -> int:
    """Run until SIGTERM or SIGINT; 0 done, 1 the API did not answer (with --once), 2 bad usage."""
    for name in ("node", "server"):
        if not getattr(options, name):
            sys.stderr.write(f"--{name} is missing, and this is no pod of a cluster that would tell it\n")
            return _USAGE
    for file in (options.token_file, options.certificate_file):
        if not file.is_file():
            sys.stderr.write(f"there is no file {file}\n")
            return _USAGE
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    agent = Agent(
        AgentApi(options.server, options.token_file, options.certificate_file), options.node, options.root
    )
    if options.once:
        return _once(agent)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    logging.info("node %s: the memory of parts of cards is changed as the platform wants it", options.node)
    agent.run(pause=time.sleep)
    return 0


def main(argv: Sequence[str] | None = None) -> None:
    """The entry point `allotment-agent`."""
    parser = argparse.ArgumentParser(
        prog="allotment-agent", description=("Allotment node agent: resizes GPU memory of running slices")
    )
    add_agent_arguments(parser)
    raise SystemExit(agent_command(parser.parse_args(argv)))


def _once(agent: Agent) -> int:
    try:
        agent.list_once()
    except Unavailable as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _end(*_: object) -> None:
    """At once: nothing is half done that the next agent could not finish."""
    raise SystemExit(0)


def _in_cluster() -> str:
    host, port = (
        os.environ.get("KUBERNETES_SERVICE_HOST", ""),
        os.environ.get("KUBERNETES_SERVICE_PORT", "443"),
    )
    host = f"[{host}]" if ":" in host else host
    return f"https://{host}:{port}" if host else ""
