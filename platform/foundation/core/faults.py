"""Fault points: places where a test can make this very process die, or fall asleep.

`faults.fault_point("cycle.before_commit")` does nothing unless `ALLOTMENT_FAULTS` names a folder that holds
a file of that name. Whoever removes the file gets SIGKILL on the spot, or SIGSTOP where the file says
`stop`, so each planted fault meets exactly one process, at exactly that line.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

_FOLDER: Final = os.environ.get("ALLOTMENT_FAULTS", "")


def fault_point(name: str) -> None:
    """Meet the fault `name` here, if a test has planted it."""
    if not _FOLDER:
        return
    planted = Path(_FOLDER) / name
    try:
        asleep = planted.read_text(encoding="utf-8") == "stop"
        planted.unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGSTOP if asleep else signal.SIGKILL)
