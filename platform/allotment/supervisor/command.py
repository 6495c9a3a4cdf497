"""`allotment up`: checks the machine, locks the home, and runs the supervisor."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from allotment.processes import paths
from allotment.processes.private_home import create_privately
from allotment.supervisor import broker, preflight, readiness
from allotment.supervisor.console import print_banner, print_line
from allotment.supervisor.errors import StartError
from allotment.supervisor.lock import HomeLock
from allotment.supervisor.programs import embedded_plan
from allotment.supervisor.signals import watch_signals
from allotment.supervisor.supervisor import Supervisor

FAILED: Final = 1


def run_platform() -> int:
    """Run the platform until it is stopped. Return the exit status: 0 after an orderly stop."""
    create_privately()
    try:
        home = paths.find_home_folder()
        port = preflight.read_port(os.environ)
        preflight.check_python()
        if not os.environ.get("ALLOTMENT_BROKER_URL"):
            preflight.check_machine()
        preflight.check_home(home)
        lock = HomeLock.acquire_lock(home, port)
        try:
            preflight.check_port(port)
            preflight.check_socket_folder(paths.broker_socket(home).parent)
            return _run(home, port)
        finally:
            lock.release_lock()
    except StartError as error:
        sys.stderr.write(f"allotment up: {error}\n")
        return FAILED


def _run(home: Path, port: int) -> int:
    with watch_signals() as signals:
        return Supervisor(
            plan=embedded_plan(home, port),
            logs=home / "logs",
            signals=signals,
            broker_answers=lambda: broker.is_broker_ready(paths.broker_socket(home)),
            readiness=lambda: readiness.query_readiness(port),
            on_ready=lambda: print_line(print_banner(home, port)),
        ).run()
