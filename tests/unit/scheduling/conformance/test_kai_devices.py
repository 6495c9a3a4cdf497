"""KAI's choice of the emptiest cards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.conformance.kai.devices import SpreadDevices
from scheduling.engine import Question
from scheduling.engine.model import GpuMode
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.task_shape import TaskShape
from tests.unit.scheduling.engine.builders import flavor, node

LEFT, MEMORY = (50, 100, 50, 30), (10, 80, 40, 10)


@pytest.mark.parametrize(("cards", "expected"), [(1, (1,)), (2, (1, 2)), (3, (0, 1, 2))])
def test_the_emptiest_cards_come_first(cards: int, expected: tuple[int, ...]) -> None:
    bare = node("n1", 4, device={"mode": GpuMode.SLICE})
    devices = tuple(
        replace(card, memory=80, used_cores=100 - left, used_memory=80 - memory)
        for card, left, memory in zip(bare.devices, LEFT, MEMORY, strict=True)
    )
    task = TaskShape(flavor="a100", policy="compact", cards=cards, mode=GpuMode.SLICE, cores=20)
    question = Question(Fleet([replace(bare, devices=devices)]), task, flavor(mode=GpuMode.SLICE))
    assert SpreadDevices().pick(question, 0) == expected
