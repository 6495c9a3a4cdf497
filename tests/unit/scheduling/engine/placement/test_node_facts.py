"""Facts derived from nodes follow changed nodes, and read each of the others once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from scheduling.engine.model import Node, Pressure, Taint, TaintEffect
from scheduling.engine.placement.index.node_facts import marked_rows
from scheduling.engine.placement.index.question import member_rows
from scheduling.engine.placement.index.relations import number_domains
from scheduling.engine.placement.index.taints import has_soft_taints, repelled_rows
from scheduling.engine.state.fleet import Fleet
from tests.unit.scheduling.engine.builders import flavor, node

BATCH = flavor("batch", node_labels={"pool": "batch"})
NODES = [node(f"n{number}", labels={"pool": "batch", "rack": f"r{number // 2}"}) for number in range(4)]
CHANGES: list[dict[str, Any]] = [
    {"labels": {"pool": "other", "rack": "r7"}},
    {"labels": {"pool": "batch"}},
    {"cluster": "elsewhere"},
    {"taints": (Taint("gpu", "yes", TaintEffect.NO_SCHEDULE),)},
    {"taints": (Taint("slow", "", TaintEffect.PREFER_NO_SCHEDULE),)},
    {"pressure": (Pressure.MEMORY,)},
]


def facts(fleet: Fleet) -> list[Any]:
    racks = number_domains(fleet, "rack")
    return [
        member_rows(fleet, BATCH).tolist(),
        repelled_rows(fleet, ()).tolist(),
        has_soft_taints(fleet),
        marked_rows(fleet, "pressed", lambda one: bool(one.pressure)).tolist(),
        # The numbers of domains may differ, but not which rows share one.
        (racks[:, None] == racks[None]).tolist(),
        (racks < 0).tolist(),
    ]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: next(iter(change)))
@pytest.mark.parametrize("row", [0, 3])
def test_a_changed_node_is_checked_again(change: dict[str, Any], row: int) -> None:
    fleet = Fleet(NODES)
    before = facts(fleet)
    changed = [replace(known, **change) if at == row else known for at, known in enumerate(NODES)]
    assert fleet.update_node(changed[row])
    assert facts(fleet) == facts(Fleet(changed)) != before
    assert fleet.update_node(NODES[row])
    assert facts(fleet) == before


def test_copies_go_their_own_way() -> None:
    fleet = Fleet(NODES)
    before = facts(fleet)
    twin = fleet.copy()
    assert twin.update_node(replace(NODES[1], cluster="elsewhere"))
    assert facts(twin) != before
    assert facts(fleet) == before


def test_only_changed_nodes_are_looked_at_again() -> None:
    fleet, looked = Fleet(NODES), list[str]()

    def is_marked(one: Node) -> bool:
        looked.append(one.id)
        return True

    assert np.array_equal(marked_rows(fleet, "fact", is_marked), np.ones(4, np.bool_))
    assert fleet.update_node(replace(NODES[2], cluster="elsewhere"))
    marked_rows(fleet, "fact", is_marked)
    assert looked == ["n0", "n1", "n2", "n3", "n2"]
