"""Processor time of processes, read from the kernel (Linux): what other programs on the machine do to the
clock, they do not do to it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")


def seconds_of(pids: Iterable[int]) -> float:
    """Seconds that these processes have used; one that has ended counts nothing."""
    return sum(_of(pid)[1] for pid in pids)


def child_processes(parent: int) -> list[int]:
    """The processes that a process has started and that still run, oldest first."""
    pids = (int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal())
    return sorted(pid for pid in pids if _of(pid)[0] == parent)


def seconds_of_family(parent: int) -> float:
    """Seconds that a process and its children have used, those that have ended included."""
    found = (_of(int(folder.name)) for folder in Path("/proc").iterdir() if folder.name.isdecimal())
    return _of(parent)[2] + sum(own for above, own, _ in found if above == parent)


def _of(pid: int) -> tuple[int, float, float]:
    """The parent of a process, the seconds it used, and those with the children it has waited for."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0, 0.0, 0.0
    fields = text.rpartition(")")[2].split()  # the name before may hold spaces
    used, waited = (sum(int(word) for word in fields[at : at + 2]) * _TICK_S for at in (11, 13))
    return int(fields[1]), used, used + waited
