"""A gang that requires one domain never fits if no single domain could hold it."""

from __future__ import annotations

from scheduling.engine.model import HelpCode, JobOutcome, Reason, TopologyMode, TopologyRule
from tests.unit.scheduling.engine.actions.stage import Stage
from tests.unit.scheduling.engine.builders import job, node, role, world

ZONE = TopologyRule(level="zone", mode=TopologyMode.REQUIRED)


def gang_outcome(tasks: int, rule: TopologyRule) -> JobOutcome:
    """Return the outcome of a gang of tasks with four cards each; a zone fits two of them."""
    nodes = [node(f"n{number}", 4, labels={"zone": "ab"[number % 2]}) for number in range(4)]
    asked = job("gang", "a", role(tasks, 4), topology=rule)
    stage = Stage(world(nodes, [asked]))
    stage.cycle()
    return stage.outcome("gang")


def test_more_than_one_zone_could_ever_hold() -> None:
    found = gang_outcome(3, ZONE)
    assert found.reason is Reason.NEVER_FITS
    assert {name: found.numbers[name] for name in ("asked", "limit", "together", "level")} == {
        "asked": 3, "limit": 2, "together": 2, "level": "zone",
    }  # fmt: skip
    assert [way.numbers["tasks"] for way in found.help if way.code is HelpCode.ASK_FEWER_TASKS] == [2]


def test_as_much_as_one_zone_holds_starts() -> None:
    assert gang_outcome(2, ZONE).reason is None


def test_a_level_that_no_node_has_holds_nothing() -> None:
    rule = TopologyRule(level="rack", mode=TopologyMode.REQUIRED)
    assert gang_outcome(1, rule).reason is Reason.NEVER_FITS


def test_a_preferred_level_excludes_no_job() -> None:
    assert gang_outcome(3, TopologyRule(level="zone", mode=TopologyMode.PREFERRED)).reason is None
