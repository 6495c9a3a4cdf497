"""Computes where tasks can be placed: rules of nodes one by one, and the most that a set of nodes holds.

Tasks of one role are equal, so a node is described by how many of each role it can take together. These
vectors are listed exhaustively and added up over the nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

from scheduling.engine.model import (
    AffinityOperator,
    ClaimState,
    Device,
    Expression,
    Flavor,
    GpuMode,
    Job,
    MountedVolume,
    Node,
    PlacementRules,
    Role,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
    TopologyMode,
)
from tests.truth.oracle.cell import CARD_MEMORY, CARDS, CORES, CPU, MEMORY, least, rules_of

WHOLE_FROM = (GpuMode.WHOLE, GpuMode.SLICE)
STATES = 20_000


class Undecided(Exception):
    """A question that exhaustive search cannot answer in reasonable time."""


@dataclass(frozen=True)
class Task:
    """A task of a role in a flavor. `cores` and `memory` are per card, 0 if they follow from the card."""

    flavor: Flavor
    rules: PlacementRules
    cpu: int
    ram: int
    cards: int
    mode: GpuMode
    whole: bool
    derived: bool
    cores: int
    memory: int
    models: tuple[str, ...]
    profile: str
    extended: tuple[tuple[str, int], ...]

    def charges(self) -> dict[str, int]:
        """Return the charges of one task, by resource."""
        plain = {
            CPU: self.cpu,
            MEMORY: self.ram,
            CARDS: self.cards,
            CORES: self.cards * self.cores,
            CARD_MEMORY: self.cards * self.memory,
        }
        for name, amount in self.extended:
            plain[name] = plain.get(name, 0) + amount
        return {name: amount for name, amount in plain.items() if amount}


def task_of(job: Job, role: Role, flavor: Flavor) -> Task:
    """Return a task of this role in this flavor."""
    request, gpu = role.request, role.request.gpu
    whole, derived, cores, memory = False, False, 0, 0
    if gpu is not None and gpu.mode is GpuMode.MIG:
        # An instance is allocated whole, and charged by its name.
        whole, (cores, memory) = True, _instance(gpu.profile, flavor)
    elif gpu is not None:
        whole = gpu.mode is GpuMode.WHOLE or (gpu.cores or 0) >= flavor.card_cores
        percent = gpu.memory_percent or 0
        memory = -(-flavor.card_memory * percent // 100) if gpu.memory is None else gpu.memory
        if whole:
            cores, memory = gpu.cores or flavor.card_cores, flavor.card_memory
        elif gpu.cores is not None:
            cores = gpu.cores
        elif gpu.memory is None:
            cores = max(1, flavor.card_cores * percent // 100)
        else:
            derived = True
            cores = max(1, flavor.card_cores * memory // flavor.card_memory if flavor.card_memory else 100)
    return Task(
        flavor=flavor,
        rules=rules_of(job, role),
        cpu=request.cpu,
        ram=request.memory,
        cards=0 if gpu is None else gpu.cards,
        mode=GpuMode.WHOLE if gpu is None else gpu.mode,
        whole=whole,
        derived=derived,
        cores=cores,
        memory=memory,
        models=() if gpu is None else gpu.models,
        profile="" if gpu is None else gpu.profile,
        extended=tuple((item.resource, item.amount) for item in request.extended if item.amount),
    )


def _instance(profile: str, flavor: Flavor) -> tuple[int, int]:
    """Return the core units, rounded up, and MiB of a MIG instance, by its name (`3g.40gb`)."""
    parts, gigabytes = profile.removesuffix("gb").split("g.")
    share = min(int(parts), flavor.mig_slices)
    memory = int(gigabytes) * 1024
    return (
        -(-flavor.card_cores * share // flavor.mig_slices),
        min(memory, flavor.card_memory) if flavor.card_memory else memory,
    )


# Rules of a node that do not depend on what is used


def tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Return whether a taint excludes no pod, or one of the tolerations covers it (Kubernetes)."""
    if taint.effect is TaintEffect.PREFER_NO_SCHEDULE:
        return True
    for each in tolerations:
        of_effect = each.effect is None or each.effect is taint.effect
        if each.operator is TolerationOperator.EXISTS:
            if of_effect and each.key in ("", taint.key):
                return True
        elif of_effect and (each.key, each.value) == (taint.key, taint.value):
            return True
    return False


def expressed(labels: Mapping[str, str], each: Expression) -> bool:
    """Return whether labels satisfy one expression of an affinity term."""
    value = labels.get(each.key)
    match each.operator:
        case AffinityOperator.IN:
            return value in each.values
        case AffinityOperator.NOT_IN:
            return value not in each.values
        case AffinityOperator.EXISTS:
            return value is not None
        case AffinityOperator.DOES_NOT_EXIST:
            return value is None
        case _:
            raise Undecided("affinity that compares numbers")


def mountable(node: Node, claim: MountedVolume) -> bool:
    """Return whether a node may mount the volume of a bound claim."""
    labels = {**node.labels, "metadata.name": node.name or node.id}
    return not claim.terms or any(term and all(expressed(labels, e) for e in term) for term in claim.terms)


def kept_off(task: Task, nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that would accept a task without volumes, and refuse it with them."""
    free = replace(task, rules=replace(task.rules, volume_claims=()))
    volumes = ("volume-claim", "volume-node-affinity")
    return [node for node in nodes if refuses(task, node) in volumes and most_on(free, node, 1)]


def without_claims(job: Job) -> Job:
    """Return the job without volumes."""
    return replace(job, rules=replace(job.rules, volume_claims=()))


def with_lasting_claims(task: Task) -> Task:
    """Return the task without the claims that only count until their volumes are created."""
    lasting = tuple(claim for claim in task.rules.volume_claims if not claim.temporary)
    return replace(task, rules=replace(task.rules, volume_claims=lasting))


def member(node: Node, flavor: Flavor) -> bool:
    """Return whether a node belongs to a flavor."""
    return node.cluster == flavor.cluster and flavor.node_labels.items() <= dict(node.labels).items()


def of_mode(task: Task, card: Device) -> bool:
    """Return whether a card is allocated in the mode that the task requests."""
    modes = WHOLE_FROM if task.mode is GpuMode.WHOLE else (task.mode,)
    return task.flavor.mode in modes and card.mode in modes


def of_profile(task: Task, card: Device) -> bool:
    """Return whether a card is an instance of the requested profile, if the task requests one."""
    return of_mode(task, card) and (not task.profile or card.profile == task.profile)


def of_model(task: Task, card: Device) -> bool:
    """Return whether a card is of a model that the task accepts and the flavor has."""
    wanted = card.model in task.models or not task.models
    return of_profile(task, card) and wanted and task.flavor.card_model in ("", card.model)


def refuses(task: Task, node: Node) -> str:
    """Return the first rule by which a node refuses a task, whatever is used; empty if none does."""
    rules, labels = task.rules, node.labels
    tolerations = (*rules.tolerations, *task.flavor.tolerations)
    terms = rules.node_affinity
    claims = [claim for claim in rules.volume_claims if claim.cluster == node.cluster]
    cards = node.devices
    checks: tuple[tuple[str, bool], ...] = (
        ("node-name", rules.node_name in (None, node.name or node.id)),
        ("node-selector", dict(rules.node_selector).items() <= dict(labels).items()),
        ("node-affinity", not terms or any(all(expressed(labels, e) for e in term) for term in terms)),
        ("volume-claim", all(claim.state is ClaimState.BOUND for claim in claims)),
        ("volume-node-affinity", all(mountable(node, claim) for claim in claims)),
        ("taint", all(tolerated(taint, tolerations) for taint in node.taints)),
        ("cards", len(cards) >= task.cards),
        ("gpu-mode", sum(of_mode(task, card) for card in cards) >= task.cards),
        ("mig-profile", sum(of_profile(task, card) for card in cards) >= task.cards),
        ("card-model", sum(of_model(task, card) for card in cards) >= task.cards),
        ("node-ready", node.ready),
        ("cordon", node.schedulable),
        ("card-health", sum(of_model(task, card) and card.healthy for card in cards) >= task.cards),
    )
    return next((name for name, fine in checks if not fine), "")


def suits(task: Task) -> bool:
    """Return whether the task tolerates the taints of the flavor."""
    tolerations = (*task.rules.tolerations, *task.flavor.tolerations)
    return all(tolerated(taint, tolerations) for taint in task.flavor.taints)


# The free capacity of a node


def emptied(node: Node) -> Node:
    """Return the node in an empty cell: nothing used, nothing broken, not cordoned."""
    cards = tuple(
        Device(
            uuid=card.uuid,
            index=card.index,
            model=card.model,
            mode=card.mode,
            cores=card.cores,
            memory=card.memory,
            profile=card.profile,
        )
        for card in node.devices
    )
    return Node(
        id=node.id,
        cluster=node.cluster,
        name=node.name,
        labels=node.labels,
        taints=node.taints,
        cpu=node.cpu,
        memory=node.memory,
        devices=cards,
        pods=node.pods,
        extended=node.extended,
    )


def parts(task: Task, card: Device) -> int:
    """Return how many tasks could have their share of this card."""
    if not (task.cards and of_model(task, card) and card.healthy):
        return 0
    if task.whole:
        return int(not (card.holders or card.used_cores or card.used_memory))
    if card.exclusive:
        return 0
    cores = max(1, card.cores * task.memory // max(card.memory, 1)) if task.derived else task.cores
    found = (card.cores - card.used_cores) // cores
    return max(0, min(found, (card.memory - card.used_memory) // task.memory) if task.memory else found)


def roomy_cards(task: Task, node: Node) -> int:
    """Return the number of cards of a node with room for a task's share."""
    return sum(parts(task, card) > 0 for card in node.devices)


def plain_bound(task: Task, node: Node) -> int:
    """Return how many tasks the node's CPU, memory and other plain resources allow."""
    bound = 1_000
    if task.cpu:
        bound = min(bound, max(0, node.cpu - node.used_cpu) // task.cpu)
    if task.ram:
        bound = min(bound, max(0, node.memory - node.used_memory) // task.ram)
    for name, amount in task.extended:
        total = sum(item.amount for item in node.extended if item.resource == name)
        used = sum(item.amount for item in node.used_extended if item.resource == name)
        bound = min(bound, max(0, total - used) // amount)
    return bound if node.pods is None else min(bound, max(0, node.pods - node.used_pods))


def most_on(task: Task, node: Node, wanted: int) -> int:
    """Return how many equal tasks one node takes, up to a number. The cards of a task are different ones."""
    if refuses(task, node) or not member(node, task.flavor):
        return 0
    found = min(wanted, plain_bound(task, node))
    if not task.cards:
        return found
    each = [parts(task, card) for card in node.devices]
    while found and sum(min(found, part) for part in each) < found * task.cards:
        found -= 1
    return found


def most(task: Task, nodes: Iterable[Node], wanted: int) -> int:
    """Return how many equal tasks fit these nodes, up to a number."""
    found = 0
    for node in nodes:
        found += most_on(task, node, wanted - found)
        if found == wanted:
            break
    return found


def areas(job: Job, nodes: Sequence[Node]) -> list[Sequence[Node]]:
    """Return the sets of nodes of which one must hold all tasks of a job: all nodes, or those of each domain
    if the job requires a level of topology.

    Raises: Undecided, for rules of single roles and for parts of jobs.
    """
    if job.sub_gangs or any(role.topology is not None for role in job.roles):
        raise Undecided("parts that have to stand together")
    rule = job.topology
    if rule is None or rule.mode is not TopologyMode.REQUIRED or not rule.level:
        return [nodes]
    names = {node.labels[rule.level] for node in nodes if rule.level in node.labels}
    return [[node for node in nodes if node.labels.get(rule.level) == name] for name in sorted(names)]


# Several roles together


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


def stands(tasks: Sequence[Task], wanted: Sequence[int], nodes: Sequence[Node]) -> bool:
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


def counts_of(job: Job, size: Callable[[Role], int] = least) -> list[int]:
    """Return the requested number of tasks of each role."""
    return [size(role) for role in job.roles]
