"""Taints over a whole fleet: few nodes differ in them, so each set of taints is judged once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scheduling.engine.model import Taint, TaintEffect, Toleration
from scheduling.engine.model.labels import repels
from scheduling.engine.placement.index.node_facts import numbered
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Fleet, Ints, Rows

Taints = tuple[Taint, ...]


def _judged(fleet: Fleet, rows: Rows, judge: Callable[[Taints], int]) -> Ints:
    codes, kinds = numbered(fleet, "taints", lambda node: node.taints)
    verdicts = np.array([judge(taints) for taints in kinds], np.int64)
    return verdicts[codes[rows]] if len(kinds) else np.zeros(0, np.int64)


def repelled(fleet: Fleet, tolerations: tuple[Toleration, ...], rows: Rows = ALL_ROWS) -> Bools:
    """Which of the rows keep a task with these tolerations away."""
    return _judged(fleet, rows, lambda taints: repels(taints, tolerations)) > 0


def disliked(fleet: Fleet, tolerations: tuple[Toleration, ...], rows: Rows = ALL_ROWS) -> Ints:
    """How many taints of each of the rows would rather not have the task and are not tolerated."""

    def unwelcome(taint: Taint) -> bool:
        soft = taint.effect is TaintEffect.PREFER_NO_SCHEDULE
        return soft and not any(toleration.covers(taint) for toleration in tolerations)

    return _judged(fleet, rows, lambda taints: sum(map(unwelcome, taints)))


def soft(fleet: Fleet) -> bool:
    """Whether any node would rather not have some tasks."""
    return bool(disliked(fleet, ()).any())
