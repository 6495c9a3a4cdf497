"""The process that calls NVML: a call that never returns blocks this process and not the agent.

It answers each line on its input with a line of JSON. Before each call it writes the device and the call into
shared memory, so that the agent knows which device hangs. It ends with its input.
"""

from __future__ import annotations

import json
import mmap
import signal
import sys
from functools import partial
from typing import Any

from telemetry.agent.nvml.calls import Calls, DriverReplaced
from telemetry.agent.nvml.progress import PROGRESS_BYTES, write_note
from telemetry.agent.nvml.session import NvmlMissing, NvmlSession


def main() -> None:
    """Serve polls. Arguments: the descriptor of the shared memory, and indexes of devices to skip."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal also signals the agent, which ends this one
    note, *skipped = (int(argument) for argument in sys.argv[1:])
    progress = mmap.mmap(note, PROGRESS_BYTES)

    calls = Calls(partial(write_note, progress))
    session: NvmlSession | None = None
    for _ in sys.stdin:
        try:
            session = session or NvmlSession(calls, frozenset(skipped))
            answer: dict[str, Any] = session.poll()
        except NvmlMissing as error:
            answer = {"problem": "nvml-missing", "text": str(error)}
        except DriverReplaced:
            answer = {
                "problem": "driver-mismatch",
                "text": "the driver and its library differ in version",
            }
        write_note(progress, "", "")
        sys.stdout.write(json.dumps(answer, separators=(",", ":")) + "\n")
        sys.stdout.flush()
        if "problem" in answer:
            return


if __name__ == "__main__":
    main()
