"""Reads hostile texts in a process of its own, so that the test survives a crash.

Usage: reading.py FIRST STEP COUNT. A line `begin NUMBER NAME` before each text, `end SECONDS` after it.
"""

from __future__ import annotations

import os
import sys
import time

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "allotment.settings.test")
django.setup()

from foundation.core.bounded_parsing import ParseBounds, TextError, load_json  # noqa: E402 (needs the settings)
from foundation.core.errors import AllotmentError  # noqa: E402
from foundation.web.parsers import BODY_BOUNDS  # noqa: E402
from frontend.pages.submission.job_values import carry_changes, to_form  # noqa: E402
from quotas.files import FileFormat, read_rows  # noqa: E402
from scheduling.job_file import load_text, parse_job  # noqa: E402
from tests.fuzz.hostile import kinds  # noqa: E402

_BATCH = ParseBounds(size=2 * 2**20, nodes=100_000)


def _read(text: str) -> None:
    """Everything that reads a text from outside; what it says of it does not matter here."""
    for bounds in (BODY_BOUNDS, _BATCH):
        try:
            load_json(text, bounds)
        except TextError:
            continue
    for kind in FileFormat:
        try:
            read_rows(text, kind, "q")
        except AllotmentError:
            continue
    try:
        body = load_text(text)
        carry_changes(body, to_form(body))
        parse_job(body)
    except AllotmentError:
        return


def main(first: int, step: int, count: int) -> None:
    """Read every `step`th kind from the first on, `count` of them."""
    for kind in kinds():
        if kind.number < first or (kind.number - first) % step or (kind.number - first) // step >= count:
            continue
        text = kind.make()
        print(f"begin {kind.number} {kind.name}", flush=True)
        start = time.process_time()
        _read(text)
        print(f"end {time.process_time() - start:.3f}", flush=True)


if __name__ == "__main__":
    main(*(int(each) for each in sys.argv[1:]))
