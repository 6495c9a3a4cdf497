"""This module reads one row of a fleet as plain numbers: for few rows that is faster than arrays."""

from __future__ import annotations

from collections.abc import Iterator

from scheduling.engine.model import Allocation
from scheduling.engine.placement.index.question import Question

# A number of tasks above that of any node.
UNBOUNDED = 2**31


class RowState:
    """The free amounts of one row as plain numbers, and the slots of one shape on it."""

    __slots__ = (
        "_columns",
        "_full",
        "_task",
        "_usable",
        "cores",
        "cpu",
        "holders",
        "memory",
        "of_cards",
        "pods",
        "sole",
    )

    def __init__(self, question: Question, row: int) -> None:
        fleet = question.fleet
        self._task, self._columns = question.task, fleet.columns[row]
        self._usable: list[bool] = question.usable[row].tolist()
        self._full: tuple[list[int], list[int]] = (
            fleet.card_cores[row].tolist(),
            fleet.card_memory[row].tolist(),
        )
        self.cpu, self.memory = int(fleet.cpu_free[row]), int(fleet.memory_free[row])
        self.pods = UNBOUNDED if fleet.pods is None else int(fleet.pods[row] - fleet.used_pods[row])
        self.cores: list[int] = fleet.cores_free[row].tolist()
        self.of_cards: list[int] = fleet.card_memory_free[row].tolist()
        self.holders: list[int] = fleet.holders[row].tolist()
        self.sole: list[int] = fleet.exclusive[row].tolist()

    def copy(self) -> RowState:
        """Return an independent copy of the row."""
        twin = object.__new__(RowState)
        twin._task, twin._columns = self._task, self._columns
        twin._usable, twin._full = self._usable, self._full
        twin.cpu, twin.memory, twin.pods = self.cpu, self.memory, self.pods
        twin.cores, twin.of_cards = list(self.cores), list(self.of_cards)
        twin.holders, twin.sole = list(self.holders), list(self.sole)
        return twin

    def apply_task(self, task: Allocation, sign: int) -> None:
        """Add the capacity of a task that ends (`sign` 1), or subtract that of one that is restored (-1)."""
        columns = self._columns
        self.cpu += sign * task.cpu
        self.memory += sign * task.memory
        self.pods += sign
        for part in task.slices:
            column = columns.get(part.device)
            if column is not None:
                self.cores[column] += sign * part.cores
                self.of_cards[column] += sign * part.memory
                self.holders[column] -= sign
                self.sole[column] -= sign * part.exclusive

    def count_slots(self) -> int:
        """Return how many tasks of the shape fit here together."""
        task = self._task
        found = self.pods
        if task.cpu:
            found = min(found, self.cpu // task.cpu)
        if task.memory:
            found = min(found, self.memory // task.memory)
        if task.cards and found > 0:
            cards = len(self.fitting_columns()) if task.whole else sum(self._parts_of_cards())
            found = min(found, cards // task.cards if task.whole else cards)
        return max(0, found)

    def fitting_columns(self) -> list[int]:
        """Return the columns of the cards on which a part of the shape fits, as `Question.fitting` where
        cores do not follow from memory."""
        if self._task.whole:
            cards = zip(self._usable, self.holders, self.cores, self.of_cards, *self._full, strict=True)
            return [
                column
                for column, (can, holders, cores, memory, all_cores, all_memory) in enumerate(cards)
                if can and not holders and cores == all_cores and memory == all_memory
            ]
        return [column for column, parts in enumerate(self._parts_of_cards()) if parts > 0]

    def _parts_of_cards(self) -> Iterator[int]:
        task = self._task
        for can, sole, cores, memory in zip(self._usable, self.sole, self.cores, self.of_cards, strict=True):
            if not can or sole > 0 or cores < task.cores:
                yield 0
                continue
            parts = cores // task.cores
            if task.card_memory:
                parts = min(parts, memory // task.card_memory)
            yield max(0, parts)
