"""Ends a process with its parent, even if the parent is killed with -9 (Linux only)."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from typing import Final

PR_SET_PDEATHSIG: Final = 1


def die_with_parent(expected_parent: int, signum: int = signal.SIGKILL) -> bool:
    """Ask the kernel to send `signum` to this process when its parent ends.

    The setting survives exec but not fork, and the kernel watches the parent's *thread*: create such a child
    from a thread that lives as long as the process. If the parent ended before the call, its pid differs, and
    this process ends at once. Return False if the kernel has no such call.
    """
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signum, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != expected_parent:
        os.kill(os.getpid(), signum)
    return True
