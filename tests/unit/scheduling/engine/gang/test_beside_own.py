"""Of equally good nodes a task goes to the one with tasks of its own queue."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import EngineConfig, NoRoomOptions, Snapshot, run_cycle
from tests.unit.scheduling.engine.actions.worlds import live, running_world
from tests.unit.scheduling.engine.builders import NOW, job, node, quotas, role


def shared(where: Mapping[str, str]) -> Snapshot:
    """Return nodes of eight cards with running jobs of one card; the first letter of a job is its queue's
    name. One job of queue `a` is pending."""
    running = [live(job(name, name[0], role(1, 1))) for name in where]
    return running_world(
        [node(f"n{number}", 8) for number in range(4)],
        {name: [at] for name, at in where.items()},
        [*running, job("a-new", "a", role(1, 1))],
        teams={"a": quotas(16), "b": quotas(16)},
    )


def placed(snapshot: Snapshot, **room: bool) -> str:
    """Return the node on which the pending job starts."""
    result = run_cycle(snapshot, EngineConfig(no_room=NoRoomOptions(**room)), NOW)
    return next(task.node for made in result.decisions for task in made.allocations)


def test_of_equally_full_nodes_it_is_that_of_its_own_queue() -> None:
    assert placed(shared({"b1": "n0", "a1": "n1", "b2": "n2"})) == "n1"


def test_off_it_is_the_first() -> None:
    assert placed(shared({"b1": "n0", "a1": "n1", "b2": "n2"}), prefer_own_nodes=False) == "n0"


def test_a_fuller_node_goes_first_whichever_queue_uses_it() -> None:
    assert placed(shared({"a1": "n0", "b1": "n1", "b2": "n1"})) == "n1"


def test_the_larger_part_counts_not_the_number() -> None:
    assert placed(shared({"a1": "n0", "b1": "n0", "a2": "n1", "a3": "n1"})) == "n1"


@pytest.mark.parametrize("where", [{}, {"b1": "n1", "b2": "n2"}])
def test_where_its_own_queue_uses_no_node_it_is_the_first(where: dict[str, str]) -> None:
    assert placed(shared(where)) == (sorted(where.values()) or ["n0"])[0]


@settings(max_examples=20)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), max_size=8))
def test_tasks_are_counted_on_their_nodes(standing: list[tuple[str, int]]) -> None:
    where = {f"{name}{index}": f"n{row}" for index, (name, row) in enumerate(standing)}
    snapshot = shared(where)
    before = {
        (f"n{row}", name): snapshot.count_tasks_on(f"n{row}", name) for row in range(4) for name in "ab"
    }
    counted = {key: sum((at, job_id[0]) == key for job_id, at in where.items()) for key in before}
    run_cycle(snapshot, EngineConfig(), NOW)
    after = {key: snapshot.count_tasks_on(*key) for key in before}
    assert before == after == counted
