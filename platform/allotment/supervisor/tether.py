"""Becomes another program, tied to the parent: `python -m allotment.supervisor.tether PARENT_PID PROGRAM …`.

The tie is made here, after fork and before exec, and not in a `preexec_fn`, which may deadlock if the parent
has threads. It survives the exec.
"""

from __future__ import annotations

import os
import signal
import sys

from allotment.processes.kill_on_parent_exit import die_with_parent


def main(arguments: list[str]) -> None:
    """Tie this process to the parent whose pid comes first, then run the program in the other arguments."""
    parent, *program = arguments
    die_with_parent(int(parent))
    # Python ignores these two signals, and an ignored signal stays ignored across exec.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    try:
        os.execvp(program[0], program)  # noqa: S606 - the purpose of this module
    except OSError as error:
        sys.stderr.write(f"{program[0]}: {error.strerror}\n")
        raise SystemExit(127) from error


if __name__ == "__main__":
    main(sys.argv[1:])
