"""Nodes: the rules by which one refuses a task, its free capacity, and the tasks that it holds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from scheduling.engine.model import (
    AffinityOperator,
    ClaimState,
    Device,
    Expression,
    Flavor,
    MountedVolume,
    Node,
    Taint,
    TaintEffect,
    Toleration,
    TolerationOperator,
)
from tests.truth.oracle.cell import Undecided
from tests.truth.oracle.devices import of_mode, of_model, of_profile, parts
from tests.truth.oracle.tasks import Task


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


def member(node: Node, flavor: Flavor) -> bool:
    """Return whether a node belongs to a flavor."""
    return node.cluster == flavor.cluster and flavor.node_labels.items() <= dict(node.labels).items()


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


def kept_off(task: Task, nodes: Iterable[Node]) -> list[Node]:
    """Return the nodes that would accept a task without volumes, and refuse it with them."""
    free = replace(task, rules=replace(task.rules, volume_claims=()))
    volumes = ("volume-claim", "volume-node-affinity")
    return [node for node in nodes if refuses(task, node) in volumes and most_on(free, node, 1)]


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
