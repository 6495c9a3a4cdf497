"""A claimed place that another task still occupies: both are recorded, and undone exactly."""

from __future__ import annotations

from itertools import permutations

import pytest

from scheduling.engine.model import Allocation, DeviceSlice
from tests.unit.scheduling.engine.builders import CARD_MIB, node, world

WHOLE = DeviceSlice("n1-gpu0", 100, CARD_MIB, exclusive=True)
PART = DeviceSlice("n1-gpu0", 30, 1_000, exclusive=False)


@pytest.mark.parametrize("held", list(permutations((WHOLE, WHOLE, PART))))
def test_a_card_is_exclusive_as_long_as_a_task_has_all_of_it(held: tuple[DeviceSlice, ...]) -> None:
    snapshot = world([node("n1", 1)])
    texts = [snapshot.to_json()]
    with snapshot.statement() as statement:
        marks = []
        for index, part in enumerate(held):
            marks.append(statement.checkpoint())
            statement.allocate(
                Allocation(
                    job="j", queue="a", role="r", index=index, flavor="a100", node="n1", slices=(part,)
                )
            )
            texts.append(snapshot.to_json())
            exclusive = snapshot.export_nodes()[0].devices[0].exclusive
            assert exclusive == any(one.exclusive for one in held[: index + 1])
        for index, mark in reversed(list(enumerate(marks))):
            statement.rollback(mark)
            assert snapshot.to_json() == texts[index]
