"""The oracle uses no code of the engine, and finds false reports."""

from __future__ import annotations

import ast
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from scheduling.engine.model import Help, HelpCode, JobOutcome, Reason
from scheduling.engine_input.saved_cycle import dump_cycle
from tests.fixtures.programs import run_to_end
from tests.truth.known import KNOWN
from tests.truth.offers import take
from tests.truth.oracle.verdict import find_faults
from tests.truth.report import Tally, found_in
from tests.truth.saved import check_saved
from tests.truth.settle import Run, run_of
from tests.truth.shrink import shrunk, text_of
from tests.truth.worlds import KINDS, World, world_of

HERE = Path(__file__).parent
DATA, REASON_ROWS = "scheduling.engine.model", "foundation.core.reason_rows"
# The type of a key of quota, with its packages, and the names of resources and reasons; they decide nothing.
KEY_TYPE = (
    *("foundation", "foundation.core", "foundation.core.flavor_resource"),
    *("foundation.core.quantities", "foundation.core.reason_row", "foundation.core.reasons"),
)


def _imported(file: Path) -> set[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.add(str(node.module))
    return found


def test_the_oracle_imports_nothing_but_plain_data() -> None:
    for file in sorted((HERE / "oracle").glob("*.py")):
        for name in _imported(file):
            own = name.startswith("tests.truth.oracle") or name == DATA
            assert own or name.partition(".")[0] in sys.stdlib_module_names, (file.name, name)


def test_the_oracle_loads_no_code_of_the_engine() -> None:
    code = (
        "import sys, tests.truth.oracle.verdict; "
        "print(*sorted(n for n in sys.modules if n.startswith(('scheduling.', 'quotas', 'foundation'))))"
    )
    run = run_to_end(
        [sys.executable, "-c", code], cwd=HERE.parents[1], capture_output=True, text=True, within_s=60
    )
    assert run.returncode == 0, run.stderr
    loaded = {n for n in run.stdout.split() if not n.startswith((DATA, REASON_ROWS))}
    assert loaded == {"scheduling.engine", *KEY_TYPE}


@pytest.fixture(scope="module")
def runs() -> list[Run]:
    return [run_of(world_of(seed, kind)) for kind in KINDS for seed in range(4)]


def _true_outcomes(runs: list[Run]) -> list[tuple[Run, JobOutcome]]:
    return [
        (run, outcome) for run in runs for outcome in run.waiting() if not find_faults(run.cell(), outcome)
    ]


def test_any_other_reason_is_found_false(runs: list[Run]) -> None:
    lasting = (Reason.NEVER_FITS, Reason.EXCEEDS_MAX_QUOTA, Reason.BACKOFF, Reason.QUEUE_STOPPED)
    checked = 0
    for run, outcome in _true_outcomes(runs):
        for reason in lasting:
            if reason is not outcome.reason:
                checked += 1
                faults = find_faults(run.cell(), outcome._replace(reason=reason))
                assert [fault.part for fault in faults] == ["reason"], (outcome, reason)
    assert checked > 100


@pytest.mark.parametrize("name", ["asked", "limit", "available", "free_cards", "position", "used", "nominal"])
def test_a_number_that_is_one_too_much_is_found_false(runs: list[Run], name: str) -> None:
    ordered = [
        (r, o)
        for r, o in _true_outcomes(runs)
        if not r.snapshot.queues[r.snapshot.jobs[o.job].queue].user_shares
    ]
    changed = 0
    for run, outcome in ordered:
        if isinstance(outcome.numbers.get(name), int):
            numbers = {**outcome.numbers, name: int(outcome.numbers[name]) + 1}
            assert find_faults(run.cell(), outcome._replace(numbers=numbers)), (outcome, name)
            changed += 1
    assert changed


def test_a_recommendation_that_does_nothing_is_found_false(runs: list[Run]) -> None:
    wrong = {
        Reason.WAITING_FOR_QUOTA: Help(HelpCode.RAISE_QUOTA, {"short": 0}),
        Reason.NO_ROOM: Help(HelpCode.WAIT_UNTIL, {"at": 0}),
    }
    checked = 0
    for run, outcome in _true_outcomes(runs):
        offer = wrong.get(outcome.reason) if outcome.reason else None
        if offer is not None:
            where = {"queue": run.snapshot.jobs[outcome.job].queue, **outcome.numbers, **offer.numbers}
            taken = take(run, run.cell(), outcome, replace(offer, numbers=where))
            checked += taken.holds is False
            assert taken.holds in (False, None) or taken.starts
    assert checked


def test_a_saved_cycle_is_checked(runs: list[Run]) -> None:
    for run in runs[:3]:
        tally = check_saved(dump_cycle(run.snapshot, run.now))
        assert sum(tally.reasons.values()) == len(run.waiting())
        assert set(tally.false) <= KNOWN


def test_a_world_shrinks_to_what_shows_the_fault() -> None:
    world = world_of(0, "calm")

    def shows(other: World) -> bool:
        return any(job.id == "j00" for wave in other.waves for job in wave)

    small = shrunk(world, shows)
    assert [job.id for wave in small.waves for job in wave] == ["j00"]
    assert not small.nodes
    scope: dict[str, object] = {}
    exec("from scheduling.engine.model import *\nfrom tests.truth.worlds import World", scope)
    assert eval(text_of(small), scope) == small
    assert found_in(small, Tally()) is not None
