"""The true reasons and numbers of a job whose volume claims exclude nodes that would accept it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from scheduling.engine.model import ClaimState, Flavor, MountedVolume, Node, Reason, Role
from tests.truth.oracle.cell import least
from tests.truth.oracle.facts import Facts, Lack
from tests.truth.oracle.places import (
    Task,
    areas,
    kept_off,
    most_on,
    mountable,
    stands,
    task_of,
    with_lasting_claims,
    without_claims,
)
from tests.truth.oracle.told import Fault, Told, most_together


def by_claim(told: Told, reason: Reason) -> set[Reason]:
    """Return the reasons that replace a reason which ignores claims; several only if roles share a domain,
    because each may be named."""
    if not told.job.rules.volume_claims or reason not in (Reason.NEVER_FITS, Reason.NO_ROOM):
        return {reason}
    empty = reason is Reason.NEVER_FITS
    if empty and Facts(told.cell, without_claims(told.job)).lack is Lack.NODES:
        return {reason}
    named = next((role for role in told.job.roles if role.name == told.numbers.get("role")), None)
    flavor = told.cell.flavors.get(str(told.numbers.get("flavor")))
    if named is None or flavor is None:
        return {reason}
    task, nodes = _task(told, named, flavor, empty=empty), told.facts.empty if empty else told.cell.nodes
    if not _holds_without(told, named, task, nodes):
        return {reason}
    due = _due_to(told, flavor, empty=empty)
    domains = areas(told.job, nodes) != [nodes]
    return {due, reason} if domains and len(told.job.roles) > 1 else {due}


def _task(told: Told, role: Role, flavor: Flavor, *, empty: bool) -> Task:
    """Return a task of the role; for the empty cell, a later one, with the claims that still count then."""
    task = task_of(told.job, role, flavor)
    return with_lasting_claims(task) if empty else task


def _holds_without(told: Told, role: Role, task: Task, nodes: Sequence[Node]) -> bool:
    """Return whether a role's missing tasks fit where claims exclude them, or all in one domain."""
    free = replace(task, rules=without_claims(told.job).rules)
    if areas(told.job, nodes) != [nodes]:
        return any(stands((free,), (least(role),), area) for area in areas(told.job, nodes))
    missing = max(1, least(role) - int(told.numbers.get("available", 0)))
    return sum(most_on(free, node, missing) for node in kept_off(task, nodes)) >= missing


def _due_to(told: Told, flavor: Flavor, *, empty: bool) -> Reason:
    claims = [c for c in told.job.rules.volume_claims if not (empty and c.temporary)]
    of_cluster = (c.state for c in claims if c.cluster == flavor.cluster)
    first = next((state for state in of_cluster if state is not ClaimState.BOUND), None)
    if first is None:
        return Reason.VOLUME_NODES_TOO_SMALL if empty else Reason.VOLUME_NODE_CONFLICT
    return Reason.VOLUME_CLAIM_UNREAD if first is ClaimState.UNREAD else Reason.VOLUME_CLAIM_NOT_BOUND


def named_claims(told: Told) -> Iterator[Fault]:
    """Yield faults in the named claims, the role, and the number of nodes excluded for its next task."""
    numbers = told.numbers
    role = next(role for role in told.job.roles if role.name == numbers["role"])
    flavor = told.cell.flavors[str(numbers["flavor"])]
    claims = {c.name: c for c in told.job.rules.volume_claims if c.cluster == flavor.cluster}
    names = str(numbers.get("claims", numbers["claim"])).split(",")
    if numbers["claim"] not in names or not claims.keys() >= set(names):
        yield told.fault("claim", names, sorted(claims))
        return
    uncreated = {claims[name].name for name in names if claims[name].temporary}
    if numbers.get("uncreated_claim", "") not in (uncreated or {""}):
        yield told.fault("uncreated_claim", numbers.get("uncreated_claim"), sorted(uncreated))
    bound = told.reason in (Reason.VOLUME_NODE_CONFLICT, Reason.VOLUME_NODES_TOO_SMALL)
    if bound:
        yield from _counted(told, role, flavor, [claims[name] for name in names])
    else:
        named = claims[names[0]]
        yield from (
            told.fault(name, value, named.state)
            for name, value in numbers.items()
            if name.endswith("_claim") and (name, value) != (f"{named.state}_claim", named.name)
        )
    if told.facts.lack is Lack.NODES:
        yield from _of_role(told, role, flavor)


def _of_role(told: Told, role: Role, flavor: Flavor) -> Iterator[Fault]:
    """Yield faults unless no flavor of the cluster holds the role and this one does without claims."""
    flavors = (told.cell.flavors[name] for name in told.facts.queue.flavors if name in told.cell.flavors)
    for other in flavors:
        task, nodes = _task(told, role, other, empty=True), areas(told.job, told.facts.empty)
        if other.cluster == flavor.cluster and any(stands((task,), (least(role),), area) for area in nodes):
            yield told.fault("role", role.name, "a role that no flavor holds")
    at = told.job.roles.index(role)
    free = Facts(told.cell, without_claims(told.job)).ways
    if not any(way.lack is not Lack.NODES and way.flavors[at] == flavor for way in free):
        yield told.fault("flavor", flavor.id, "one that holds the role without claims")


def _counted(told: Told, role: Role, flavor: Flavor, named: Sequence[MountedVolume]) -> Iterator[Fault]:
    empty = told.reason is Reason.VOLUME_NODES_TOO_SMALL
    every = told.facts.empty if empty else told.cell.nodes
    task = _task(told, role, flavor, empty=empty)
    kept = kept_off(task, every)
    number = sum(any(not mountable(node, claim) for claim in named) for node in kept)
    yield from told.number("suitable_nodes" if empty else "excluded_nodes", number)
    if number != len(kept):
        yield told.fault("claim", [claim.name for claim in named], "claims that exclude all of these nodes")
    yield from told.number("asked", least(role))
    if len(told.job.roles) == 1:
        yield from told.number("available", most_together(told, task, every, 10_000))
