"""This module holds the weights of the look-ahead packing policy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LookAheadWeights:
    """The weights of the policy, one set for all clusters.

    `card_choice` and `node_choice` are the queue lengths assumed in the two tables. A card is starved if its
    node has less CPU for it than `starved_cpu` times the average of all cards, and `starved_power` is the
    exponent of that shortage.
    """

    card_choice: float = 35.0
    node_choice: float = 2.5
    node_waste: float = 0.1
    starved: float = 0.11
    starved_cpu: float = 0.5
    starved_power: float = 2.0
    bound_models: float = 0.03
    broken_groups: float = 0.5
    free_cards: float = 0.004
    free_cpu: float = 0.008


WEIGHTS = LookAheadWeights()
