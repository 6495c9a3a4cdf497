"""The capacity of an empty flavor, updated while nodes change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from scheduling.engine import Delta, NodePut, Snapshot
from scheduling.engine.builtin import resolve_config
from scheduling.engine.model import GpuRequest, Job, Request
from scheduling.engine.placement.capacity import count_when_empty
from scheduling.engine.session.config import EngineConfig
from scheduling.engine.state.task_shape import resolve_shape
from tests.unit.scheduling.engine.builders import job, node, role, world

RULE = resolve_config(EngineConfig()).rule
PLAIN = {"disk": "ssd"}


def asking(rules: Mapping[str, str]) -> Job:
    found = job("new", "a", role(1, 2))
    return replace(found, rules=replace(found.rules, node_selector=dict(rules)))


def most(snapshot: Snapshot, asked: Job) -> int:
    flavor, request = snapshot.flavors["a100"], Request(cpu=1_000, gpu=GpuRequest(cards=2))
    return count_when_empty(snapshot.fleet, RULE, resolve_shape(request, asked.rules, flavor), flavor)


@pytest.mark.parametrize(
    ("changed", "loose", "bound"),
    [
        ({}, 6, 2),
        ({"labels": PLAIN}, 6, 4),
        ({"schedulable": False}, 6, 2),
        ({"ready": False}, 6, 2),
        ({"cpu": 500}, 4, 2),
    ],
)
def test_it_equals_a_new_count(changed: Mapping[str, Any], loose: int, bound: int) -> None:
    nodes = [node("n0", labels=PLAIN), node("n1"), node("n2")]
    snapshot, free, picky = world(nodes), asking({}), asking(PLAIN)
    assert (most(snapshot, free), most(snapshot, picky)) == (6, 2)
    snapshot.apply_delta(Delta((NodePut(replace(nodes[1], **changed)),)))
    assert (most(snapshot, free), most(snapshot, picky)) == (loose, bound)
    fresh = world([nodes[0], replace(nodes[1], **changed), nodes[2]])
    assert (most(fresh, free), most(fresh, picky)) == (loose, bound)
