"""This module moves tasks in place of evictions, where that loses less work.

On scattered free cards a job inside its own quota often finds a node that a few young jobs could leave for
free places elsewhere, while the possible victims have run for days.
"""

from __future__ import annotations

from itertools import pairwise

from scheduling.engine.actions.admission.nominated_job import NominatedJob
from scheduling.engine.actions.consolidation.search import ConsolidationSearch
from scheduling.engine.gang.moves import SearchBudget
from scheduling.engine.quota.assignment import AssignmentMode
from scheduling.engine.session.consolidation_gain import ConsolidationGain
from scheduling.engine.session.session import Session


def find_cheaper_moves(
    session: Session, nominated: NominatedJob, budget: SearchBudget
) -> ConsolidationGain | None:
    """Return the moves that make a job with victims fit and cost less than these, or None.

    They are for a job inside its queue's nominal quota that lacks nothing but room: a move does not release
    the quota that a victim would.
    """
    options = session.config.consolidation
    # An action between the two could allocate the same capacity a second time.
    if not options.instead_of_evictions or ("admit", "consolidate") not in pairwise(session.config.actions):
        return None
    if (
        nominated.mode is not AssignmentMode.FIT
        or nominated.assignment.borrow_level
        or session.snapshot.count_tasks(nominated.job.id)
    ):
        return None
    gain = ConsolidationSearch(session, budget).find_gain(nominated.queue, nominated.job)
    eviction_cost = nominated.target_set.numbers.get("gpu_seconds", 0)
    return gain if gain is not None and gain.gpu_seconds < float(eviction_cost) else None
