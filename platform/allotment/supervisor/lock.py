"""One supervisor per home. The kernel releases the lock with the process, so a stale lock cannot exist."""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from allotment.supervisor.errors import StartError


@dataclass(frozen=True, kw_only=True)
class Holder:
    """The process that runs in a home, as the lock file names it."""

    pid: int
    port: int


class HomeLock:
    """An exclusive lock on a home folder, held until `release_lock` or until the process ends."""

    def __init__(self, file: Path, stream: IO[str]) -> None:
        self.file = file
        self._stream = stream

    @classmethod
    def acquire_lock(cls, home: Path, port: int) -> Self:
        """Lock `home`. Raises: `StartError`, which names the process that holds the lock."""
        file = home / "supervisor.lock"
        # Not truncated on opening: the text belongs to the process that holds the lock.
        stream = os.fdopen(os.open(file, os.O_RDWR | os.O_CREAT, 0o600), "r+", encoding="utf-8")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = read_holder(stream.read())
            stream.close()
            raise StartError(_taken(home, holder)) from error
        lock = cls(file, stream)
        lock._write(Holder(pid=os.getpid(), port=port))
        return lock

    def _write(self, holder: Holder) -> None:
        self._stream.seek(0)
        self._stream.truncate()
        json.dump({"pid": holder.pid, "port": holder.port}, self._stream)
        self._stream.flush()

    def release_lock(self) -> None:
        """Empty the file and release the lock. The file stays: its removal would allow two holders."""
        self._stream.seek(0)
        self._stream.truncate()
        self._stream.close()


def read_holder(text: str) -> Holder | None:
    """Return the holder written in a lock file; None if the file is empty or half-written."""
    try:
        content = json.loads(text)
        return Holder(pid=int(content["pid"]), port=int(content["port"]))
    except (ValueError, KeyError, TypeError):
        return None


def _taken(home: Path, holder: Holder | None) -> str:
    who = f"process {holder.pid} on http://127.0.0.1:{holder.port}" if holder else "another process"
    return f"already running in {home}: {who}; stop it, or choose another folder with ALLOTMENT_HOME="
