"""The processes of the embedded platform, in the order in which they are started."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from allotment.processes import paths
from allotment.processes.startup import DEFAULT_SETTINGS
from allotment.supervisor.broker import broker_program
from allotment.supervisor.child import Program

WORKERS: Final = {"cycles": ("cycle", 1), "worker": ("cluster,telemetry,default", 3)}
"""Queues and number of processes of each worker. One process runs all cycles: it keeps what it knows of a
cell, which several processes would each have to read and learn. Three others: a cluster call, another task
and the one replay that is computed at a time must not wait for each other."""


@dataclass(frozen=True, kw_only=True)
class ProgramPlan:
    """All programs of one start: the broker if it is bundled, steps that must succeed, and the services."""

    broker: Program | None
    steps: tuple[Program, ...]
    services: tuple[Program, ...]


def _manage(name: str, *arguments: str, environment: Mapping[str, str], label: str = "") -> Program:
    command = (sys.executable, "-m", "allotment.cli", name, *arguments)
    return Program(name=name.replace("_", "-"), label=label, command=command, environment=environment)


def child_environment(home: Path, port: int) -> dict[str, str]:
    """Return the environment of every child on top of the supervisor's."""
    return {
        "ALLOTMENT_HOME": str(home),
        "PORT": str(port),
        "DJANGO_SETTINGS_MODULE": os.environ.get("DJANGO_SETTINGS_MODULE", DEFAULT_SETTINGS),
        "ALLOTMENT_BROKER_URL": os.environ.get("ALLOTMENT_BROKER_URL") or paths.broker_url(home),
        "PYTHONUNBUFFERED": "1",
        # Keeps the working directory off the module path: with `python -m`, a stray file there would be
        # imported.
        "PYTHONSAFEPATH": "1",
    }


def embedded_plan(home: Path, port: int) -> ProgramPlan:
    """Return the plan of `allotment up` in `home`, listening on the loopback address at `port`."""
    environment = child_environment(home, port)
    own_broker = not os.environ.get("ALLOTMENT_BROKER_URL")
    return ProgramPlan(
        broker=broker_program(home) if own_broker else None,
        steps=(
            _manage("migrate", "--no-input", environment=environment, label="Preparing the database"),
            _manage("seed_demo", environment=environment, label="Preparing the installation"),
        ),
        services=(
            Program(name="web", command=_web(port), environment=environment, stop_s=6.0),
            *(_worker(name, environment) for name in WORKERS),
            _manage("relay", "--beat", environment=environment),
        ),
    )


def _celery() -> tuple[str, ...]:
    return (sys.executable, "-m", "celery", "-A", "allotment")


def _web(port: int) -> tuple[str, ...]:
    return (
        *(sys.executable, "-m", "uvicorn", "allotment.asgi:application"),
        *("--host", "127.0.0.1", "--port", str(port)),
        *("--log-level", "info", "--no-access-log", "--lifespan", "off"),
        # Longer than proxies and clients keep connections: a request on a connection being closed would fail.
        *("--timeout-keep-alive", "75"),
        # No proxy is in front of it: local clients must not choose the address that the platform sees.
        "--no-proxy-headers",
        # Open event streams never end by themselves; the console reconnects.
        *("--timeout-graceful-shutdown", "3"),
    )


def _worker(name: str, environment: Mapping[str, str]) -> Program:
    queues, processes = WORKERS[name]
    command = (
        *(*_celery(), "worker", "-Q", queues, "--concurrency", str(processes), "--pool", "prefork"),
        *("--hostname", f"{name}@%h", "--loglevel", "INFO", "--without-mingle", "--without-gossip"),
    )
    return Program(name=name, command=command, environment=environment, stop_s=15.0)
