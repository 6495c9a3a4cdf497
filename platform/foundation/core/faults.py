"""Fault points: places where a test can kill or stop the process that reaches them.

`faults.fault_point("cycle.before_commit")` does nothing unless `ALLOTMENT_FAULTS` names a folder that holds
a file of that name. The process that removes the file gets SIGKILL at once, or SIGSTOP if the file contains
`stop`, so each planted fault hits exactly one process, at exactly that line.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

_FOLDER: Final = os.environ.get("ALLOTMENT_FAULTS", "")


def fault_point(name: str) -> None:
    """Trigger the fault `name` here, if a test has planted it."""
    if not _FOLDER:
        return
    planted = Path(_FOLDER) / name
    try:
        asleep = planted.read_text(encoding="utf-8") == "stop"
        planted.unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGSTOP if asleep else signal.SIGKILL)
