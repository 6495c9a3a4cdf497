"""The order in which movable tasks are tried."""

from __future__ import annotations

import pytest

from scheduling.engine.model import Instant
from scheduling.engine.model.options import ConsolidationOptions
from tests.unit.scheduling.engine.actions.test_consolidate import moved, nodes, run, waits
from tests.unit.scheduling.engine.actions.worlds import act, running_world
from tests.unit.scheduling.engine.builders import NOW, quotas


@pytest.mark.parametrize(("cheapest", "expected"), [(True, {"old": "n1"}), (False, {"new": "n0"})])
def test_the_cheapest_or_the_newest(cheapest: bool, expected: dict[str, str]) -> None:
    # The job that was submitted last has run for longest: moving it costs most.
    old = run("old", 2, 1, running_since=Instant(NOW - 10))
    new = run("new", 2, 2, running_since=Instant(NOW - 1_000))
    snapshot = running_world(nodes(4, 4), {"old": ["n0"], "new": ["n1"]}, [old, new, waits(3)])
    options = ConsolidationOptions(cheapest_first=cheapest, max_loss_s=None)
    result = act(snapshot, "consolidate", consolidation=options)
    assert moved(result) == {f"{name}/worker/0": place for name, place in expected.items()}


def test_where_the_cheapest_find_no_place_those_with_the_fewest_cards_do() -> None:
    # What began last fills its nodes and fits nowhere else; two cards on the others would.
    large = [run(f"large{n:02}", 4, running_since=Instant(NOW - 1)) for n in range(33)]
    small = [run(f"small{n}", 1, running_since=Instant(NOW - 900)) for n in range(4)]
    where = {entry.id: [f"n{index}"] for index, entry in enumerate([*large, *small])}
    jobs = [*large, *small, waits(4, 2)]
    snapshot = running_world(nodes(*[4] * 37), where, jobs, teams={"a": quotas(200)})
    options = ConsolidationOptions(max_loss_s=None, jobs_per_move=2)
    result = act(snapshot, "consolidate", consolidation=options)
    assert len(moved(result)) == 2
    assert all(task.startswith("small") for task in moved(result))


@pytest.mark.parametrize(("loss_s", "helped"), [(0, False), (600, True)])
def test_for_one_that_borrows_no_job_need_move(loss_s: int, helped: bool) -> None:
    movers = [run(name, 2, running_since=Instant(NOW - 5)) for name in ("old", "new")]
    teams = {"a": quotas(4), "b": quotas(4)}
    where = {"old": ["n0"], "new": ["n1"]}
    snapshot = running_world(nodes(4, 4), where, [*movers, waits(3)], teams=teams)
    options = ConsolidationOptions(max_loss_s=loss_s)
    result = act(snapshot, "consolidate", consolidation=options)
    assert bool(moved(result)) is helped
