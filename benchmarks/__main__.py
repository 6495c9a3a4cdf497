"""`make bench`: every benchmark that needs no arguments, one after the other. With a name, only that one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from benchmarks import (
    agent_overhead,
    api,
    commands,
    engine_cycle,
    interactive,
    kube,
    lists,
    packing,
    packing_quality,
    pipeline,
    replay,
    start_prediction,
    telemetry,
    usage,
)
from benchmarks.support.postgres import MissingProgram
from benchmarks.support.report import run_command
from scheduling.simulation.errors import InputError

BENCHMARKS: Final[dict[str, Callable[[Sequence[str]], int]]] = {
    "agent-overhead": partial(run_command, "agent-overhead", agent_overhead.run),
    "api": api.main,
    "commands": partial(run_command, "commands", commands.run),
    "engine-cycle": partial(run_command, "engine-cycle", engine_cycle.run),
    "interactive": interactive.main,
    "kube": kube.main,
    "lists": lists.main,
    "packing": packing.main,
    "packing-quality": packing_quality.main,
    "pipeline": pipeline.main,
    "replay": partial(run_command, "replay", replay.run),
    "start-prediction": start_prediction.main,
    "telemetry": partial(run_command, "telemetry", telemetry.run),
    "usage": partial(run_command, "usage", usage.run),
}
"""The command of each benchmark: takes its options, prints its table, returns the exit status."""

EVERY_TIME: Final = ("agent-overhead", "commands", "engine-cycle", "packing", "pipeline", "replay")
"""The benchmarks of `make bench`; the others take an hour or need a control plane, and run by name."""

USAGE_ERROR: Final = 2


def main(arguments: Sequence[str]) -> int:
    """Run the named benchmark with its options, or those of `EVERY_TIME`; 1 if any is over its limit."""
    if not arguments:
        return max(BENCHMARKS[name]([]) for name in EVERY_TIME)
    name, *options = arguments
    if name in {"-h", "--help"}:
        sys.stdout.write(
            f"usage: allotment bench NAME [options]\n\nNAME is one of {', '.join(BENCHMARKS)}.\n"
        )
        return 0
    if name not in BENCHMARKS:
        sys.stderr.write(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}\n")
        return USAGE_ERROR
    try:
        return BENCHMARKS[name](options)
    except (InputError, MissingProgram) as error:
        sys.stderr.write(f"bench {name}: {error}\n")
        return USAGE_ERROR


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
