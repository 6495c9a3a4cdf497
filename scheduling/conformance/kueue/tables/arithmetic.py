"""Checks Kueue's tables on quota arithmetic: availability, shares, borrowing, and sums in a snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from scheduling.conformance.kueue.manifests.objects import Setup, flavor_resource, read_setup
from scheduling.conformance.kueue.manifests.quantities import CEILING, UNLIMITED_WORD
from scheduling.engine import Snapshot
from scheduling.engine.model import FlavorResource, PreemptionPolicy, PreemptOthers, PreemptWithin

Case = Mapping[str, Any]
Amount = int | str

_WITHIN = {
    PreemptWithin.NEVER: "Never",
    PreemptWithin.LOWER_PRIORITY: "LowerPriority",
    PreemptWithin.LOWER_OR_NEWER_EQUAL_PRIORITY: "LowerOrNewerEqualPriority",
}
_OTHERS = {
    PreemptOthers.NEVER: "Never",
    PreemptOthers.LOWER_PRIORITY: "LowerPriority",
    PreemptOthers.ANY: "Any",
}


def check_available(case: Case) -> str | None:
    """Check TestAvailable: without usage, with usage, and with the usage removed again."""
    given, expected = case["input"], case["expected"]
    tree = read_setup(given).build_snapshot().quota
    usage = [
        (queue, flavor_resource(key), amount)
        for queue, amounts in given.get("usage", {}).items()
        for key, amount in amounts.items()
    ]
    found = {"potentiallyAvailable": _amounts(expected["potentiallyAvailable"], tree.available)}
    for queue, key, amount in usage:
        tree.add_usage(queue, key, amount)
    found["available"] = _amounts(expected["available"], tree.available)
    for queue, key, amount in usage:
        tree.remove_usage(queue, key, amount)
    again = _amounts(expected["potentiallyAvailable"], tree.available)
    if again != found["potentiallyAvailable"]:
        return f"expected {found['potentiallyAvailable']} after removal, got {again}"
    return _compared(found, {name: expected[name] for name in found})


def check_shares(case: Case) -> str | None:
    """Check TestDominantResourceShare: rounded share, dominant resource and borrowing of every node.

    The extra request is added to every node that has a quota for it, as in the table.
    """
    given = case["input"]
    setup = read_setup(given)
    snapshot = setup.build_snapshot(used=_used(given.get("usageOfClusterQueue", {})))
    extra = {flavor_resource(key): amount for key, amount in given.get("extraRequest", {}).items()}
    found = {}
    for row in case["expected"]["shares"]:
        node = row["name"] if row["nodeType"] == "ClusterQueue" else _cohort(row["name"])
        known = _keys_below(setup, node)
        share = snapshot.quota.share(node, {key: extra[key] for key in extra if key in known})
        found[node] = (share.rounded, share.resource, share.borrows)
    expected = {
        row["name"] if row["nodeType"] == "ClusterQueue" else _cohort(row["name"]): (
            row["dominantResourceShare"],
            row["dominantResource"],
            row["borrowing"],
        )
        for row in case["expected"]["shares"]
    }
    return _compared(found, expected)


def check_borrowing(case: Case) -> str | None:
    """Check TestIsBorrowingOn: whether a queue borrows at all, and whether it borrows requested resources."""
    given = case["input"]
    tree = read_setup(given).build_snapshot(used=_used(given.get("usageOfClusterQueue", {}))).quota
    queue = given["clusterQueue"]
    requested = [flavor_resource(key) for key, amount in given.get("requested", {}).items() if amount]
    alone = tree.parent(queue) is None
    found = {
        "borrowing": tree.share(queue).borrows,
        "borrowingOnRequested": not alone and not tree.inside(queue, requested),
    }
    return _compared(found, {name: case["expected"].get(name, False) for name in found})


def check_lendable(case: Case) -> str | None:
    """Check TestCohortLendable: the amounts that a cohort can lend, by resource."""
    tree = read_setup(case["input"]).build_snapshot().quota
    found = {name: _shown(amount) for name, amount in tree.lendable(_cohort(case["input"]["cohort"])).items()}
    return _compared(found, case["expected"]["lendable"])


def snapshot_of(case: Case) -> str | None:
    """Check TestSnapshot: the sums of a set-up."""
    # These cases omit empty lists.
    setup = read_setup({"resourceFlavors": (), "topologies": (), **case["input"]})
    return _differs(setup, setup.build_snapshot(), case["expected"].get("snapshot", {}))


def removed_and_added(case: Case) -> str | None:
    """Check TestSnapshotAddRemoveWorkload and similar tables: before and after removing and adding
    workloads."""
    given, expected = case["input"], case["expected"]
    setup = read_setup(given)
    snapshot = setup.build_snapshot()
    before = _differs(setup, snapshot, expected.get("initialSnapshot", {}))
    if before is not None:
        return f"at first: {before}"
    held = {key: [task for task in setup.allocations if task.job == key] for key in _keys(given)}
    for key in given.get("remove", ()):
        for task in held[key]:
            snapshot.remove_allocation(task.id)
    for key in given.get("add", ()):
        for task in held[key]:
            snapshot.add_allocation(task)
    return _differs(setup, snapshot, expected.get("snapshot", {}))


TABLES: Mapping[str, Callable[[Case], str | None]] = {
    "TestAvailable": check_available,
    "TestDominantResourceShare": check_shares,
    "TestIsBorrowingOn": check_borrowing,
    "TestCohortLendable": check_lendable,
    "TestSnapshot": snapshot_of,
    "TestSnapshotAddRemoveWorkload": removed_and_added,
    "TestSnapshotAddRemoveWorkloadWithLendingLimit": removed_and_added,
}


def _differs(setup: Setup, snapshot: Snapshot, expected: Mapping[str, Any]) -> str | None:
    inactive = sorted(expected.get("inactiveClusterQueues", ()))
    if sorted(setup.inactive) != inactive:
        return f"expected inactive {inactive}, got {sorted(setup.inactive)}"
    queues = expected.get("clusterQueues", {})
    active = sorted(queue.id for queue in setup.queues if queue.id not in setup.inactive)
    if active != sorted(queues):
        return f"expected queues {sorted(queues)}, got {active}"
    for name, wanted in queues.items():
        difference = _compared(_queue(setup, snapshot, name, wanted), _plain(wanted))
        if difference is not None:
            return f"queue {name}: {difference}"
    for name, wanted in expected.get("cohorts", {}).items():
        node = _cohort(name)
        found = _node(snapshot, node, wanted)
        # A cohort that is only named has no object with a weight.
        if wanted.get("fairWeight", 0):
            found["fairWeight"] = snapshot.quota.weight_milli(node) / 1000
        difference = _compared(found, {key: wanted.get(key, {}) for key in found})
        if difference is not None:
            return f"cohort {name}: {difference}"
    return None


def _queue(setup: Setup, snapshot: Snapshot, name: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    rules = setup.get_queue(name).preemption
    parent = snapshot.quota.parent(name)
    tree = snapshot.quota
    return {
        **_node(snapshot, name, wanted),
        "available": _row(wanted.get("available", {}), lambda key: tree.available(name, key)),
        "potentiallyAvailable": _row(
            wanted.get("potentiallyAvailable", {}), lambda key: tree.potential(name, key)
        ),
        "quotas": {key: _limits(snapshot, name, key, row) for key, row in wanted.get("quotas", {}).items()},
        "cohort": "" if parent is None else parent.removeprefix(_cohort("")),
        "fairWeight": tree.weight_milli(name) / 1000,
        "preemption": _preemption(rules),
        "workloads": sorted(snapshot.jobs_charged_to(name)),
    }


def _node(snapshot: Snapshot, node: str, wanted: Mapping[str, Any]) -> dict[str, Any]:
    tree = snapshot.quota
    used = {f"{key.flavor}/{key.resource}": amount for key, amount in tree.usages(node).items()}
    return {
        "usage": {**dict.fromkeys(wanted.get("usage", {}), 0), **used},
        "subtreeQuota": _row(wanted.get("subtreeQuota", {}), lambda key: tree.subtree_quota(node, key)),
    }


def _limits(snapshot: Snapshot, node: str, key: str, row: Mapping[str, Any]) -> dict[str, Amount]:
    limits = snapshot.quota.limits(node, flavor_resource(key))
    found = {"Nominal": _shown(limits.own_nominal)}
    for name, limit in (("BorrowingLimit", limits.borrowing_limit), ("LendingLimit", limits.lending_limit)):
        if limit is not None or name in row:
            found[name] = _shown(limit)
    return found


def _preemption(rules: PreemptionPolicy) -> dict[str, Any]:
    found: dict[str, Any] = {
        "reclaimWithinCohort": _OTHERS[rules.reclaim],
        "withinClusterQueue": _WITHIN[rules.within_queue],
    }
    if rules.while_borrowing is not PreemptOthers.NEVER:
        found["borrowWithinCohort"] = {"policy": _OTHERS[rules.while_borrowing]}
        if rules.max_priority is not None:
            found["borrowWithinCohort"]["maxPriorityThreshold"] = rules.max_priority
    return found


def _plain(wanted: Mapping[str, Any]) -> dict[str, Any]:
    empty: dict[str, Any] = {
        "usage": {},
        "subtreeQuota": {},
        "available": {},
        "potentiallyAvailable": {},
        "quotas": {},
    }
    plain = {**empty, "cohort": "", "workloads": [], **wanted}
    del plain["flavorFungibility"]
    plain["workloads"] = sorted(plain["workloads"])
    rules = dict(plain.get("preemption", {}))
    if rules.get("borrowWithinCohort", {}).get("policy", "Never") == "Never":
        rules.pop("borrowWithinCohort", None)
    return {**plain, "preemption": {"reclaimWithinCohort": "Never", "withinClusterQueue": "Never", **rules}}


def _amounts(
    wanted: Mapping[str, Mapping[str, Amount]], ask: Callable[[str, FlavorResource], int | None]
) -> dict[str, dict[str, Amount]]:
    return {
        node: {key: _floored(ask(node, flavor_resource(key))) for key in row} for node, row in wanted.items()
    }


def _row(wanted: Iterable[str], ask: Callable[[FlavorResource], int | None]) -> dict[str, Amount]:
    return {key: _floored(ask(flavor_resource(key))) for key in wanted}


def _floored(amount: int | None) -> Amount:
    return _shown(None if amount is None else max(0, amount))


def _shown(amount: int | None) -> Amount:
    return UNLIMITED_WORD if amount is None or amount >= CEILING else amount


def _used(usage: Mapping[str, Mapping[str, int]]) -> dict[str, dict[FlavorResource, int]]:
    return {
        queue: {flavor_resource(key): amount for key, amount in row.items()} for queue, row in usage.items()
    }


def _keys_below(setup: Setup, node: str) -> set[FlavorResource]:
    """Return the quotas of a node and its descendants."""
    below = {node}
    while len(below) < len(below | {n.id for n in setup.quota_nodes if n.parent in below}):
        below |= {n.id for n in setup.quota_nodes if n.parent in below}
    return {quota.key for n in setup.quota_nodes if n.id in below for quota in n.quotas}


def _keys(given: Mapping[str, Any]) -> list[str]:
    return [*given.get("remove", ()), *given.get("add", ())]


def _cohort(name: str) -> str:
    return f"cohort/{name}"


def _compared(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    wrong = [key for key in sorted({*found, *expected}) if found.get(key) != expected.get(key)]
    if not wrong:
        return None
    return "; ".join(f"{key}: expected {expected.get(key)}, got {found.get(key)}" for key in wrong)
