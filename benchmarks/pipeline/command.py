"""The command `bench pipeline`, and its workloads."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Final

from benchmarks.pipeline import kueue_baseline, plain
from benchmarks.support.report import Report, print_report

_PLAIN: Final = "plain"
_KUEUE: Final = "kueue-baseline"


def run() -> Report:
    """Run the plain workload, which is part of `make bench`."""
    return plain.run()


def main(arguments: Sequence[str]) -> int:
    """Run `allotment bench pipeline`; see `--help`."""
    parser = argparse.ArgumentParser(prog="allotment bench pipeline", description=__doc__)
    parser.add_argument("--shape", choices=[_PLAIN, _KUEUE], default=_PLAIN)
    parser.add_argument(
        "--share", type=float, default=1.0, help=f"of the jobs of {_KUEUE}, for a quick try: 0.1"
    )
    parser.add_argument("--json", metavar="FILE")
    options = parser.parse_args(arguments)
    shapes: dict[str, Callable[[], Report]] = {
        _PLAIN: plain.run,
        _KUEUE: lambda: kueue_baseline.run(options.share),
    }
    return print_report(shapes[options.shape](), options.json)
