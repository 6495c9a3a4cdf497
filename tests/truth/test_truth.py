"""The outcomes of pending jobs are true in random cells: reasons, numbers, and the effect of recommendations.

The worlds are those of the first seeds. `make truth` checks thousands, and prints the smallest world of each
fault on request.
"""

from __future__ import annotations

import os
import sys

import pytest

from tests.fixtures.programs import run_to_end
from tests.truth.known import KNOWN
from tests.truth.report import KINDS, check_seeds, smallest

WORLDS = int(os.environ.get("ALLOTMENT_TRUTH_WORLDS", "300"))
PIECE = 10
# The number of recommendations of one kind to apply in each world: they are similar, and each takes cycles.
OFFERS = 2
PIECES = [
    pytest.param(kind, range(first, first + PIECE), id=f"{kind}-{first}")
    for kind in KINDS
    for first in range(0, -(-WORLDS // len(KINDS)), PIECE)
]


@pytest.mark.parametrize(("kind", "seeds"), PIECES)
def test_every_outcome_of_pending_jobs_is_true(kind: str, seeds: range) -> None:
    tally = check_seeds(kind, seeds, offers=OFFERS)
    assert tally.unsettled == 0
    unknown = {what: where for what, where in tally.examples.items() if what not in KNOWN}
    if unknown:
        what, (name, seed, text) = min(unknown.items())
        pytest.fail(f"{what} in {name} {seed}: {text}\n{smallest(name, seed, what)}", pytrace=False)


def test_the_command_checks_worlds_in_a_process_without_django_set_up() -> None:
    command = (sys.executable, "-m", "tests.truth", "--worlds", "4", "--jobs", "1")
    clean = {name: value for name, value in os.environ.items() if name != "DJANGO_SETTINGS_MODULE"}
    result = run_to_end(command, env=clean, capture_output=True, text=True, within_s=120, check=False)
    assert result.returncode == 0, result.stderr
    assert "RAISE_QUOTA" in result.stdout
