"""The random worlds by kind and seed."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.truth.draw import Draw, World
from tests.truth.mixed import Mixed

KINDS = ("lowered", "calm", "large", "mixed")


def world_of(seed: int, kind: str) -> World:
    """The world of a seed. `lowered`: quotas are lowered under load; `calm`: they are not; `large`: few nodes
    with very many cards, and mostly jobs that were evicted before; `mixed`: see `tests.truth.mixed`. In every
    fourth world preemption lost more than half of what it may."""
    draw = Mixed if kind == "mixed" else Draw
    world = draw(Random(f"{kind}/{seed}"), kind).world()
    return world if seed % 4 else replace(world, lost_ppm=Random(f"lost/{seed}").randint(5_000, 12_000))


__all__ = ["KINDS", "World", "world_of"]
