"""Groups of decisions that are carried out together or not at all.

Victims are evicted because a preemptor gets a claim on their capacity. An eviction without the claim would
stop a job for nothing; a claim without the evictions would reserve capacity that is never released.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from scheduling.engine import model as em


@dataclass(frozen=True, slots=True)
class Bundle:
    """Decisions that are carried out in their order, all of them or none."""

    decisions: tuple[em.Decision, ...]

    @property
    def jobs(self) -> frozenset[str]:
        """The jobs that its decisions change."""
        return frozenset(decision.job for decision in self.decisions)


def bundles_of(decisions: Iterable[em.Decision]) -> list[Bundle]:
    """Group the evictions for a job with the decision about that job; each other decision is a bundle."""
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
    # Evictions for one beneficiary that has no decision of its own are also one bundle.
    bundles += [Bundle(tuple(leaving[job])) for job in sorted(leaving)]
    return bundles
