"""A guard against eviction cycles: a borrower against a job that could reclaim its quota at once.

The jobs of a queue that borrows may still lie inside its nominal: a job does if its queue's nominal, or that
of a subtree around the queue, has room for it beside the jobs that it must not preempt. If a borrower evicted
such a job, the job would preempt its weaker peers and reclaim the rest from the borrower; the peers would
borrow anew, and the borrower would return. A borrower therefore evicts only jobs that borrow themselves.

Fair sharing needs no guard: shares decide between borrowers, and an eviction of peers that return afterwards
does not change shares.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduling.engine.model import Allocation, Queue
from scheduling.engine.preemption.candidates.candidates import VictimCandidate
from scheduling.engine.preemption.candidates.eviction_cost import find_surplus
from scheduling.engine.preemption.candidates.policy import may_preempt
from scheduling.engine.preemption.trials.context import PreemptionContext
from scheduling.engine.state.charges import sum_task_charges


def can_reclaim_at_once(context: PreemptionContext, victim: VictimCandidate) -> bool:
    """Return whether a victim of another queue could reclaim at once what a borrower gains by its eviction.

    Called while the tree does not count the victim. False for a surplus task, which returns to free capacity
    only, and for a job that is terminating already.
    """
    queue = context.index.snapshot.queues[victim.queue]
    if not victim.whole or victim.leaving:
        return False
    if not may_preempt(victim.job, context.preemptor.job, queue.preemption.reclaim):
        return False
    tree, leaf = context.tree, queue.quota_node
    _, rival = tree.rivals(context.leaf, leaf)
    path = tuple(tree.path(leaf))
    # An elastic job restarts with its minimum.
    spared = {task.id for task in find_surplus(victim.job, victim.tasks)}
    least = sum_task_charges([task for task in victim.tasks if task.id not in spared])
    weaker = sum_task_charges(_evictable_peers(context, queue, victim))
    tree.remove_usages(leaf, weaker)
    tree.add_usages(leaf, least)
    inside = any(tree.inside(node, context.preemptor.contested) for node in path[: path.index(rival) + 1])
    tree.remove_usages(leaf, least)
    tree.add_usages(leaf, weaker)
    return inside


def _evictable_peers(
    context: PreemptionContext, queue: Queue, victim: VictimCandidate
) -> Iterator[Allocation]:
    """Yield the allocations of jobs of a queue that a victim could preempt, or that are terminating."""
    index, allocations = context.index, context.index.snapshot.allocations
    for number in index.eligible_numbers(queue.id).tolist():
        peer = index.whole_job(number)
        if peer.leaving or may_preempt(victim.job, peer.job, queue.preemption.within_queue):
            held = (task for task in peer.tasks if task.id in allocations)
            yield from (task for task in held if not context.trial.has_removed(task))
