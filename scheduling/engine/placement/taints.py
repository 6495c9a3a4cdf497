"""Taints over a whole fleet: few nodes differ in them, so each set of taints is judged once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scheduling.engine.model import Taint, TaintEffect, Toleration
from scheduling.engine.placement.labels import repels
from scheduling.engine.state.fleet import Bools, Fleet, Ints

Taints = tuple[Taint, ...]


def _kinds(fleet: Fleet) -> tuple[Ints, list[Taints]]:
    """The sets of taints that there are, and the number of each row's among them."""
    known = fleet.memo.get("taints")
    if known is None:
        numbers: dict[Taints, int] = {}
        codes = np.fromiter(
            (numbers.setdefault(node.taints, len(numbers)) for node in fleet.nodes), np.int64, len(fleet)
        )
        known = fleet.memo["taints"] = (codes, list(numbers))
    kinds: tuple[Ints, list[Taints]] = known  # type: ignore[assignment]
    return kinds


def _judged(fleet: Fleet, judge: Callable[[Taints], int]) -> Ints:
    codes, kinds = _kinds(fleet)
    verdicts = np.array([judge(taints) for taints in kinds], np.int64)
    return verdicts[codes] if len(kinds) else np.zeros(0, np.int64)


def repelled(fleet: Fleet, tolerations: tuple[Toleration, ...]) -> Bools:
    """The rows that keep a task with these tolerations away."""
    return _judged(fleet, lambda taints: repels(taints, tolerations)) > 0


def disliked(fleet: Fleet, tolerations: tuple[Toleration, ...]) -> Ints:
    """How many taints of each row would rather not have the task and are not tolerated."""

    def unwelcome(taint: Taint) -> bool:
        soft = taint.effect is TaintEffect.PREFER_NO_SCHEDULE
        return soft and not any(toleration.covers(taint) for toleration in tolerations)

    return _judged(fleet, lambda taints: sum(map(unwelcome, taints)))
