"""Victims that turn out not to be needed go back.

The last one taken is needed by construction, as long as only quota counts; where places count too, and
under the platform's order, everyone is tried, the dearest first, until nobody can go back any more.
"""

from __future__ import annotations

from scheduling.engine.preemption.contest import Contest, Victim


def fill_back(contest: Contest, victims: list[Victim], *, borrow: bool) -> list[Victim]:
    """Put back, from the second-last taken to the first, whoever is not needed.

    A gap is closed with the last of the list, as Kueue does it: the result is a set, its order means
    nothing.
    """
    kept = list(victims)
    for index in range(len(kept) - 2, -1, -1):
        if _returns(contest, kept[index], borrow=borrow):
            kept[index] = kept[-1]
            kept.pop()
    return kept


def fill_back_dearest(contest: Contest, victims: list[Victim], *, borrow: bool) -> list[Victim]:
    """Put back whoever is not needed, those whose eviction costs most first."""
    kept, settled = list(victims), False
    while not settled:
        settled = True
        for victim in sorted(kept, key=lambda victim: victim.candidate.rank, reverse=True):
            if _returns(contest, victim, borrow=borrow):
                kept.remove(victim)
                # Where gangs are seated one return may make another possible; where amounts count it cannot.
                settled = settled and contest.looks_cheaply
    return kept


def unjustified(contest: Contest, victims: list[Victim]) -> Victim | None:
    """A victim that its rule would not allow any more, now that others stay; the dearest of them."""
    for victim in sorted(victims, key=lambda victim: victim.candidate.rank, reverse=True):
        contest.trial.charge(victim.removal)
        holds = victim.justified()
        contest.trial.uncharge(victim.removal)
        if not holds:
            return victim
    return None


def _returns(contest: Contest, victim: Victim, *, borrow: bool) -> bool:
    contest.trial.restore(victim.removal)
    contest.effort.steps += 1
    if contest.fits(borrow=borrow):
        return True
    contest.trial.repeat(victim.removal)
    return False
