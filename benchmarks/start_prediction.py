"""`allotment bench start-prediction`: expected starts on the published trace, from history only.

The trace is replayed under `quota`; five minutes after a job began to wait, its start is predicted. October
was used to choose parameters, November was held out. Needs the traces, as `replay` does.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.support.report import FigureRow, Report, print_report, read_limits
from scheduling.prediction.forecast import ForecastOptions
from scheduling.simulation.philly import compress_jobs, read_jobs, read_tenants
from scheduling.simulation.start_predictions import AskedStart, replay_predictions

_OCTOBER_S: Final = 31 * 86_400


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark with its options; return the exit status."""
    parser = argparse.ArgumentParser(prog="allotment bench start-prediction", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON; - for standard output")
    parser.add_argument(
        "--every", type=int, default=1, metavar="N", help="ask at every Nth of the possible times (default 1)"
    )
    parser.add_argument(
        "--futures", type=int, default=16, metavar="N", help="futures per question (default 16)"
    )
    parser.add_argument("--compress", type=float, default=1.0, metavar="X", help="speed up arrivals by X")
    options = parser.parse_args(arguments)
    report = run(every=options.every, futures=options.futures, compress=options.compress)
    return print_report(report, options.json)


def run(*, every: int, futures: int, compress: float) -> Report:
    """Replay the trace once. Raises: InputError without the traces."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("ALLOTMENT_SHARED") or beside) / "traces" / "philly"
    tenants = read_tenants(folder / "vcs.csv")
    jobs = compress_jobs(read_jobs(folder / "jobs.csv", tenants), compress)
    numbers, begun = count(1), time.perf_counter()
    with ProcessPoolExecutor(min(os.cpu_count() or 1, 2)) as executor:
        asked = replay_predictions(
            jobs,
            tenants,
            policy="quota",
            options=ForecastOptions(futures=futures),
            executor=executor,
            asks=lambda at: next(numbers) % every == 0,
        )
    seconds, month = time.perf_counter() - begun, _OCTOBER_S / compress
    rows = [
        *_rows("whole trace", asked),
        *_rows("October", [one for one in asked if one.waiting_since < month]),
        *_rows("November, held out", [one for one in asked if one.waiting_since >= month]),
    ]
    return Report(
        name="start-prediction",
        size={"jobs": len(jobs), "predictions": len(asked), "futures": futures},
        rows=rows,
        seconds=seconds,
        rate=len(asked) / seconds,
    )


def _rows(part: str, asked: Sequence[AskedStart]) -> Iterator[FigureRow]:
    if not asked:
        return
    limits = read_limits("start-prediction")
    missed = [not one.reported.contains_start(one.seconds) for one in asked]
    likely = [one.reported.contains_likely(one.seconds) for one in asked]
    widths = [one.reported.width_s for one in asked]
    waits = [one.wait_s for one in asked]
    yield FigureRow(f"{part}, predicted waits over 5 min", len(asked))
    yield FigureRow(
        f"{part}, starts outside the 90 % range, %", 100 * sum(missed) / len(asked), limits["outside_percent"]
    )
    yield FigureRow(f"{part}, starts within the 90 % range, %", 100 - 100 * sum(missed) / len(asked))
    yield FigureRow(f"{part}, starts within the 50 % range, %", 100 * sum(likely) / len(asked))
    yield FigureRow(f"{part}, median width of the 90 % range, s", median(widths))
    yield FigureRow(f"{part}, median wait, s", median(waits))
    yield FigureRow(f"{part}, width / wait", median(widths) / median(waits), limits["width_per_wait"])
