"""The true reasons and numbers of a job whose volume claims exclude nodes that would accept it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from scheduling.engine.model import ClaimState, Flavor, MountedVolume, Node, Reason, Role
from tests.truth.oracle.cell import least
from tests.truth.oracle.facts import Facts, Lack
from tests.truth.oracle.gangs import areas, fit_together, most_in_one_area
from tests.truth.oracle.nodes import kept_off, most_on, mountable
from tests.truth.oracle.reported import Fault, ReportedReason
from tests.truth.oracle.tasks import Task, task_of, with_lasting_claims, without_claims


def reasons_by_claim(report: ReportedReason, reason: Reason) -> set[Reason]:
    """Return the reasons that replace a reason which ignores claims; several only if roles share a domain,
    because each may be named."""
    if not report.job.rules.volume_claims or reason not in (Reason.NEVER_FITS, Reason.NO_ROOM):
        return {reason}
    empty = reason is Reason.NEVER_FITS
    if empty and Facts(report.cell, without_claims(report.job)).lack is Lack.NODES:
        return {reason}
    named = next((role for role in report.job.roles if role.name == report.numbers.get("role")), None)
    flavor = report.cell.flavors.get(str(report.numbers.get("flavor")))
    if named is None or flavor is None:
        return {reason}
    task, nodes = (
        _task(report, named, flavor, empty=empty),
        report.facts.empty if empty else report.cell.nodes,
    )
    if not _holds_without(report, named, task, nodes):
        return {reason}
    due = _due_to(report, flavor, empty=empty)
    domains = areas(report.job, nodes) != [nodes]
    return {due, reason} if domains and len(report.job.roles) > 1 else {due}


def _task(report: ReportedReason, role: Role, flavor: Flavor, *, empty: bool) -> Task:
    """Return a task of the role; for the empty cell, a later one, with the claims that still count then."""
    task = task_of(report.job, role, flavor)
    return with_lasting_claims(task) if empty else task


def _holds_without(report: ReportedReason, role: Role, task: Task, nodes: Sequence[Node]) -> bool:
    """Return whether a role's missing tasks fit where claims exclude them, or all in one domain."""
    free = replace(task, rules=without_claims(report.job).rules)
    if areas(report.job, nodes) != [nodes]:
        return any(fit_together((free,), (least(role),), area) for area in areas(report.job, nodes))
    missing = max(1, least(role) - int(report.numbers.get("available", 0)))
    return sum(most_on(free, node, missing) for node in kept_off(task, nodes)) >= missing


def _due_to(report: ReportedReason, flavor: Flavor, *, empty: bool) -> Reason:
    claims = [c for c in report.job.rules.volume_claims if not (empty and c.temporary)]
    of_cluster = (c.state for c in claims if c.cluster == flavor.cluster)
    first = next((state for state in of_cluster if state is not ClaimState.BOUND), None)
    if first is None:
        return Reason.VOLUME_NODES_TOO_SMALL if empty else Reason.VOLUME_NODE_CONFLICT
    return Reason.VOLUME_CLAIM_UNREAD if first is ClaimState.UNREAD else Reason.VOLUME_CLAIM_NOT_BOUND


def check_claims(report: ReportedReason) -> Iterator[Fault]:
    """Yield faults in the named claims, the role, and the number of nodes excluded for its next task."""
    numbers = report.numbers
    role = next(role for role in report.job.roles if role.name == numbers["role"])
    flavor = report.cell.flavors[str(numbers["flavor"])]
    claims = {c.name: c for c in report.job.rules.volume_claims if c.cluster == flavor.cluster}
    names = str(numbers.get("claims", numbers["claim"])).split(",")
    if numbers["claim"] not in names or not claims.keys() >= set(names):
        yield report.fault("claim", names, sorted(claims))
        return
    uncreated = {claims[name].name for name in names if claims[name].temporary}
    if numbers.get("uncreated_claim", "") not in (uncreated or {""}):
        yield report.fault("uncreated_claim", numbers.get("uncreated_claim"), sorted(uncreated))
    bound = report.reason in (Reason.VOLUME_NODE_CONFLICT, Reason.VOLUME_NODES_TOO_SMALL)
    if bound:
        yield from _check_counts(report, role, flavor, [claims[name] for name in names])
    else:
        named = claims[names[0]]
        yield from (
            report.fault(name, value, named.state)
            for name, value in numbers.items()
            if name.endswith("_claim") and (name, value) != (f"{named.state}_claim", named.name)
        )
    if report.facts.lack is Lack.NODES:
        yield from _check_role(report, role, flavor)


def _check_role(report: ReportedReason, role: Role, flavor: Flavor) -> Iterator[Fault]:
    """Yield faults unless no flavor of the cluster holds the role and this one does without claims."""
    flavors = (
        report.cell.flavors[name] for name in report.facts.queue.flavors if name in report.cell.flavors
    )
    for other in flavors:
        task, nodes = _task(report, role, other, empty=True), areas(report.job, report.facts.empty)
        if other.cluster == flavor.cluster and any(
            fit_together((task,), (least(role),), area) for area in nodes
        ):
            yield report.fault("role", role.name, "a role that no flavor holds")
    at = report.job.roles.index(role)
    free = Facts(report.cell, without_claims(report.job)).ways
    if not any(way.lack is not Lack.NODES and way.flavors[at] == flavor for way in free):
        yield report.fault("flavor", flavor.id, "one that holds the role without claims")


def _check_counts(
    report: ReportedReason, role: Role, flavor: Flavor, named: Sequence[MountedVolume]
) -> Iterator[Fault]:
    empty = report.reason is Reason.VOLUME_NODES_TOO_SMALL
    every = report.facts.empty if empty else report.cell.nodes
    task = _task(report, role, flavor, empty=empty)
    kept = kept_off(task, every)
    number = sum(any(not mountable(node, claim) for claim in named) for node in kept)
    yield from report.number("suitable_nodes" if empty else "excluded_nodes", number)
    if number != len(kept):
        yield report.fault("claim", [claim.name for claim in named], "claims that exclude all of these nodes")
    yield from report.number("asked", least(role))
    if len(report.job.roles) == 1:
        yield from report.number("available", most_in_one_area(report.job, task, every, 10_000))
