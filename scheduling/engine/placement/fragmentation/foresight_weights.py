"""The weights of the look-ahead packing policy."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Foresight:
    """The weights of the policy, one set for all clusters.

    `card_choice` and `node_choice` are the queues supposed in the two tables. A card
    is starved where its node has less CPU for it than `starved_cpu` times what cards have on average,
    and `starved_power` says how sharply that is felt.
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


WEIGHTS = Foresight()
