"""A saved cycle of a running cell, judged like a random world."""

from __future__ import annotations

import json

from scheduling.engine import Snapshot
from scheduling.engine_input.saved_cycle import FORMAT
from tests.truth.report import Tally, judged
from tests.truth.settle import Run


def run_saved(text: str) -> Run:
    """The saved cycle, and what follows from it until nothing moves: only then is all that is told of one
    and the same moment.

    Raises: ValueError, for a text that is no saved cycle; Unsettled.
    """
    content = json.loads(text)
    if content.get("format") != FORMAT:
        raise ValueError(f"this is not a saved cycle ({FORMAT})")
    run = Run(Snapshot.from_json(json.dumps(content["snapshot"])), now=float(content["now"]))
    run.settle()
    return run


def judge_saved(text: str) -> Tally:
    """What the waiting jobs of a saved cycle are told."""
    tally = Tally(worlds=1)
    for found in judged(run_saved(text), tally):
        tally.examples.setdefault(found.kind, ("saved", 0, found.text))
    return tally
