"""Checks a saved cycle of a running cell like a random world."""

from __future__ import annotations

import json

from scheduling.engine import Snapshot
from scheduling.engine_input.saved_cycle import FORMAT
from tests.truth.report import Tally, false_outcomes
from tests.truth.settle import Run


def run_saved(text: str) -> Run:
    """Run the saved cycle and further ones until nothing changes: only then are all outcomes of the
    same moment.

    Raises: ValueError, for a text that is no saved cycle; Unsettled.
    """
    content = json.loads(text)
    if content.get("format") != FORMAT:
        raise ValueError(f"this is not a saved cycle ({FORMAT})")
    run = Run(Snapshot.from_json(json.dumps(content["snapshot"])), now=float(content["now"]))
    run.settle()
    return run


def check_saved(text: str) -> Tally:
    """Check the outcomes of the pending jobs of a saved cycle."""
    tally = Tally(worlds=1)
    for found in false_outcomes(run_saved(text), tally):
        tally.examples.setdefault(found.kind, ("saved", 0, found.text))
    return tally
