"""Gangs: the tasks of several roles that fit a set of nodes together.

Tasks of one role are equal, so a node is described by how many of each role it can take together. These
vectors are listed exhaustively and added up over the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from scheduling.engine.model import Device, Job, Node, TopologyMode
from tests.truth.oracle.cell import Undecided
from tests.truth.oracle.devices import parts
from tests.truth.oracle.nodes import member, most, most_on, suits
from tests.truth.oracle.tasks import Task

STATES = 20_000


def areas(job: Job, nodes: Sequence[Node]) -> list[Sequence[Node]]:
    """Return the sets of nodes of which one must hold all tasks of a job: all nodes, or those of each domain
    if the job requires a level of topology.

    Raises: Undecided, for rules of single roles and for parts of jobs.
    """
    if job.sub_gangs or any(role.topology is not None for role in job.roles):
        raise Undecided("parts that need a common domain")
    rule = job.topology
    if rule is None or rule.mode is not TopologyMode.REQUIRED or not rule.level:
        return [nodes]
    names = {node.labels[rule.level] for node in nodes if rule.level in node.labels}
    return [[node for node in nodes if node.labels.get(rule.level) == name] for name in sorted(names)]


def most_in_one_area(job: Job, task: Task, nodes: Sequence[Node], wanted: int) -> int:
    """Return how many equal tasks fit together, up to a number."""
    return max((most(task, area, wanted) for area in areas(job, nodes)), default=0)


def _loaded(task: Task, node: Node) -> Iterator[Node]:
    """Yield the node with one more task, for each choice of cards that makes a difference."""
    if not most_on(task, node, 1):
        return
    alike: dict[tuple[object, ...], list[str]] = {}
    for card in node.devices:
        if parts(task, card):
            kind = (card.model, card.cores, card.memory, card.used_cores, card.used_memory, card.mode)
            alike.setdefault(kind, []).append(card.uuid)
    for shares in product(*(range(min(task.cards, len(names)) + 1) for names in alike.values())):
        if sum(shares) == task.cards:
            taken = (names[:share] for names, share in zip(alike.values(), shares, strict=True))
            yield _with(task, node, {name for names in taken for name in names})


def _with(task: Task, node: Node, taken: set[str]) -> Node:
    cards = []
    for card in node.devices:
        facts = {name: getattr(card, name) for name in Device.__slots__}
        if card.uuid in taken:
            derived = max(1, card.cores * task.memory // max(card.memory, 1))
            cores = card.cores if task.whole else derived if task.derived else task.cores
            facts["used_cores"] += cores
            facts["used_memory"] += card.memory if task.whole else task.memory
            facts["holders"] += 1
            facts["exclusive"] = task.whole
        cards.append(Device(**facts))
    facts = {name: getattr(node, name) for name in Node.__slots__}
    facts |= {
        "devices": tuple(cards),
        "used_cpu": node.used_cpu + task.cpu,
        "used_memory": node.used_memory + task.ram,
        "used_pods": node.used_pods + 1,
    }
    return Node(**facts)


def _vectors(tasks: Sequence[Task], wanted: Sequence[int], node: Node) -> set[tuple[int, ...]]:
    """Return all numbers of tasks by role that one node takes together, up to the wanted ones."""
    found: set[tuple[int, ...]] = set()
    steps = 0

    def grow(here: Node, counts: tuple[int, ...], first: int) -> None:
        nonlocal steps
        steps += 1
        if steps > STATES:
            raise Undecided("too many ways to fill a node")
        if first == len(tasks):
            return
        # The last role is counted, which is exact for equal tasks.
        if first == len(tasks) - 1:
            room = most_on(tasks[first], here, wanted[first])
            found.add((*counts[:first], room))
            return
        grow(here, counts, first + 1)
        if counts[first] < wanted[first]:
            more = (*counts[:first], counts[first] + 1, *counts[first + 1 :])
            for loaded in _loaded(tasks[first], here):
                grow(loaded, more, first)

    grow(node, (0,) * len(tasks), 0)
    return _best(found)


def _best(vectors: Iterable[tuple[int, ...]]) -> set[tuple[int, ...]]:
    """Return the vectors that no other one reaches in every component."""
    kept: list[tuple[int, ...]] = []
    for each in sorted(set(vectors), reverse=True):
        if not any(all(x <= y for x, y in zip(each, other, strict=True)) for other in kept):
            kept.append(each)
    return set(kept)


def fit_together(tasks: Sequence[Task], wanted: Sequence[int], nodes: Sequence[Node]) -> bool:
    """Return whether so many tasks of each role fit these nodes together."""
    pairs = [(task, count) for task, count in zip(tasks, wanted, strict=True) if count]
    if any(not suits(task) or most(task, nodes, count) < count for task, count in pairs):
        return False
    if len(pairs) < 2:
        return True
    tasks, wanted = [task for task, _ in pairs], [count for _, count in pairs]
    sums: set[tuple[int, ...]] = {(0,) * len(tasks)}
    for node in nodes:
        if not any(member(node, task.flavor) for task in tasks):
            continue
        more = _vectors(tasks, wanted, node)
        grown = (
            tuple(min(w, a + b) for w, a, b in zip(wanted, one, other, strict=True))
            for one in sums
            for other in more
        )
        sums = _best(grown)
        if len(sums) > STATES:
            raise Undecided("too many ways to fill the nodes")
        if tuple(wanted) in sums:
            return True
    return False
