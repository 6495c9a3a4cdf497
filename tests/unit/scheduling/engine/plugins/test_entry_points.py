"""Plug-ins of other packages: an invalid plug-in is refused, and one that fails is named."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest

from scheduling.engine import (
    BUILTIN,
    Bools,
    Candidate,
    ConfigError,
    EngineConfig,
    Ints,
    PluginError,
    PluginSet,
    Question,
    Rows,
    with_entry_points,
)
from scheduling.engine.model import Extended
from tests.unit.scheduling.engine.builders import cycle, job, node, outcome, role, started, world

MODULE = "tests.unit.scheduling.engine.plugins.test_entry_points"


class Odd:
    """A veto and a score with a given answer."""

    fixed = normalised = True

    def __init__(self, name: str, answer: Any) -> None:
        self.name, self.answer = name, answer


class OddVeto(Odd):
    def allows(self, question: Question, rows: Rows) -> Bools:
        return self.answer(question, rows)  # type: ignore[no-any-return]


class OddScore(Odd):
    def score(self, question: Question, rows: Rows) -> Ints:
        return self.answer(question, rows)  # type: ignore[no-any-return]


class ForCards(OddVeto):
    def applies(self, question: Question) -> bool:
        return question.task.cards > 0


class Both(OddVeto, OddScore):
    """A veto and a score at once, which is not allowed."""


class OddOrder(Odd):
    def key(self, candidate: Candidate) -> Any:
        return self.answer(candidate)


class OddPicker(Odd):
    def pick(self, question: Question, row: int) -> tuple[int, ...]:
        return self.answer(question, row)  # type: ignore[no-any-return]


class OddResourcePicker(OddPicker):
    def pick_resources(self, question: Question, row: int) -> tuple[Extended, ...]:
        return (Extended("example.com/port", 1),)


class OddAction(Odd):
    def run(self, session: object) -> None:
        self.answer(session)


def empty(question: Question, rows: Rows) -> Bools:
    return np.zeros(len(question.nodes(rows)), np.bool_)


def fails(*_: object) -> Any:
    raise KeyError("disktype")


EMPTY = OddVeto("empty", empty)
TAKEN = OddVeto("cpu", empty)
CARDS_ONLY = ForCards("cards-only", empty)
BOTH = Both("both", empty)
NO_PLUGIN = object()
VETO_FAILS = OddVeto("odd", fails)
VETO_LISTS = OddVeto("odd", lambda question, rows: [True] * len(question.nodes(rows)))
VETO_SHORT = OddVeto("odd", lambda question, rows: np.array([True]))
VETO_COUNTS = OddVeto("odd", lambda question, rows: np.ones(len(question.nodes(rows)), np.int64))
SCORE_FAILS = OddScore("odd", fails)
SCORE_FRACTIONS = OddScore("odd", lambda question, rows: np.ones(len(question.nodes(rows))))
ORDER_FAILS = OddOrder("odd", fails)
PICKER_FAILS = OddPicker("odd", fails)
PICKER_DOUBLES = OddPicker("odd", lambda question, row: (0,) * question.task.cards)
PICKER_MISSES = OddPicker("odd", lambda question, row: (7, 8))
PICKER_OF_PORTS = OddResourcePicker("ports", lambda question, row: tuple(range(question.task.cards)))
ACTION_FAILS = OddAction("odd", fails)


def point(attribute: str, name: str = "mine") -> EntryPoint:
    return EntryPoint(name, f"{MODULE}:{attribute}", "allotment.engine")


def adding(*attributes: str) -> PluginSet:
    return with_entry_points(BUILTIN, [point(attribute) for attribute in attributes])


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        (["NO_PLUGIN"], r"entry point mine \(.*:NO_PLUGIN\) is no plug-in"),
        (["OddVeto"], "is the class of a plug-in; it must name an object"),
        (["BOTH"], "could stand among vetoes and scores"),
        (["MISSING"], "entry point mine .* cannot be loaded: AttributeError"),
        (["EMPTY", "EMPTY"], "entry point mine .* two plug-ins of kind veto are called empty"),
        (["TAKEN"], "entry point mine .* two plug-ins of kind veto are called cpu"),
    ],
)
def test_what_cannot_be_added_is_refused_by_the_name_of_its_entry_point(
    attributes: list[str], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        adding(*attributes)


def test_a_module_that_cannot_be_imported_is_refused() -> None:
    gone = EntryPoint("mine", "no_such_package:VETO", "allotment.engine")
    with pytest.raises(ConfigError, match=r"mine .* cannot be loaded: ModuleNotFoundError"):
        with_entry_points(BUILTIN, [gone])


def test_a_picker_that_also_allocates_resources_does_so_behind_its_guard() -> None:
    config = EngineConfig(devices="ports", plugins=adding("PICKER_OF_PORTS"))
    ports = node("n0", extended=(Extended("example.com/port", 3),))
    (decision,) = cycle(world([ports], [job("j", "a", role(1, 2))]), config).decisions
    assert [each.extended for each in decision.allocations] == [(Extended("example.com/port", 1),)]


VETOES = EngineConfig().vetoes


@pytest.mark.parametrize(
    ("plugin", "facts", "message"),
    [
        ("VETO_FAILS", {"vetoes": (*VETOES, "odd")}, "veto odd of mine .* raised KeyError: 'disktype'"),
        ("VETO_LISTS", {"vetoes": (*VETOES, "odd")}, r"veto odd of mine .* gave list .* \(2,\) of truth"),
        (
            "VETO_SHORT",
            {"vetoes": (*VETOES, "odd")},
            r"gave an array \(1,\) of bool instead of an array \(2,\)",
        ),
        ("VETO_COUNTS", {"vetoes": (*VETOES, "odd")}, "of int64 instead of an array .* of truth values"),
        ("SCORE_FAILS", {"policies": (("compact", (("odd", 1),)),)}, "score odd of mine .* raised KeyError"),
        (
            "SCORE_FRACTIONS",
            {"policies": (("compact", (("compact", 1), ("odd", 1))),)},
            "score odd .* of float64 instead of an array .* of whole numbers",
        ),
        ("ORDER_FAILS", {"orderings": (("fifo", ("odd",)),)}, "order odd of mine .* raised KeyError"),
        ("PICKER_FAILS", {"devices": "odd"}, "device picker odd of mine .* raised KeyError"),
        ("PICKER_DOUBLES", {"devices": "odd"}, r"device picker odd .* picked \(0, 0\) instead of 2 of"),
        ("PICKER_MISSES", {"devices": "odd"}, r"device picker odd .* picked \(7, 8\) instead of 2 of"),
        ("ACTION_FAILS", {"actions": ("odd",)}, "action odd of mine .* raised KeyError"),
    ],
)
def test_a_plugin_that_fails_in_a_cycle_is_named(plugin: str, facts: dict[str, Any], message: str) -> None:
    config = EngineConfig(plugins=adding(plugin), **facts)
    snapshot = world([node("n1"), node("n2")], [job("j", "a", role(1, 2)), job("k", "a", role(1, 2), at=1)])
    before = snapshot.to_json()
    with pytest.raises(PluginError, match=message):
        cycle(snapshot, config)
    assert snapshot.to_json() == before


def test_a_veto_for_some_shapes_leaves_the_others_alone() -> None:
    config = EngineConfig(plugins=adding("CARDS_ONLY"), vetoes=(*VETOES, "cards-only"))
    plain = job("plain", "a", role(1, 0, cpu=500))
    result = cycle(world([node("n1")], [job("cards"), plain]), config)
    assert started(result) == ["plain"]
    assert outcome(result, "cards").numbers["refused.cards-only"] == 1
