"""The action that relieves nodes which run out of memory, disk or process ids."""

from __future__ import annotations

from scheduling.engine.actions.eviction import evict_tasks, find_running_among
from scheduling.engine.model import Allocation, EvictRule, Job, QosClass
from scheduling.engine.session.session import Session

BEST_EFFORT, ABOVE_REQUEST, UNMEASURED, WITHIN_REQUEST = range(4)
CLASSES = ("best-effort", "above-request", "unmeasured", "within-request")


class NodePressureEviction:
    """On each node under pressure one task is told to leave, as Kubernetes' quality classes order it.

    Best effort first, then burstable tasks above their request, then those that nobody measured, then
    burstable ones within their request and guaranteed ones. Among equals lower priority first, then
    the furthest above its request, then the newest. Memory is what counts: CPU gives way by itself. The
    next task of the node is told only when this one has gone and the pressure has not. A task without
    which its gang would be too small takes the gang with it.
    """

    name = "pressure"

    def run(self, session: Session) -> None:
        """One victim for each node that is under pressure and that nobody is leaving yet."""
        pressed = {node.id: node for node in session.snapshot.fleet.nodes if node.pressure}
        if not pressed:
            return
        victims: dict[str, list[tuple[Job, Allocation]]] = {node_id: [] for node_id in pressed}
        held = [task for task in session.snapshot.allocations.values() if task.node in pressed]
        for job, tasks in find_running_among(session, {task.job for task in held}):
            for task in tasks:
                if task.node in victims:
                    victims[task.node].append((job, task))
        relieved = {task.node for task in held if task.leaving}
        for node_id in sorted(pressed):
            # A gang that left for one node may have relieved another.
            here = [pair for pair in victims[node_id] if not session.snapshot.allocations[pair[1].id].leaving]
            if node_id in relieved or not here or len(here) < len(victims[node_id]):
                continue
            job, task = min(here, key=lambda pair: _order(*pair))
            numbers: dict[str, int | str] = {
                "node": node_id,
                "pressure": ",".join(sorted(pressed[node_id].pressure)),
                "class": CLASSES[_class(job, task)],
            }
            evict_tasks(session, job, (task,), EvictRule.NODE_PRESSURE, numbers=numbers)


def _class(job: Job, task: Allocation) -> int:
    qos = next((role.request.qos for role in job.roles if role.name == task.role), QosClass.GUARANTEED)
    if qos is QosClass.BEST_EFFORT:
        return BEST_EFFORT
    if qos is QosClass.GUARANTEED:
        return WITHIN_REQUEST
    if task.measured_memory is None:
        return UNMEASURED
    return ABOVE_REQUEST if task.measured_memory > task.memory else WITHIN_REQUEST


def _order(job: Job, task: Allocation) -> tuple[object, ...]:
    above = 0 if task.measured_memory is None else task.measured_memory - task.memory
    return (_class(job, task), job.priority, -above, -(job.since or 0.0), task.id)
