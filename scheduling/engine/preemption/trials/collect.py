"""The shortest beginning of an order of victims with which the preemptor fits."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.engine.preemption.trials.context import PreemptionContext, Victim
from scheduling.engine.preemption.trials.trial import Removal
from scheduling.engine.state.charges import add_totals


def collect_victims(
    context: PreemptionContext, victims: Iterable[Victim], *, borrow: bool, first: Iterable[Victim] = ()
) -> list[Victim] | None:
    """Return the shortest beginning of `victims` with which the preemptor fits; they stay removed.

    `first` were removed before and do not suffice; they are part of the result. Quota is checked after every
    victim. A placement check simulates a placement, so it runs after 1, 2, 4, … further victims, and
    bisection then finds the shortest beginning. Return None, with everything restored, if the victims do not
    suffice or the budget is exhausted.
    """
    taken = list(first)
    looked, gap = len(taken), 1
    for victim in victims:
        if not context.search_budget.spend_step():
            break
        if _contains_earlier(taken, victim):
            # The surplus tasks taken so far may suffice; once the whole job is added, no check could show it.
            if len(taken) > looked and context.fits_without(victim, borrow=borrow):
                return _shortest(context, taken, looked, borrow=borrow)
            looked = 0
        add_victim(taken, victim)
        if context.checks_placement_cheaply:
            if context.preemptor_fits(borrow=borrow):
                return taken
            continue
        if not context.quota_fits(borrow=borrow):
            continue
        if len(taken) < looked + gap:
            continue
        if context.placement_fits():
            return _shortest(context, taken, looked, borrow=borrow)
        looked, gap = len(taken), 2 * gap
    if not context.search_budget.exhausted and len(taken) > looked and context.preemptor_fits(borrow=borrow):
        return _shortest(context, taken, looked, borrow=borrow)
    context.trial.restore_all()
    return None


def _contains_earlier(taken: list[Victim], victim: Victim) -> bool:
    job = victim.candidate.job.id
    return victim.candidate.whole and any(other.candidate.job.id == job for other in taken)


def add_victim(taken: list[Victim], victim: Victim) -> None:
    """Append a victim; a whole job replaces its surplus tasks that were taken before."""
    if victim.candidate.whole:
        job = victim.candidate.job.id
        earlier = [other for other in taken if other.candidate.job.id == job]
        if earlier:
            parts = [victim.removal, *(other.removal for other in earlier)]
            victim.removal = Removal(
                victim.removal.queue,
                tuple(task for part in parts for task in part.tasks),
                add_totals(part.charges for part in parts),
            )
            taken[:] = [other for other in taken if other.candidate.job.id != job]
    taken.append(victim)


def _shortest(context: PreemptionContext, taken: list[Victim], misses: int, *, borrow: bool) -> list[Victim]:
    """Bisect between a beginning of length `misses`, which is too short, and all of `taken`."""
    low, high = misses + 1, len(taken)
    while low < high:
        middle = (low + high) // 2
        tail = taken[middle:high]
        for victim in tail:
            context.trial.restore_removal(victim.removal)
        context.search_budget.steps += 1
        if context.preemptor_fits(borrow=borrow):
            high = middle
        else:
            for victim in tail:
                context.trial.remove_again(victim.removal)
            low = middle + 1
    return taken[:high]
