"""Ports for servers that tests and benchmarks start, which nobody takes before the server listens."""

from __future__ import annotations

import random
import socket
from typing import Final

_PORTS: Final = range(20_000, 32_000)
"""Below those that systems give to outgoing connections and to who asks for any: Linux from 32768 on."""
_reserved: Final[list[socket.socket]] = []


def free_port() -> int:
    """Return a port of the loopback address that nobody listens on.

    Until this process ends no other call returns it, here or in other processes: each keeps the UDP port of
    the same number, which the system releases whichever way a process ends. Raises: RuntimeError when none
    of two hundred is free.
    """
    for port in random.SystemRandom().sample(_PORTS, 200):  # tests seed the usual generator
        if reserve_port(port):
            return port
    raise RuntimeError(f"no port from {_PORTS.start} to {_PORTS.stop - 1} was found free")


def reserve_port(port: int) -> bool:
    """Keep a port for this process, and return whether nobody had it."""
    beside = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    if _bind(beside, port):
        _reserved.append(beside)
        with socket.socket() as listener:
            return _bind(listener, port)
    beside.close()
    return False


def _bind(opened: socket.socket, port: int) -> bool:
    """Bind a socket to a port, and return whether nobody else had it."""
    try:
        opened.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
