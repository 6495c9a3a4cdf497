"""Decisions that only make sense together.

Somebody is told to leave because somebody else was promised the place: the one without the other would
cost a job its run for nothing, or promise what nobody leaves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.engine import model as em


@dataclass(frozen=True, slots=True)
class Bundle:
    """Decisions that are carried out all or not at all, in their order."""

    decisions: tuple[em.Decision, ...]

    @property
    def jobs(self) -> frozenset[str]:
        """The jobs that it changes."""
        return frozenset(decision.job for decision in self.decisions)


def bundles_of(decisions: Iterable[em.Decision]) -> list[Bundle]:
    """Group what leaves for a job with the promise to that job; everything else stands alone."""
    bundles: list[Bundle] = []
    leaving: defaultdict[str, list[em.Decision]] = defaultdict(list)
    for decision in decisions:
        for_another = decision.beneficiary not in (None, decision.job)
        if decision.kind is em.DecisionKind.PARK:
            bundles.append(Bundle((*leaving.pop(decision.job, ()), decision)))
        elif for_another and decision.beneficiary is not None:
            leaving[decision.beneficiary].append(decision)
        else:
            bundles.append(Bundle((decision,)))
    # Those whose beneficiary got no promise in words still leave for it together.
    bundles += [Bundle(tuple(leaving[job])) for job in sorted(leaving)]
    return bundles
