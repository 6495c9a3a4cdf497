"""The checks before anything is started; each error is one line that says what to do."""

from __future__ import annotations

import errno
import os
import platform
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from allotment.processes.private_home import make_home_private
from allotment.supervisor.errors import StartError

DEFAULT_PORT: Final = 8080
MINIMUM_PYTHON: Final = (3, 11)
MINIMUM_GLIBC: Final = (2, 28)
STILL_WORKS: Final = "the offline commands (allotment pack, allotment replay) still work here"


def check_python(version: tuple[int, ...] = sys.version_info[:3]) -> None:
    """Refuse a Python that is too old."""
    if version[:2] < MINIMUM_PYTHON:
        raise StartError(f"needs Python 3.11 or newer, this is {'.'.join(map(str, version))}")


def check_machine(
    system: str | None = None, machine: str | None = None, libc: tuple[str, str] | None = None
) -> None:
    """Refuse a machine for which the bundled broker is not built; it needs Linux x86-64, glibc 2.28."""
    system, machine = system or platform.system(), machine or platform.machine()
    if (system, machine) != ("Linux", "x86_64"):
        raise StartError(f"needs Linux on x86-64, this is {system} on {machine}; {STILL_WORKS}")
    name, version = libc or platform.libc_ver()
    if name != "glibc" or _numbers(version) < MINIMUM_GLIBC:
        found = f"{name} {version}".strip() or "another C library"
        raise StartError(f"needs glibc 2.28 or newer, this is {found}; {STILL_WORKS}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def read_port(environment: Mapping[str, str]) -> int:
    """Return the port of the console: `PORT`, else 8080."""
    value = environment.get("PORT", "").strip() or str(DEFAULT_PORT)
    if not value.isdecimal() or not 1 <= int(value) <= 65535:
        raise StartError(f"PORT is {value!r}; write a number from 1 to 65535")
    return int(value)


def check_port(port: int, host: str = "127.0.0.1") -> None:
    """Refuse a port on which the platform cannot listen."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        # As the web server does, so that a connection still in TIME_WAIT does not count as taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            problem = "is taken by another program" if taken else f"can't be used: {error.strerror}"
            raise StartError(f"port {port} {problem}; choose another one with PORT=") from error


def check_home(home: Path) -> None:
    """Create the home with its folders for its owner only; refuse a home that cannot be written."""
    try:
        make_home_private(home)
        for folder in (home, home / "logs", home / "run", home / "broker"):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=home, prefix=".writable-"):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise StartError(f"ALLOTMENT_HOME: {home} can't be written: {reason}") from error


def check_socket_folder(folder: Path) -> None:
    """Create the private folder of the broker's socket; refuse one that another user owns or may enter."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or folder.is_symlink():
        raise StartError(f"{folder} is not a private folder of this user; remove it and start again")
