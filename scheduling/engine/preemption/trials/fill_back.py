"""Restoration of victims that turn out not to be needed (Kueue: fillBackWorkloads).

With quota alone the last victim is needed by construction. With placement, and in the platform's order, every
victim is tried, the costliest first, until none can be restored.
"""

from __future__ import annotations

from scheduling.engine.preemption.trials.context import PreemptionContext, Victim


def fill_back(context: PreemptionContext, victims: list[Victim], *, borrow: bool) -> list[Victim]:
    """Restore victims that are not needed, from the second-last taken to the first.

    A gap is closed with the last victim of the list, as in Kueue: the result is a set, its order means
    nothing.
    """
    remaining = list(victims)
    for index in range(len(remaining) - 2, -1, -1):
        if context.fits_without(remaining[index], borrow=borrow):
            remaining[index] = remaining[-1]
            remaining.pop()
    return remaining


def fill_back_by_cost(context: PreemptionContext, victims: list[Victim], *, borrow: bool) -> list[Victim]:
    """Restore victims that are not needed, those with the highest eviction cost first."""
    remaining, settled = list(victims), False
    while not settled:
        settled = True
        for victim in sorted(remaining, key=lambda victim: victim.candidate.rank, reverse=True):
            if context.fits_without(victim, borrow=borrow):
                remaining.remove(victim)
                # With placement checks one restored victim may allow another; with counted slots it cannot.
                settled = settled and context.checks_placement_cheaply
    return remaining


def find_unjustified(context: PreemptionContext, victims: list[Victim]) -> Victim | None:
    """Return the costliest victim that its rule no longer allows, with other victims restored."""
    for victim in sorted(victims, key=lambda victim: victim.candidate.rank, reverse=True):
        context.trial.charge_quota(victim.removal)
        holds = victim.is_justified()
        context.trial.release_quota(victim.removal)
        if not holds:
            return victim
    return None
