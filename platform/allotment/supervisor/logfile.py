"""Log files that cannot fill the disk.

Each child appends to its own file directly, without a pipe through the supervisor: a busy supervisor cannot
block a child, and the last lines before a crash are on disk. The supervisor keeps each file below its limit
by copying and truncating it, which does not affect an append-only writer.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

CAP_BYTES: Final = 10 * 2**20


def open_for_append(file: Path) -> int:
    """Return a descriptor that always writes at the present end of the file; the caller closes it."""
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def rotate_log(file: Path, cap_bytes: int = CAP_BYTES) -> bool:
    """Move the content of a file over its limit to `<name>.1`, replacing an older one; return whether it did.

    A line written between the copy and the truncation is lost, because the writer does not cooperate.
    """
    try:
        if file.stat().st_size <= cap_bytes:
            return False
        shutil.copyfile(file, file.with_name(file.name + ".1"))
        os.truncate(file, 0)
    except FileNotFoundError:
        return False
    return True


def read_last_lines(file: Path, lines: int = 15, at_most_bytes: int = 16_384) -> list[str]:
    """Return the last lines of a log; empty without a log."""
    try:
        with file.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - at_most_bytes))
            return stream.read().decode("utf-8", "replace").splitlines()[-lines:]
    except OSError:
        return []
