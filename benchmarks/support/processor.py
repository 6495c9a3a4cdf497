"""Processor time of processes, read from the kernel (Linux); unlike the clock, it does not depend on other
load.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")


def seconds_of(pids: Iterable[int]) -> float:
    """Return the seconds that these processes have used; an ended process counts 0."""
    return sum(_of(pid)[1] for pid in pids)


def child_processes(parent: int) -> list[int]:
    """Return the running child processes of a process, oldest first."""
    pids = (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal())
    return sorted(pid for pid in pids if _of(pid)[0] == parent)


def seconds_of_family(parent: int) -> float:
    """Return the seconds that a process and its children have used, ended ones included."""
    found = (_of(int(folder.name)) for folder in Path("/proc").iterdir() if folder.name.isdecimal())
    return _of(parent)[2] + sum(own for above, own, _ in found if above == parent)


def _of(pid: int) -> tuple[int, float, float]:
    """Return the parent of a process, the seconds it used, and those including the ended children."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0, 0.0, 0.0
    fields = text.rpartition(")")[2].split()  # the name in the fields before may contain spaces
    used, waited = (sum(int(word) for word in fields[at : at + 2]) * _TICK_S for at in (11, 13))
    return int(fields[1]), used, used + waited
