"""Cycles place the pods of a packing run as the run does, however many of them arrive at once.

Policies that learn are left out: a cycle learns from the jobs that it has, a run from its whole list.
"""

from __future__ import annotations

from random import Random

import pytest

from scheduling.engine import WorkloadShape
from scheduling.engine.model import Device, GpuMode, GpuRequest, Node, Request
from scheduling.simulation.cell import pack_in_cycles
from scheduling.simulation.openb import CARD, TracePod
from scheduling.simulation.pack import run_pack

SIZES = (0, 150, 250, 300, 500, 700, 810, 1000, 2000, 4000)


def node(name: str, cards: int, model: str) -> Node:
    devices = tuple(
        Device(uuid=f"{name}/{at}", index=at, model=model, mode=GpuMode.SLICE, cores=CARD)
        for at in range(cards)
    )
    return Node(id=name, cpu=12_000 * max(cards, 2), memory=1 << 18, devices=devices)


def pod(name: str, milli: int, cpu: int, models: tuple[str, ...]) -> TracePod:
    cards = -(-milli // CARD)
    gpu = None
    if 0 < milli < CARD:
        gpu = GpuRequest(cards=1, mode=GpuMode.SLICE, cores=milli, memory=0, models=models)
    elif milli:
        gpu = GpuRequest(cards=cards, models=models)
    shape = WorkloadShape(cpu, min(milli, CARD), cards, "|".join(models))
    return TracePod(name, Request(cpu=cpu, memory=2_000, gpu=gpu), shape)


NODES = [node(f"n{at:02}", (0, 2, 4, 8)[at % 4], "AB"[at % 2]) for at in range(16)]
PODS = [
    pod(f"p{milli}-{cpu}-{'.'.join(models)}", milli, cpu, models)
    for milli in SIZES
    for cpu in (1_000, 6_000)
    for models in ((), ("A",))
    if milli or not models
]


@pytest.mark.parametrize("group", [25, 300])
@pytest.mark.parametrize("policy", ["bestfit", "packing", "clustering", "dotprod"])
def test_pod_by_pod(policy: str, group: int) -> None:
    order = Random(7).choices(range(len(PODS)), k=300)
    packed = run_pack(NODES, PODS, order, policy=policy, seed=7).packed
    places = pack_in_cycles(NODES, PODS, order, policy=policy, group=group).places
    assert any(entry.node == "" for entry in packed)
    assert list(places) == [(entry.node, entry.devices) if entry.node else None for entry in packed]
