"""No text of an accepted size ends a process, or occupies it for long.

`TEXTS` kinds of hostile YAML, JSON and CSV, spread over all there are; `ALLOTMENT_FUZZ=all` reads every one,
`ALLOTMENT_FUZZ=5000` that many.
"""

from __future__ import annotations

import os
import sys
from itertools import pairwise
from pathlib import Path
from typing import Final

import pytest

from tests.fixtures.programs import run_to_end
from tests.fuzz.hostile import kinds

TEXTS: Final = 160
_PARTS: Final = 2
LONGEST_S: Final = 1.0
"""Processor time for all the readers there are, one after the other."""
_TRIES: Final = 3
"""A text that is slow is read again: what else the machine does costs processor time, too."""
_ROOT: Final = Path(__file__).parents[2]


def test_there_are_ten_thousand_kinds() -> None:
    assert sum(1 for _ in kinds()) > 10_000


@pytest.mark.parametrize("part", range(_PARTS))
def test_no_text_ends_a_process_or_holds_it_for_long(part: int) -> None:
    asked = os.environ.get("ALLOTMENT_FUZZ", str(TEXTS))
    total = sum(1 for _ in kinds())
    count = total if asked == "all" else min(int(asked), total)
    step = total // count
    # Sizes and ways alternate fastest, so a step that shares a factor with them would leave some out.
    while count < total and any(step % factor == 0 for factor in (2, 3, 13)):
        step -= 1
    seconds = read_texts(part * step, 4 * step, -(-count // 4))
    assert len(seconds) > 10
    slow = {text for text, taken in seconds.items() if taken > LONGEST_S}
    for _ in range(_TRIES - 1):
        slow = {text for text in slow if read_texts(int(text.split()[1]), 1, 1)[text] > LONGEST_S}
    assert not slow


def read_texts(first: int, step: int, count: int) -> dict[str, float]:
    """The processor seconds of each text, by the line that names it; read in a process of its own."""
    command = [sys.executable, "-m", "tests.fuzz.reading", *map(str, (first, step, count))]
    run = run_to_end(command, cwd=_ROOT, capture_output=True, text=True, check=False, within_s=3600)
    lines = run.stdout.splitlines()
    assert run.returncode == 0, f"{lines[-1:]}: {run.stderr[-2000:]}"
    pairs = pairwise(lines)
    return {before: float(line.split()[1]) for before, line in pairs if line.startswith("end")}
