"""A port that a test is given is its own until a server listens on it."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from benchmarks.support.ports import free_port, reserve_port

ROOT = Path(__file__).resolve().parents[2]
_OTHER = """
from benchmarks.support.ports import free_port, reserve_port
print(reserve_port(int(input())), free_port(), flush=True)
input()
"""


def test_a_port_belongs_to_the_process_that_asked_until_it_ends_whichever_way() -> None:
    mine = free_port()
    other = subprocess.Popen(
        [sys.executable, "-c", _OTHER], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with other:
        assert other.stdin is not None and other.stdout is not None
        other.stdin.write(f"{mine}\n")
        other.stdin.flush()
        reserved, theirs = other.stdout.readline().split()
        assert reserved == "False"
        assert not reserve_port(int(theirs))
        other.kill()
    assert reserve_port(int(theirs))


def test_a_port_with_a_listener_is_not_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not reserve_port(server.getsockname()[1])


def test_no_outgoing_connection_is_given_a_port_of_a_server_to_come() -> None:
    """Ports of `free_port` are below the range from which the system chooses."""
    ports = {free_port() for _ in range(50)}
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert len(ports) == 50 and max(ports) < 32_768 <= server.getsockname()[1]


def test_ports_are_only_read_from_servers_that_listen() -> None:
    """A port that is read from a socket and then closed may be taken before a server listens on it."""
    for folder in ("tests", "benchmarks"):
        for file in (ROOT / folder).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            if ".bind(" in text and "getsockname" in text:
                assert ".listen(" in text, file
