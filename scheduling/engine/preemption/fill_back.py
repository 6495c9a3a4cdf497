"""Restoration of victims that turn out not to be needed (Kueue: fillBackWorkloads).

With quota alone the last victim is needed by construction. With placement, and in the platform's order, every
victim is tried, the costliest first, until none can be restored.
"""

from __future__ import annotations

from scheduling.engine.preemption.context import PreemptionContext, Victim


def fill_back(contest: PreemptionContext, victims: list[Victim], *, borrow: bool) -> list[Victim]:
    """Restore victims that are not needed, from the second-last taken to the first.

    A gap is closed with the last victim of the list, as in Kueue: the result is a set, its order means
    nothing.
    """
    kept = list(victims)
    for index in range(len(kept) - 2, -1, -1):
        if _fits_with(contest, kept[index], borrow=borrow):
            kept[index] = kept[-1]
            kept.pop()
    return kept


def fill_back_by_cost(contest: PreemptionContext, victims: list[Victim], *, borrow: bool) -> list[Victim]:
    """Restore victims that are not needed, those with the highest eviction cost first."""
    kept, settled = list(victims), False
    while not settled:
        settled = True
        for victim in sorted(kept, key=lambda victim: victim.candidate.rank, reverse=True):
            if _fits_with(contest, victim, borrow=borrow):
                kept.remove(victim)
                # Where gangs are seated one return may make another possible; where amounts count it cannot.
                settled = settled and contest.checks_placement_cheaply
    return kept


def find_unjustified(contest: PreemptionContext, victims: list[Victim]) -> Victim | None:
    """Return the costliest victim that its rule does not allow any more, now that other victims are
    restored.
    """
    for victim in sorted(victims, key=lambda victim: victim.candidate.rank, reverse=True):
        contest.trial.charge_quota(victim.removal)
        holds = victim.is_justified()
        contest.trial.release_quota(victim.removal)
        if not holds:
            return victim
    return None


def _fits_with(contest: PreemptionContext, victim: Victim, *, borrow: bool) -> bool:
    contest.trial.restore_removal(victim.removal)
    contest.search_budget.steps += 1
    if contest.preemptor_fits(borrow=borrow):
        return True
    contest.trial.remove_again(victim.removal)
    return False
