"""Takes that would not last: a borrower against a job that could take its cards back at once.

A queue that borrows owns its nominal still, and which of its jobs stand on that follows from whom they may
push out: a job stands inside what its queue owns, or what a part of the tree around the queue owns, where
those that it has to leave alone leave it room there. Pushed out by a borrower, it would make its weaker
peers go and take back from the borrower what is missing; the peers would borrow anew, and the borrower
would come again. So a borrower takes only those who borrow themselves.

Under fair sharing nothing of the kind is needed: between borrowers the shares decide, and they cannot be
turned by pushing peers out who come back afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduling.engine.model import Allocation, Queue
from scheduling.engine.preemption.candidates import Candidate
from scheduling.engine.preemption.contest import Contest
from scheduling.engine.preemption.loss import charged, surplus
from scheduling.engine.preemption.policy import satisfies


def comes_back(contest: Contest, victim: Candidate) -> bool:
    """Whether a victim of another queue could at once take back what a job that borrows got by its leaving.

    Called while the tree does not count the victim. A task that its job can spare comes back into free room
    only, and who was told to leave is gone whatever is decided here.
    """
    queue = contest.roster.snapshot.queues[victim.queue]
    if not victim.whole or victim.leaving:
        return False
    if not satisfies(victim.job, contest.preemptor.job, queue.preemption.reclaim):
        return False
    tree, leaf = contest.tree, queue.quota_node
    _, rival = tree.rivals(contest.leaf, leaf)
    path = tuple(tree.path(leaf))
    # It starts again as small as it can.
    spared = {task.id for task in surplus(victim.job, victim.tasks)}
    least = charged([task for task in victim.tasks if task.id not in spared])
    weaker = charged(tuple(_weaker(contest, queue, victim)))
    tree.remove_usages(leaf, weaker)
    tree.add_usages(leaf, least)
    inside = any(tree.inside(node, contest.preemptor.contested) for node in path[: path.index(rival) + 1])
    tree.remove_usages(leaf, least)
    tree.add_usages(leaf, weaker)
    return inside


def _weaker(contest: Contest, queue: Queue, victim: Candidate) -> Iterator[Allocation]:
    """What still stands of those jobs of a queue that a victim could push out, or that leave anyway."""
    roster, allocations = contest.roster, contest.roster.snapshot.allocations
    for number in roster.numbers(queue.id).tolist():
        peer = roster.whole(number)
        if peer.leaving or satisfies(victim.job, peer.job, queue.preemption.within_queue):
            held = (task for task in peer.tasks if task.id in allocations)
            yield from (task for task in held if not contest.trial.took(task))
