"""Ports for servers of tests and benchmarks, reserved until the server listens."""

from __future__ import annotations

import random
import socket
from typing import Final

_PORTS: Final = range(20_000, 32_000)
"""Below the ephemeral ports, which systems assign to outgoing connections and to port 0: Linux from 32768."""
_reserved: Final[list[socket.socket]] = []


def free_port() -> int:
    """Return a free port of the loopback address.

    No other call returns it until this process ends, in this or another process: each process holds the UDP
    port of the same number, which the system releases however the process ends. Raises: RuntimeError when
    none of two hundred is free.
    """
    for port in random.SystemRandom().sample(_PORTS, 200):  # tests seed the default generator
        if reserve_port(port):
            return port
    raise RuntimeError(f"no port from {_PORTS.start} to {_PORTS.stop - 1} was found free")


def reserve_port(port: int) -> bool:
    """Reserve a port for this process; return whether it was free."""
    beside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if _bind(beside, port):
        _reserved.append(beside)
        with socket.socket() as listener:
            return _bind(listener, port)
    beside.close()
    return False


def _bind(opened: socket.socket, port: int) -> bool:
    """Bind a socket to a port; return whether it was free."""
    try:
        opened.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
