"""Fault points: places where a test can make this very process die.

`faults.point("cycle.before_commit")` does nothing unless `ALLOTMENT_FAULTS` names a folder that holds
a file of that name. Whoever removes the file dies by SIGKILL on the spot, so each planted fault kills
exactly one process, at exactly that line.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Final

_FOLDER: Final = os.environ.get("ALLOTMENT_FAULTS", "")


def point(name: str) -> None:
    """Die here if a test has planted the fault `name`."""
    if not _FOLDER:
        return
    try:
        (Path(_FOLDER) / name).unlink()
    except FileNotFoundError:
        return
    os.kill(os.getpid(), signal.SIGKILL)
