"""Plug-ins are named, found, configured and refused by name."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from scheduling.engine import ConfigError, EngineConfig
from scheduling.engine.builtin import BUILTIN, resolve_config
from scheduling.engine.model.registry import Registry
from scheduling.engine.placement.filters.vetoes import VETOES
from scheduling.engine.placement.index.question import Question
from scheduling.engine.plugins.discovery import with_entry_points
from scheduling.engine.state.fleet import Bools, Ints, Rows
from tests.unit.scheduling.engine.builders import cycle, job, node, outcome, queue, started, world


class NoFirstNode:
    """A veto of a third party."""

    name, fixed = "no-first-node", True

    def allows(self, question: Question, rows: Rows) -> Bools:
        return np.array([entry.id != "n1" for entry in question.fleet.nodes])[rows]


class LastName:
    """A score of a third party: the later the row, the better."""

    name, normalised = "last-name", True

    def score(self, question: Question, rows: Rows) -> Ints:
        return np.arange(len(question.fleet), dtype=np.int64)[rows]


def test_a_further_veto_refuses_under_its_own_name() -> None:
    plugins = replace(BUILTIN, vetoes=BUILTIN.vetoes.with_plugins(NoFirstNode()))
    config = EngineConfig(plugins=plugins, vetoes=(*(veto.name for veto in VETOES), "no-first-node"))
    result = cycle(world([node("n1"), node("n2")], [job("j")]), config)
    assert result.decisions[0].allocations[0].node == "n2"
    alone = cycle(world([node("n1")], [job("j")]), config)
    assert outcome(alone, "j").numbers["refused.no-first-node"] == 1


def test_a_further_score_joins_a_policy() -> None:
    plugins = replace(BUILTIN, scores=BUILTIN.scores.with_plugins(LastName()))
    policies = (("compact", (("compact", 1), ("last-name", 5))),)
    result = cycle(
        world([node("n1"), node("n2")], [job("j")]), EngineConfig(plugins=plugins, policies=policies)
    )
    assert result.decisions[0].allocations[0].node == "n2"


def test_plugins_of_other_packages_are_found_by_what_they_can_do() -> None:
    module = "tests.unit.scheduling.engine.plugins.test_registry"
    points = [
        EntryPoint("veto", f"{module}:VETO", "allotment.engine"),
        EntryPoint("score", f"{module}:SCORE", "allotment.engine"),
    ]
    plugins = with_entry_points(BUILTIN, points)
    assert "no-first-node" in plugins.vetoes
    assert "last-name" in plugins.scores
    with pytest.raises(ConfigError, match="no plug-in"):
        with_entry_points(BUILTIN, [EntryPoint("x", f"{module}:NOT_A_PLUGIN", "allotment.engine")])


VETO, SCORE, NOT_A_PLUGIN = NoFirstNode(), LastName(), object()


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (EngineConfig(actions=("allocate", "dance")), "no action called 'dance'; there are admit, allocate"),
        (EngineConfig(actions=("allocate", "allocate")), "named twice"),
        (EngineConfig(vetoes=("moon",)), "no veto called 'moon'"),
        (EngineConfig(policies=(("compact", ()),)), "at least one score"),
        (EngineConfig(policies=(("compact", (("compact", 0),)),)), "weight of 1 or more"),
        (EngineConfig(devices="dice"), "no device picker called 'dice'"),
        (EngineConfig(orderings=(("fifo", ("luck",)),)), "no order called 'luck'"),
        (EngineConfig(cycle_order=("luck",)), "no order called 'luck'"),
        (EngineConfig(heads_per_queue=0), "at least 1"),
    ],
)
def test_a_wrong_configuration_says_what_is_wrong(config: EngineConfig, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolve_config(config)


def test_a_queue_with_an_unknown_ordering_is_named() -> None:
    with pytest.raises(ConfigError, match="queue a has the ordering 'lifo'"):
        cycle(world([node("n1")], [job("j")], queues=[queue("a", ordering="lifo")]))


def test_one_name_means_one_plugin() -> None:
    with pytest.raises(ConfigError, match="two plug-ins"):
        Registry("veto", [NoFirstNode(), NoFirstNode()])
    assert started(cycle(world([node("n1")], [job("j")]))) == ["j"]
