"""Which cards of a node a part of a card comes from."""

from __future__ import annotations

import pytest

from scheduling.engine.placement.scores.devices import DEVICE_PICKERS, CardPicker
from scheduling.engine.state.task_shape import TaskShape

LEFT, MEMORY = (50, 100, 50, 30), (10, 80, 40, 10)


@pytest.mark.parametrize(
    ("picker", "cards", "expected"),
    [("best-fit", 1, (3,)), ("best-fit", 2, (0, 3)), ("spread", 1, (1,)), ("spread", 3, (0, 1, 2))],
)
def test_by_what_is_left(picker: str, cards: int, expected: tuple[int, ...]) -> None:
    found = next(known for known in DEVICE_PICKERS if known.name == picker)
    assert isinstance(found, CardPicker)
    task = TaskShape(flavor="a", policy="compact", cards=cards, cores=20)
    assert found.choose_among(task, [0, 1, 2, 3], LEFT, MEMORY) == expected


@pytest.mark.parametrize("picker", DEVICE_PICKERS, ids=lambda picker: picker.name)
def test_whole_cards_are_all_alike(picker: CardPicker) -> None:
    task = TaskShape(flavor="a", policy="compact", cards=2, cores=100, whole=True)
    assert picker.choose_among(task, [1, 2, 3], LEFT, MEMORY) == (1, 2)
