"""The shortest prefix of ordered victims that suffices, with few placement checks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from scheduling.engine.preemption.trials.collect import collect_victims
from scheduling.engine.preemption.trials.context import PreemptionContext, Victim, VictimSearchBudget


class Gone:
    """The removed candidates, by number; the job fits once the first `enough` are removed."""

    def __init__(self, quota: int, room: int, *, cheap: bool, budget: int = 1_000) -> None:
        self.gone: set[int] = set()
        self.quota, self.room, self.checks_placement_cheaply = quota, room, cheap
        self.search_budget = VictimSearchBudget(budget)
        self.trial = self
        self.looks = 0

    def restore_removal(self, number: int) -> None:
        self.gone.remove(number)

    def remove_again(self, number: int) -> None:
        assert number not in self.gone
        self.gone.add(number)

    def restore_all(self) -> None:
        self.gone.clear()

    def quota_fits(self, *, borrow: bool) -> bool:
        assert borrow is True
        return set(range(self.quota)) <= self.gone

    def placement_fits(self) -> bool:
        self.looks += 1
        return set(range(self.room)) <= self.gone

    def preemptor_fits(self, *, borrow: bool) -> bool:
        return self.quota_fits(borrow=borrow) and self.placement_fits()

    def victims(self, first: int, count: int) -> list[Victim]:
        """Victims of different jobs, each removed when it is asked for."""
        return [cast("Victim", self.victim(number, f"j{number}")) for number in range(first, count)]

    def victim(self, number: int, job: str, *, whole: bool = True) -> object:
        return SimpleNamespace(
            removal=number, candidate=SimpleNamespace(whole=whole, job=SimpleNamespace(id=job))
        )

    def take(self, victims: list[Victim]) -> list[Victim] | None:
        def one_by_one() -> object:
            for victim in victims:
                self.remove_again(cast("int", victim.removal))
                yield victim

        return collect_victims(cast("PreemptionContext", self), one_by_one(), borrow=True)  # type: ignore[arg-type]


@pytest.mark.parametrize("cheap", [True, False])
@pytest.mark.parametrize("quota", [1, 3, 8])
@pytest.mark.parametrize("room", range(14))
def test_no_more_are_taken_than_are_needed(cheap: bool, quota: int, room: int) -> None:
    field = Gone(quota, room, cheap=cheap)
    taken = field.take(field.victims(0, 16))
    needed = max(quota, room)
    assert taken is not None
    assert [victim.removal for victim in taken] == list(range(needed))
    assert field.gone == set(range(needed))
    assert not field.search_budget.exhausted


@pytest.mark.parametrize(("room", "looks"), [(1, 1), (2, 3), (3, 3), (4, 5), (8, 7), (16, 9), (30, 9)])
def test_places_are_looked_at_after_one_two_four_and_then_by_halving(room: int, looks: int) -> None:
    field = Gone(1, room, cheap=False)
    taken = field.take(field.victims(0, 40))
    assert taken is not None and len(taken) == room
    assert field.looks == looks


@pytest.mark.parametrize("cheap", [True, False])
def test_where_all_together_do_not_suffice_none_is_taken(cheap: bool) -> None:
    field = Gone(2, 9, cheap=cheap)
    assert field.take(field.victims(0, 8)) is None
    assert field.gone == set()


@pytest.mark.parametrize("cheap", [True, False])
@pytest.mark.parametrize(("budget", "found"), [(0, False), (4, False), (5, True), (50, True)])
def test_the_budget_bounds_the_victims(cheap: bool, budget: int, found: bool) -> None:
    field = Gone(5, 5, cheap=cheap, budget=budget)
    assert (field.take(field.victims(0, 5)) is not None) is found
    assert field.search_budget.exhausted is not found
    assert found or field.gone == set()
