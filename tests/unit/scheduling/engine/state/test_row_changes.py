"""The rows that changed since a position in a log that grows."""

from __future__ import annotations

import random

import pytest

from scheduling.engine.state.row_changes import FEW, RowChangeLog

ROWS = 40


@pytest.mark.parametrize("entries", [1, FEW, 3 * FEW])
def test_rows_are_reported_once_and_in_order_however_many_entries_there_are(entries: int) -> None:
    draw, log = random.Random(entries), list[int]()
    touches = RowChangeLog(log, ROWS)
    assert touches.rows_since(0).tolist() == []
    for _ in range(4):
        log.extend(draw.randrange(ROWS) for _ in range(entries))
        for seen in range(0, len(log) + 1, 7):
            assert touches.rows_since(seen).tolist() == sorted(set(log[seen:]))
    assert touches.rows_since(len(log)).tolist() == []


def test_readers_from_one_position_share_the_answer() -> None:
    log = [3, 1]
    touches = RowChangeLog(log, ROWS)
    first = touches.rows_since(0)
    assert touches.rows_since(0) is first
    log.append(2)
    assert touches.rows_since(0).tolist() == [1, 2, 3]
