"""Moves in the place of evictions, where they throw away less work.

On scattered free cards a job that is owed room often finds a node that a few jobs, which began a short while
ago, could leave for free places elsewhere, while those who may be evicted have run for days.
"""

from __future__ import annotations

from itertools import pairwise

from scheduling.engine.actions.admission.entry import Entry
from scheduling.engine.actions.consolidation.search import ConsolidationSearch
from scheduling.engine.gang.moves import SearchBudget
from scheduling.engine.quota.assignment import Mode
from scheduling.engine.session.consolidation_gain import ConsolidationGain
from scheduling.engine.session.session import Session


def cheaper_moves(session: Session, entry: Entry, effort: SearchBudget) -> ConsolidationGain | None:
    """The moves that open room for a job with victims and lose less than these; None where none do.

    Only for a job that stays inside its queue's nominal and lacks nothing but room: the quota that a victim
    would give up is not what a move gives.
    """
    options = session.config.consolidation
    # What an action between them gave away would be held twice.
    if not options.instead_of_evictions or ("admit", "consolidate") not in pairwise(session.config.actions):
        return None
    if entry.mode is not Mode.FIT or entry.assignment.borrow_level or session.snapshot.holds(entry.job.id):
        return None
    gain = ConsolidationSearch(session, effort).find_gain(entry.queue, entry.job)
    lost = entry.found.numbers.get("gpu_seconds", 0)
    return gain if gain is not None and gain.gpu_seconds < float(lost) else None
