"""This module relieves nodes that run out of memory, disk or process ids.

Source of the order: Kubernetes' node-pressure eviction,
https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/
"""

from __future__ import annotations

from scheduling.engine.actions.eviction import evict_tasks, find_running_among
from scheduling.engine.model import Allocation, EvictRule, Job, QosClass
from scheduling.engine.session.session import Session

CLASSES = (QosClass.BEST_EFFORT, QosClass.BURSTABLE, QosClass.GUARANTEED)


class NodePressureEviction:
    """Evicts one task on each node under pressure, in the order of Kubernetes' quality-of-service classes.

    Best effort comes first, then burstable tasks, then guaranteed ones. Among equals lower priority comes
    first, then the newest. The next task of the node is evicted only after this one has ended and the
    pressure has not. A task without which its gang would be too small takes the gang with it.
    """

    name = "pressure"

    def run(self, session: Session) -> None:
        """Evict one task for each node that is under pressure and has no terminating task yet."""
        under_pressure = {node.id: node for node in session.snapshot.fleet.nodes if node.pressure}
        if not under_pressure:
            return
        victims: dict[str, list[tuple[Job, Allocation]]] = {node_id: [] for node_id in under_pressure}
        held = [task for task in session.snapshot.allocations.values() if task.node in under_pressure]
        for job, tasks in find_running_among(session, {task.job for task in held}):
            for task in tasks:
                if task.node in victims:
                    victims[task.node].append((job, task))
        with_terminating = {task.node for task in held if task.leaving}
        for node_id in sorted(under_pressure):
            # A gang that was evicted for one node may have relieved another.
            here = [pair for pair in victims[node_id] if not session.snapshot.allocations[pair[1].id].leaving]
            if node_id in with_terminating or not here or len(here) < len(victims[node_id]):
                continue
            job, task = min(here, key=lambda pair: _eviction_order(*pair))
            numbers: dict[str, int | str] = {
                "node": node_id,
                "pressure": ",".join(sorted(under_pressure[node_id].pressure)),
                "class": _quality_class(job, task).value,
            }
            evict_tasks(session, job, (task,), EvictRule.NODE_PRESSURE, numbers=numbers)


def _quality_class(job: Job, task: Allocation) -> QosClass:
    return next((role.request.qos for role in job.roles if role.name == task.role), QosClass.GUARANTEED)


def _eviction_order(job: Job, task: Allocation) -> tuple[object, ...]:
    quality = CLASSES.index(_quality_class(job, task))
    return (quality, job.priority, -(job.attempt_started_at or 0.0), task.id)
