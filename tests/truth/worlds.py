"""The random worlds by kind and seed."""

from __future__ import annotations

from random import Random

from tests.truth.draw import Draw, World
from tests.truth.mixed import Mixed

KINDS = ("lowered", "calm", "large", "mixed")


def world_of(seed: int, kind: str) -> World:
    """The world of a seed. `lowered`: quotas are lowered under load; `calm`: they are not; `large`: few nodes
    with very many cards, and mostly jobs that were evicted before; `mixed`: see `tests.truth.mixed`."""
    draw = Mixed if kind == "mixed" else Draw
    return draw(Random(f"{kind}/{seed}"), kind).world()


__all__ = ["KINDS", "World", "world_of"]
