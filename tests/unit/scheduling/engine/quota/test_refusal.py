"""Figures of a refusal that are computed when they are read."""

from __future__ import annotations

from scheduling.engine.model import Help, HelpCode, Reason
from scheduling.engine.quota.assignment import Refusal

WAY = Help(HelpCode.ASK_FEWER_CARDS, {"cards": 2})


def later(computed: list[Refusal]) -> Refusal:
    """Return a refusal that knows its role, and appends to `computed` when other figures are computed."""

    def compute() -> Refusal:
        computed.append(Refusal(Reason.NO_ROOM, {"role": "worker", "free_cards": 3}, (WAY,)))
        return computed[-1]

    return Refusal.defer_numbers(Reason.NO_ROOM, {"role": "worker"}, compute)


def test_what_is_known_needs_no_look_and_everything_else_needs_one() -> None:
    computed: list[Refusal] = []
    refusal = later(computed)
    assert (refusal.reason, refusal.known_numbers, computed) == (Reason.NO_ROOM, {"role": "worker"}, [])
    assert refusal.numbers == {"role": "worker", "free_cards": 3}
    assert refusal.help == (WAY,)
    assert len(computed) == 1


def test_own_figures_override_those_that_are_computed_later() -> None:
    computed: list[Refusal] = []
    own = later(computed).with_numbers(role="chief", asked=4)
    assert (own.known_numbers, computed) == ({"role": "chief", "asked": 4}, [])
    assert own == Refusal(Reason.NO_ROOM, {"role": "chief", "free_cards": 3, "asked": 4}, (WAY,))
    assert len(computed) == 1


def test_own_figures_lie_over_those_that_are_known() -> None:
    found = Refusal(Reason.NO_ROOM, {"role": "worker", "asked": 2}, (WAY,)).with_numbers(asked=4)
    assert found == Refusal(Reason.NO_ROOM, {"role": "worker", "asked": 4}, (WAY,))
