"""The cards of a node from which a slice is taken."""

from __future__ import annotations

import pytest

from scheduling.engine.placement.scores.devices import BestFitDevices, CardPicker
from scheduling.engine.state.task_shape import TaskShape

LEFT, MEMORY = (50, 100, 50, 30), (10, 80, 40, 10)


@pytest.mark.parametrize(("cards", "expected"), [(1, (3,)), (2, (0, 3))])
def test_by_what_is_left(cards: int, expected: tuple[int, ...]) -> None:
    picker = BestFitDevices()
    assert isinstance(picker, CardPicker)
    task = TaskShape(flavor="a", policy="compact", cards=cards, cores=20)
    assert picker.choose_among(task, [0, 1, 2, 3], LEFT, MEMORY) == expected


def test_whole_cards_are_all_alike() -> None:
    task = TaskShape(flavor="a", policy="compact", cards=2, cores=100, whole=True)
    assert BestFitDevices().choose_among(task, [1, 2, 3], LEFT, MEMORY) == (1, 2)
