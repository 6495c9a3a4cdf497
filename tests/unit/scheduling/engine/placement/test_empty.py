"""Empty cards, counted once for all shapes of whole ones and updated while the fleet changes."""

from __future__ import annotations

from dataclasses import replace

from scheduling.engine import Delta, NodePut
from scheduling.engine.placement.filters.empty_cards import empty_card_counter
from tests.unit.scheduling.engine.builders import role
from tests.unit.scheduling.engine.preemption.placed_jobs import board_of, on, site


def test_shapes_of_whole_cards_share_one_count() -> None:
    snapshot = site([4, 4], {"a": 8}, [])
    one, two = (board_of(snapshot, role(1, cards)).question for cards in (1, 2))
    assert empty_card_counter(one) is empty_card_counter(two)


def test_counts_follow_tasks_and_broken_cards() -> None:
    snapshot = site([2, 2], {"a": 4}, [on("j", "a", "n0:0@10", "n1:0")])
    counts = empty_card_counter(board_of(snapshot, role(1, 1)).question)
    assert counts.count_by_row().tolist() == [1, 1]
    with snapshot.statement() as statement:
        statement.release("j/worker/0")
        assert counts.count_by_row().tolist() == [2, 1]
    assert counts.count_by_row().tolist() == [1, 1]
    second = snapshot.fleet.export_node(1)
    broken = (second.devices[0], replace(second.devices[1], healthy=False))
    snapshot.apply_delta(Delta((NodePut(replace(second, devices=broken)),)))
    assert counts.count_by_row().tolist() == [1, 0]
