"""`make truth`: checks many random worlds in several processes, or a saved cycle of a running cell.

python -m tests.truth [--worlds 5000] [--jobs 2] [--first 0]
python -m tests.truth --saved cycle.json
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.truth.known import KNOWN
from tests.truth.report import KINDS, Tally, check_seeds, smallest
from tests.truth.saved import check_saved

PIECE = 25


def main() -> int:
    """Check, print the table and the smallest example of each kind of fault; return 1 if there is one."""
    parser = argparse.ArgumentParser(prog="python -m tests.truth", description=__doc__)
    parser.add_argument("--worlds", type=int, default=5_000, help="how many worlds (5000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--smallest", action="store_true", help="shrink an example of each falsehood")
    parser.add_argument("--saved", type=Path, help="check the cycle in this file (cycle_dump)")
    given = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "allotment.settings.test")
    tally = check_saved(given.saved.read_text()) if given.saved else _check(given)
    print(tally.table())
    for kind, (world, seed, text) in sorted(tally.examples.items()):
        known = " (known)" if kind in KNOWN else ""
        print(f"\n{kind[0]} under {kind[1]}: {tally.false[kind]}{known}; world {world} {seed}\n  {text}")
        if given.smallest and not given.saved:
            print(smallest(world, seed, kind))
    return int(any(kind not in KNOWN for kind in tally.false))


def _check(given: argparse.Namespace) -> Tally:
    kinds, each = KINDS, -(-given.worlds // len(KINDS))
    pieces = [
        (kind, range(first, min(first + PIECE, given.first + each)))
        for first in range(given.first, given.first + each, PIECE)
        for kind in kinds
    ]
    total = Tally()
    with ProcessPoolExecutor(given.jobs) as pool:
        names, seeds = zip(*pieces, strict=True)
        for done, tally in enumerate(pool.map(check_seeds, names, seeds, timeout=None), 1):
            total.add(tally)
            print(f"\r{done} of {len(pieces)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return total


if __name__ == "__main__":
    sys.exit(main())
