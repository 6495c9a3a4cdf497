"""A temporary PostgreSQL server, started on a socket in a new folder."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import quote

import psycopg

OWNER: Final = "postgres"
_START_S: Final = 30


class MissingProgram(RuntimeError):
    """A program that has to be installed: its `name`, and a `hint` for the installation."""

    def __init__(self, name: str, hint: str) -> None:
        super().__init__(f"{name} is missing; to get it: {hint}")
        self.name, self.hint = name, hint


@dataclass(frozen=True, kw_only=True)
class PostgresServer:
    """A running server whose superuser `postgres` connects over the socket without a password."""

    socket_folder: Path
    process: subprocess.Popen[bytes] = field(repr=False)

    def database_url(self, database: str = "postgres", user: str = OWNER) -> str:
        """Return the address of one database for Django, Celery and psycopg."""
        return f"postgres://{user}@{quote(str(self.socket_folder), safe='')}:5432/{database}"

    def connect_database(self, database: str = "postgres", user: str = OWNER) -> psycopg.Connection:
        """Return a new connection."""
        return psycopg.connect(
            host=str(self.socket_folder), user=user, dbname=database, autocommit=True, connect_timeout=5
        )


def find_programs() -> Path | None:
    """Return the folder with `initdb` and `postgres`: the newest of Debian's, else the one on the path."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda file: int(file.parts[4]))
    on_path = shutil.which("initdb")
    found = debian[-1] if debian else Path(on_path).resolve() if on_path else None
    return found.parent if found else None


@contextmanager
def running_postgres(settings: Mapping[str, str], folder: Path | None = None) -> Iterator[PostgresServer]:
    """Start a server with these settings; it ends with the block, and with this process.

    Its data are deleted, unless `folder` is given: then they are kept there, and found there again. Raises:
    MissingProgram; RuntimeError with the server's log when it does not start.
    """
    programs = find_programs()
    if programs is None:
        hint = "apt install postgresql (Debian, Ubuntu), or put initdb and postgres on the path"
        raise MissingProgram("PostgreSQL", hint)
    if shutil.which("setpriv") is None:
        raise MissingProgram("setpriv", "apt install util-linux")
    # A folder below one of ours would not be accessible to the user that the server runs as.
    home = folder or Path(tempfile.mkdtemp(prefix="allotment-pg-"))
    home.mkdir(parents=True, exist_ok=True)
    try:
        if os.getuid() == 0:
            user = _unprivileged_user()
            os.chown(home, user.pw_uid, user.pw_gid)
        server = _start(programs, home, settings)
        try:
            yield server
        finally:
            server.process.send_signal(signal.SIGINT)  # "fast": it does not wait for connected clients
            server.process.wait(60)
    finally:
        if folder is None:
            shutil.rmtree(home, ignore_errors=True)


def _as_owner(command: list[str]) -> list[str]:
    """Return the command for an unprivileged user if this process is root, which PostgreSQL refuses.

    The server ends with this process either way.
    """
    if os.getuid() != 0:
        return ["setpriv", "--pdeathsig", "QUIT", *command]
    user = _unprivileged_user()
    identity = [f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return ["setpriv", *identity, "--pdeathsig", "QUIT", *command]


def _unprivileged_user() -> pwd.struct_passwd:
    for name in (OWNER, "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise MissingProgram("a user to run PostgreSQL as", "run it as an ordinary user")


def _start(programs: Path, home: Path, settings: Mapping[str, str]) -> PostgresServer:
    data = home / "data"
    if not data.exists():
        _initialise(programs, data)
    always = {"listen_addresses": "", "unix_socket_directories": str(home), "max_connections": "200"}
    options = [part for name, value in {**always, **settings}.items() for part in ("-c", f"{name}={value}")]
    with (home / "server.log").open("wb") as log:
        process = subprocess.Popen(
            _as_owner([str(programs / "postgres"), "-D", str(data), *options]),
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
        )  # fmt: skip
    server = PostgresServer(socket_folder=home, process=process)
    deadline = time.monotonic() + _START_S
    while not _answers(server):
        if process.poll() is not None or time.monotonic() > deadline:
            process.kill()
            log_text = (home / "server.log").read_text(encoding="utf-8")
            raise RuntimeError(f"PostgreSQL does not answer:\n{log_text}")
        time.sleep(0.05)
    return server


def _initialise(programs: Path, data: Path) -> None:
    subprocess.run(
        _as_owner([
            str(programs / "initdb"), "--pgdata", str(data), "--username", OWNER, "--auth", "trust",
            "--encoding", "UTF8", "--locale", "C.UTF-8", "--no-sync",
        ]),
        check=True, capture_output=True, cwd="/",
    )  # fmt: skip


def _answers(server: PostgresServer) -> bool:
    try:
        server.connect_database().close()
    except psycopg.OperationalError:
        return False
    return True
