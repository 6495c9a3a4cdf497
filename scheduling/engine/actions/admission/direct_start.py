"""This module places jobs of one task that need no search for flavors, victims or nodes of a gang.

Thousands of such jobs may wait in one queue. If the queue's first flavor may take the job inside the queue's
own quota, it is what an evaluation would choose, and only the node is left to choose.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial

from scheduling.engine.actions.admission.nominated_job import NominatedJob
from scheduling.engine.actions.admission.nominator import Nominator
from scheduling.engine.actions.head_estimate import first_choice
from scheduling.engine.gang import RoleTasks, prefer_own_queue, role_tasks
from scheduling.engine.model import Flavor, Job, Queue
from scheduling.engine.placement.matrix import ScoreMatrix
from scheduling.engine.placement.placer import TaskPlacement, describe_placement
from scheduling.engine.quota.assignment import Assignment, AssignmentMode
from scheduling.engine.session.session import FlavorUsage, MemoTable, Session
from scheduling.engine.state.task_shape import TaskShape, resolve_shape

# Fewer tasks of a queue, and few shapes on many nodes, are placed faster by boards than by a score matrix.
MIN_TASKS, MIN_SHAPES, NODES_PER_TASK = 32, 16, 4
# The most shapes in a score matrix.
MAX_SHAPES = 1024
# New shapes make a matrix drop all states: they are added once one task in this many has one.
NEW_SHAPES_PART = 8


@dataclass(frozen=True, slots=True, eq=False)
class DirectChoice:
    """The flavors and the shape that the jobs of one equivalence class get, the first ones of their queue;
    `usage` is what they are charged."""

    usage: FlavorUsage
    assignment: Assignment
    tasks: RoleTasks


class DirectStart:
    """Places single tasks in one action. Choices are kept with the snapshot, by queue and equivalence
    class; None where the first flavors do not suit the jobs."""

    def __init__(self, session: Session, nominator: Nominator) -> None:
        self._session, self._nominator = session, nominator
        self._snapshot = session.snapshot
        self._choices: MemoTable[DirectChoice | None] = session.direct_choices
        self._prefers_own_nodes = session.tools.rule.prefer_own_nodes
        # The rows of tasks in score matrices.
        self._shapes: dict[DirectChoice, tuple[ScoreMatrix, int] | None] = {}
        self._matrices: dict[tuple[str, str], ScoreMatrix | None] = {}

    def place_job(self, queue: Queue, job: Job) -> NominatedJob | None:
        """Place a job in the snapshot as an evaluation would; None where only that decides."""
        key = queue.id, self._session.equivalence.class_of(job)
        known = key in self._choices
        choice = self._choices[key] if known else None
        if known and choice is None:
            return None
        usage = first_choice(self._session, queue, job) if choice is None else choice.usage
        if not self._snapshot.quota.has_own_room(queue.quota_node, usage):
            return None
        if choice is None:
            choice = self._choices[key] = self._choose(queue, job, usage)
        if choice is None:
            return None
        if choice not in self._shapes:
            self._shapes[choice] = self._find_shape(queue, choice.tasks)
        shape = self._shapes[choice]
        placement = self._find_placement(queue, choice.tasks, shape)
        if placement is None:
            return None
        allocation = choice.tasks.build_allocation(queue, job, placement, 0)
        self._snapshot.add_allocation(allocation)
        if shape is not None:
            shape[0].follow_placement(shape[1])
        return NominatedJob(job=job, queue=queue, assignment=choice.assignment, placed=(allocation,))

    def _choose(self, queue: Queue, job: Job, usage: FlavorUsage) -> DirectChoice | None:
        """Return the choice for a job whose queue's own quota covers its first flavors."""
        if not _has_one_task(job):
            return None
        # Flavors that could never hold the job are found when it finds no node.
        assignment = self._nominator.assign_smallest(queue, job, infeasible=frozenset())
        groups = queue.effective_groups
        if assignment.mode is not AssignmentMode.FIT or assignment.borrow_level:
            return None
        (assigned,) = assignment.roles
        if any(tried.flavor != groups[tried.group].flavors[0] for tried in assigned.tries):
            return None
        tasks = role_tasks(self._snapshot, job, job.roles[0], assigned)
        return None if tasks is None else DirectChoice(usage, assignment, tasks)

    def _find_placement(
        self, queue: Queue, tasks: RoleTasks, shape: tuple[ScoreMatrix, int] | None
    ) -> TaskPlacement | None:
        among = partial(prefer_own_queue, self._snapshot, queue) if self._prefers_own_nodes else None
        if shape is None:
            return self._session.placer.find_placement(tasks.task, tasks.flavor, None, among)
        matrix, number = shape
        row = matrix.find_best_node(number, among)
        if row is None:
            return None
        return describe_placement(matrix.fleet, tasks.task, row, matrix.choose_cards(number, row)[0])

    def _find_shape(self, queue: Queue, tasks: RoleTasks) -> tuple[ScoreMatrix, int] | None:
        """Return the score matrix for tasks with their row in it; None where boards are faster or needed."""
        task, flavor = tasks.task, tasks.flavor
        key = queue.id, flavor.id
        if key not in self._matrices:
            self._matrices[key] = self._prepare_matrix(queue, flavor)
        matrix = self._matrices[key]
        if matrix is None or task not in matrix or not self._session.placer.can_use_matrix(task, flavor):
            return None
        return matrix, matrix.ensure_shape(task, flavor)

    def _prepare_matrix(self, queue: Queue, flavor: Flavor) -> ScoreMatrix | None:
        placer, jobs, counts = self._session.placer, 0, Counter[TaskShape]()
        for line in self._session.queue_classes(queue).lines.values():
            job = self._session.get_job(line.job_at(0))
            if _has_one_task(job):
                jobs += 1
                counts[self._resolve_shape(job, flavor)] += len(line)
        nodes, count = len(self._snapshot.fleet), counts.total()
        pays = count >= MIN_TASKS and (jobs >= MIN_SHAPES or count * NODES_PER_TASK >= nodes)
        if not pays or jobs > MAX_SHAPES:
            return None
        matrix = placer.find_matrix(flavor.policy)
        if matrix is not None and len(matrix) + sum(task not in matrix for task in counts) > MAX_SHAPES:
            placer.drop_matrix(flavor.policy)
            matrix = placer.find_matrix(flavor.policy)
        if matrix is not None:
            fresh = [task for task in counts if task not in matrix]
            if sum(map(counts.__getitem__, fresh)) * NEW_SHAPES_PART >= count:
                matrix.add_shapes((task, flavor) for task in fresh if placer.can_use_matrix(task, flavor))
        return matrix

    def _resolve_shape(self, job: Job, flavor: Flavor) -> TaskShape:
        known, key = self._session.task_shapes, (self._session.equivalence.class_of(job), flavor.id)
        if key not in known:
            role = job.roles[0]
            known[key] = resolve_shape(role.request, job.rules_of(role), flavor)
        return known[key]


def _has_one_task(job: Job) -> bool:
    """Return whether a job is a single task that asks nothing of others, and by whose start nothing ends."""
    if len(job.roles) != 1 or job.allowances or job.barred or job.evictions or job.drained:
        return False
    (role,) = job.roles
    alone = role.replicas == role.min_count == 1 and not role.ended
    return alone and not job.sub_gangs and job.min_available in (None, 1) and not job.topology
