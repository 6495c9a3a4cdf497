"""This module decides whether whole-card gangs could run together on equal, empty nodes."""

from __future__ import annotations

from collections.abc import Iterable


def can_pack_gangs(gangs: Iterable[int], nodes: int, cards_per_node: int) -> bool:
    """Return whether the gangs fit, packed largest first: more cards than a node has take whole nodes, others
    share one node.

    `gangs` are numbers of cards. A gang on one node goes to the node with the least room that holds it.
    Largest first with best fit is exact if every size divides the next larger one, as powers of two do, and
    otherwise may refuse what is possible.
    """
    room = [0] * cards_per_node + [nodes]  # room[f] = nodes with f cards free
    for cards in sorted(gangs, reverse=True):
        if cards > cards_per_node:
            whole = -(-cards // cards_per_node)
            if room[cards_per_node] < whole:
                return False
            room[cards_per_node] -= whole
            continue
        free = cards
        while not room[free]:
            if free == cards_per_node:
                return False
            free += 1
        room[free] -= 1
        room[free - cards] += 1
    return True
