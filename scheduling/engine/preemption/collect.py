"""Take victims one by one until it fits, with as few looks at places as possible."""

from __future__ import annotations

from collections.abc import Iterable

from scheduling.engine.preemption.contest import Contest, Victim
from scheduling.engine.preemption.trial import Removal
from scheduling.engine.state.charges import merged


def collect(
    contest: Contest, victims: Iterable[Victim], *, borrow: bool, first: Iterable[Victim] = ()
) -> list[Victim] | None:
    """The shortest beginning of `victims` with which the preemptor fits; they stay removed.

    `first` were removed before and do not suffice; they are part of the answer.

    Quota is looked at after every victim. Places cost a simulated placement, so they are looked at after
    1, 2, 4, … further victims, and the shortest beginning is then found by halving. None where the
    victims do not suffice or the budget ends; everything is put back then.
    """
    taken = list(first)
    looked, gap = len(taken), 1
    for victim in victims:
        if not contest.effort.spend():
            break
        if _swallows(taken, victim):
            # What was spared singly so far may have been enough: afterwards it cannot be told apart.
            if len(taken) > looked and _fits_without(contest, victim, borrow=borrow):
                return _shortest(contest, taken, looked, borrow=borrow)
            looked = 0
        add(taken, victim)
        if contest.looks_cheaply:
            if contest.fits(borrow=borrow):
                return taken
            continue
        if not contest.quota_fits(borrow=borrow):
            continue
        if len(taken) < looked + gap:
            continue
        if contest.room_fits():
            return _shortest(contest, taken, looked, borrow=borrow)
        looked, gap = len(taken), 2 * gap
    if not contest.effort.exhausted and len(taken) > looked and contest.fits(borrow=borrow):
        return _shortest(contest, taken, looked, borrow=borrow)
    contest.trial.reset()
    return None


def _swallows(taken: list[Victim], victim: Victim) -> bool:
    job = victim.candidate.job.id
    return victim.candidate.whole and any(other.candidate.job.id == job for other in taken)


def _fits_without(contest: Contest, victim: Victim, *, borrow: bool) -> bool:
    """Whether it fits with a victim back; only then it stays."""
    contest.trial.restore(victim.removal)
    contest.effort.steps += 1
    if contest.fits(borrow=borrow):
        return True
    contest.trial.repeat(victim.removal)
    return False


def add(taken: list[Victim], victim: Victim) -> None:
    """A whole job takes in what it spared before: those tasks cannot outlive it."""
    if victim.candidate.whole:
        job = victim.candidate.job.id
        earlier = [other for other in taken if other.candidate.job.id == job]
        if earlier:
            parts = [victim.removal, *(other.removal for other in earlier)]
            victim.removal = Removal(
                victim.removal.queue,
                tuple(task for part in parts for task in part.tasks),
                merged(part.charges for part in parts),
            )
            taken[:] = [other for other in taken if other.candidate.job.id != job]
    taken.append(victim)


def _shortest(contest: Contest, taken: list[Victim], misses: int, *, borrow: bool) -> list[Victim]:
    """Halve between a beginning of length `misses` that did not do and the whole, which does."""
    low, high = misses + 1, len(taken)
    while low < high:
        middle = (low + high) // 2
        tail = taken[middle:high]
        for victim in tail:
            contest.trial.restore(victim.removal)
        contest.effort.steps += 1
        if contest.fits(borrow=borrow):
            high = middle
        else:
            for victim in tail:
                contest.trial.repeat(victim.removal)
            low = middle + 1
    return taken[:high]
