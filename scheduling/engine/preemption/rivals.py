"""Where two queues meet in the quota tree, and which of its parts stand for them there."""

from __future__ import annotations

from itertools import pairwise

from quotas.tree import QuotaTree
from scheduling.engine.model import FlavorResource


def rivals(tree: QuotaTree[FlavorResource], leaf: str, other: str) -> tuple[str, str]:
    """The children, towards each of two leaves, of the lowest node above both."""
    above_mine = {above: below for below, above in pairwise(tree.path(leaf))}
    below = other
    for above in tree.path(other):
        if above in above_mine:
            return above_mine[above], below
        below = above
    raise AssertionError("queues of different trees do not compete")
