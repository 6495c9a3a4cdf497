"""Snapshots of earlier versions: fields that no longer exist are ignored if they have no effect."""

from __future__ import annotations

from dataclasses import fields

import pytest

from scheduling.engine import CodecError, decode, encode, model
from scheduling.engine.model import Flavor, Job, Node
from scheduling.engine.state.codec import RETIRED
from tests.unit.scheduling.engine.builders import flavor, job, node


def test_a_flavor_with_empty_retired_fields_is_read() -> None:
    saved = {**encode(flavor()), "counted": False, "apart": False}
    assert decode(Flavor, saved) == flavor()


def test_a_job_with_empty_retired_fields_is_read_in_all_its_parts() -> None:
    saved = encode(job("j"))
    saved |= {"unplaced": False, "lost_nodes": []}
    saved["roles"][0]["request"]["footprint"] = None
    assert decode(Job, saved) == job("j")


def test_a_node_without_numa_alignment_is_read_and_one_with_it_refused() -> None:
    saved = {**encode(node("n0")), "numa_policy": "none"}
    assert decode(Node, saved) == node("n0")
    with pytest.raises(CodecError, match="Node has no field 'numa_policy'"):
        decode(Node, {**saved, "numa_policy": "restricted"})


def test_a_retired_field_that_says_something_is_refused() -> None:
    with pytest.raises(CodecError, match="Flavor has no field 'counted'"):
        decode(Flavor, {**encode(flavor()), "counted": True})


@pytest.mark.parametrize("kind", RETIRED)
def test_no_retired_field_is_in_use(kind: str) -> None:
    assert not RETIRED[kind].intersection(field.name for field in fields(getattr(model, kind)))
