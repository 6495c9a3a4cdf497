"""Log files that cannot fill the disk.

Each child appends to its own file directly, with no pipe through the supervisor in between: a busy
supervisor cannot block a child, and the last words of a crash are on disk. The supervisor keeps each file
under its cap by copying it aside and cutting it, which an append-only writer does not notice.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

CAP_BYTES: Final = 10 * 2**20


def open_for_append(file: Path) -> int:
    """A descriptor that always writes at the end, wherever the end is by then; the caller closes it."""
    return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def rotate_log(file: Path, cap_bytes: int = CAP_BYTES) -> bool:
    """Moves the content of a file over its cap to `<name>.1`, replacing an older one; says whether it did.

    A line written between the copy and the cut is lost: the price of needing nothing from the writer.
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
    """The last lines of a log; empty when there is none."""
    try:
        with file.open("rb") as stream:
            stream.seek(0, os.SEEK_END)
            stream.seek(max(0, stream.tell() - at_most_bytes))
            return stream.read().decode("utf-8", "replace").splitlines()[-lines:]
    except OSError:
        return []
