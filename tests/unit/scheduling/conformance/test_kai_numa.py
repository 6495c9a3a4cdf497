"""The nodes that admit a task by their NUMA policy, and the zones that it gets there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scheduling.conformance.errors import Skipped
from scheduling.conformance.kai.numa import NumaPolicy, add_usage, with_numa, with_zones
from scheduling.engine import EngineConfig, TaskPlacement, resolve_config
from scheduling.engine.model import Allocation, Extended, Node, PlacementRules, QosClass, Request
from scheduling.engine.placement.explain import count_refused_nodes
from scheduling.engine.placement.placer import Placer
from scheduling.engine.state.fleet import Fleet
from scheduling.engine.state.task_shape import resolve_shape
from tests.unit.scheduling.engine.builders import flavor, node

NONE, BEST, RESTRICTED, SINGLE = NumaPolicy


def numa_node(*zones: tuple[int, int], **facts: Any) -> Node:
    """A node with zones as (cores, cores in use)."""
    listed = [
        {
            "id": f"node-{number}",
            "allocatable": {"cpu": size * 1_000},
            "available": {"cpu": (size - used) * 1_000},
        }
        for number, (size, used) in enumerate(zones)
    ]
    return with_zones(node("n1"), {"resources": ["cpu"], "zones": listed, **facts})


def placed(
    candidate: Node, policy: NumaPolicy, cores: int, qos: QosClass = QosClass.GUARANTEED
) -> TaskPlacement | None:
    """The placement of a task; checked against the count of refusals."""
    config = EngineConfig(devices="aligned", plugins=with_numa({candidate.id: policy}, "best-fit"))
    rule = resolve_config(replace(config, vetoes=(*config.vetoes, "numa"))).rule
    pool, placer = flavor(), Placer(Fleet([candidate]), rule)
    task = resolve_shape(Request(cpu=cores * 1_000, qos=qos), PlacementRules(), pool)
    refusals = count_refused_nodes(placer.get_board(task, pool))
    found = placer.find_placement(task, pool)
    assert refusals == ({} if found else {"refused.numa": 1})
    return found


@pytest.mark.parametrize(
    ("policy", "zones", "cores", "expected"),
    [
        (SINGLE, [(4, 0), (4, 0)], 3, {0: 3}),
        (SINGLE, [(4, 2), (4, 0)], 3, {1: 3}),
        (SINGLE, [(4, 0), (4, 0)], 6, None),
        (SINGLE, [(4, 2), (4, 2)], 3, None),
        (RESTRICTED, [(4, 0), (4, 0)], 6, {0: 4, 1: 2}),
        (RESTRICTED, [(4, 0), (4, 0)], 3, {0: 3}),
        # The idle node would need one zone only, and none has that much left.
        (RESTRICTED, [(4, 2), (4, 2)], 3, None),
        (RESTRICTED, [(4, 0), (4, 0), (4, 0)], 7, {0: 4, 1: 3}),
        (RESTRICTED, [(4, 2), (4, 0), (4, 0)], 7, {1: 4, 2: 3}),
        (RESTRICTED, [(4, 2), (4, 2), (4, 0)], 7, None),
        (RESTRICTED, [(4, 0), (4, 0)], 9, None),
        (BEST, [(4, 2), (4, 2)], 3, {0: 2, 1: 1}),
        (BEST, [(4, 2), (4, 0)], 3, {1: 3}),
        (BEST, [(4, 3), (4, 3)], 3, {}),
        (NONE, [(4, 4), (4, 4)], 3, {}),
    ],
)
def test_policies(
    policy: NumaPolicy, zones: list[tuple[int, int]], cores: int, expected: dict[int, int] | None
) -> None:
    found = placed(numa_node(*zones), policy, cores)
    wanted = None if expected is None else [Extended(f"numa-{n}", c * 1_000) for n, c in expected.items()]
    assert (None if found is None else list(found.extended)) == wanted


@pytest.mark.parametrize("qos", [QosClass.BURSTABLE, QosClass.BEST_EFFORT])
def test_only_guaranteed_tasks_are_aligned(qos: QosClass) -> None:
    found = placed(numa_node((4, 0), (4, 0)), SINGLE, 6, qos)
    assert found is not None and found.extended == ()


def test_usage_of_tasks_is_added_and_removed() -> None:
    bare = numa_node((4, 1), (4, 0))
    held = Allocation(
        job="j", queue="a", role="w", index=0, flavor="a100", node="n1",
        extended=(Extended("numa-1", 3_000), Extended("nic", 1)),
    )  # fmt: skip
    busy = add_usage(bare, [held])
    assert busy.used_extended == (Extended("numa-0", 1_000), Extended("numa-1", 3_000))
    assert add_usage(busy, [held], -1) == bare
    assert add_usage(bare, [held], -1) == bare


def test_other_resources_than_cpus_are_skipped() -> None:
    with pytest.raises(Skipped, match="other resources than CPUs"):
        numa_node((4, 0), resources=["cpu", "memory"])
