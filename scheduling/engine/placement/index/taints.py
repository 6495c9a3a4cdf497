"""This module evaluates taints over a whole fleet; few nodes differ in them, so each set is done once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from scheduling.engine.model import Taint, TaintEffect, Toleration
from scheduling.engine.model.labels import has_untolerated_taint
from scheduling.engine.placement.index.node_facts import number_facts
from scheduling.engine.state.fleet import ALL_ROWS, Bools, Fleet, Ints, Rows

Taints = tuple[Taint, ...]


def _evaluate_taints(fleet: Fleet, rows: Rows, judge: Callable[[Taints], int]) -> Ints:
    codes, kinds = number_facts(fleet, "taints", lambda node: node.taints)
    verdicts = np.array([judge(taints) for taints in kinds], np.int64)
    return verdicts[codes[rows]] if len(kinds) else np.zeros(0, np.int64)


def repelled_rows(fleet: Fleet, tolerations: tuple[Toleration, ...], rows: Rows = ALL_ROWS) -> Bools:
    """Return which rows exclude a task with these tolerations (effects `NoSchedule`, `NoExecute`)."""
    return _evaluate_taints(fleet, rows, lambda taints: has_untolerated_taint(taints, tolerations)) > 0


def count_soft_taints(fleet: Fleet, tolerations: tuple[Toleration, ...], rows: Rows = ALL_ROWS) -> Ints:
    """Return the number of untolerated soft taints (`PreferNoSchedule`) of each of the rows."""

    def count_unwelcome(taint: Taint) -> bool:
        soft = taint.effect is TaintEffect.PREFER_NO_SCHEDULE
        return soft and not any(toleration.tolerates_taint(taint) for toleration in tolerations)

    return _evaluate_taints(fleet, rows, lambda taints: sum(map(count_unwelcome, taints)))


def has_soft_taints(fleet: Fleet) -> bool:
    """Return whether any node has a soft taint."""
    return bool(count_soft_taints(fleet, ()).any())
