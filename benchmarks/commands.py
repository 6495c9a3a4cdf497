"""`allotment bench commands`: processor time of a whole `allotment` command on an empty installation.

Each command runs several times in its own process; the minimum counts, because other load affects it least.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from typing import Final

from benchmarks.support.report import FigureRow, Report, read_limits

COMMANDS: Final = ("--help", "cluster list", "job list --workspace none", "quota export", "cycle-dump --help")


def run() -> Report:
    """Measure the start of some commands."""
    bounds, begun = read_limits("commands"), time.monotonic()
    with tempfile.TemporaryDirectory() as home:
        environment = {"PATH": os.environ["PATH"], "ALLOTMENT_HOME": home}
        seconds_of_command("migrate --no-input", environment)
        rows = [
            FigureRow(
                f"allotment {command}, s",
                min(seconds_of_command(command, environment) for _ in range(bounds["times"])),
                bounds["cpu_s"],
            )
            for command in COMMANDS
        ]
    seconds = time.monotonic() - begun
    size = {"commands": len(rows), "times": bounds["times"]}
    return Report(name="commands", size=size, rows=rows, seconds=seconds, rate=len(rows) / seconds)


def seconds_of_command(command: str, environment: Mapping[str, str]) -> float:
    """Return user and system seconds of one run; its output and exit status are ignored."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    arguments = [sys.executable, "-m", "allotment.cli", *command.split()]
    subprocess.run(arguments, env=dict(environment), capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
