"""Converts ResourceFlavors, ClusterQueues and Cohorts to flavors, queues and quota nodes.

A ClusterQueue becomes a queue and a leaf of the quota tree, both with its name; a Cohort becomes the quota
node `cohort/<name>`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from scheduling.conformance.errors import ObjectError
from scheduling.conformance.fields import CaseFields
from scheduling.conformance.kueue.manifests import quantities
from scheduling.conformance.kueue.manifests.podsets import read_toleration
from scheduling.engine.model import (
    Flavor,
    FlavorResource,
    Fungibility,
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
    Preference,
    Queue,
    Quota,
    QuotaNode,
    ResourceGroup,
    StopPolicy,
    Strategy,
    Taint,
    TaintEffect,
    WhenCan,
)

STRATEGIES = {"BestEffortFIFO": Strategy.BEST_EFFORT_FIFO, "StrictFIFO": Strategy.STRICT_FIFO}
STOPS = {"None": StopPolicy.NONE, "Hold": StopPolicy.HOLD, "HoldAndDrain": StopPolicy.HOLD_AND_DRAIN}
WITHIN = {
    "Never": PreemptWithin.NEVER,
    "LowerPriority": PreemptWithin.LOWER_PRIORITY,
    "LowerOrNewerEqualPriority": PreemptWithin.LOWER_OR_NEWER_EQUAL_PRIORITY,
}
OTHERS = {
    "Never": PreemptOthers.NEVER,
    "LowerPriority": PreemptOthers.LOWER_PRIORITY,
    "Any": PreemptOthers.ANY,
}
# `Borrow` and `Preempt` are the values of older API versions.
BORROW = {
    "Borrow": WhenCan.MAY_STOP_SEARCH,
    "MayStopSearch": WhenCan.MAY_STOP_SEARCH,
    "TryNextFlavor": WhenCan.TRY_NEXT_FLAVOR,
}
PREEMPT = {
    "Preempt": WhenCan.MAY_STOP_SEARCH,
    "MayStopSearch": WhenCan.MAY_STOP_SEARCH,
    "TryNextFlavor": WhenCan.TRY_NEXT_FLAVOR,
}
# The controllers of admission checks on which the placement of tasks depends.
PROVISIONING, ELSEWHERE = "kueue.x-k8s.io/provisioning-request", "kueue.x-k8s.io/multikueue"
PREFERENCES = {
    "BorrowingOverPreemption": Preference.BORROWING_OVER_PREEMPTION,
    "PreemptionOverBorrowing": Preference.PREEMPTION_OVER_BORROWING,
}


def cohort_node(name: str) -> str:
    """Return the id of a Cohort's quota node."""
    return f"cohort/{name}"


def read_flavor(source: CaseFields, levels: Mapping[str, tuple[str, ...]]) -> Flavor:
    """Return the flavor of a ResourceFlavor. `levels` are the node labels of each Topology, coarse to fine.

    Without a topology the flavor is only quota, and another scheduler chooses the nodes. With one, tasks are
    placed by domain.
    """
    spec = source.read_object("spec")
    topology = spec.read_text("topologyName")
    return Flavor(
        id=source.read_object("metadata").read_text("name"),
        node_labels=spec.read_labels("nodeLabels"),
        taints=tuple(read_taint(entry) for entry in spec.read_objects("nodeTaints")),
        tolerations=tuple(read_toleration(entry) for entry in spec.read_objects("tolerations")),
        placed=bool(topology),
        topology=levels.get(topology, ()),
        topology_aware=bool(levels.get(topology)),
    )


def read_taint(source: CaseFields) -> Taint:
    """Return a node taint."""
    effects = {effect.value: effect for effect in TaintEffect}
    effect = source.read_choice("effect", effects, TaintEffect.NO_SCHEDULE)
    return Taint(source.read_text("key"), source.read_text("value"), effect)


def read_queue(source: CaseFields) -> Queue:
    """Return the queue of a ClusterQueue; `read_leaf` reads its quotas."""
    spec = source.read_object("spec")
    name = source.read_object("metadata").read_text("name")
    scope = spec.read_object("admissionScope").read_text("admissionMode")
    return Queue(
        id=name,
        quota_node=name,
        resource_groups=tuple(
            ResourceGroup(
                group.read_texts("coveredResources"),
                tuple(f.read_text("name") for f in group.read_objects("flavors")),
            )
            for group in spec.read_objects("resourceGroups")
        ),
        strategy=spec.read_choice("queueingStrategy", STRATEGIES, Strategy.BEST_EFFORT_FIFO),
        stop_policy=spec.read_choice("stopPolicy", STOPS, StopPolicy.NONE),
        preemption=_preemption(spec.read_object("preemption")),
        fungibility=_fungibility(spec.read_object("flavorFungibility")),
        user_shares=scope == "UsageBasedAdmissionFairSharing",
    )


def read_leaf(source: CaseFields) -> QuotaNode:
    """Return the quota node of a ClusterQueue."""
    spec = source.read_object("spec")
    # Older API versions call the field `cohort`.
    cohort = spec.read_text("cohortName") or spec.read_text("cohort")
    return _quota_node(source, source.read_object("metadata").read_text("name"), cohort)


def read_cohort(source: CaseFields) -> QuotaNode:
    """Return the quota node of a Cohort."""
    spec = source.read_object("spec")
    parent = spec.read_text("parentName") or spec.read_text("parent")
    return _quota_node(source, cohort_node(source.read_object("metadata").read_text("name")), parent)


@dataclass(frozen=True, slots=True)
class Tree:
    """A forest without cycles. `cyclic` are the Cohorts that are their own ancestors, or descendants of such
    a Cohort; they are roots here."""

    nodes: tuple[QuotaNode, ...]
    cyclic: frozenset[str] = frozenset()


def complete_tree(nodes: Iterable[QuotaNode]) -> Tree:
    """Return the tree with nodes that are only named as parents, and with cycles removed."""
    known = {node.id: node for node in nodes}
    for node in tuple(known.values()):
        if node.parent is not None and node.parent not in known:
            known[node.parent] = QuotaNode(id=node.parent)
    cyclic = frozenset(key for key in known if _never_ends(key, known))
    whole = (replace(node, parent=None) if node.id in cyclic else node for node in known.values())
    return Tree(tuple(whole), cyclic)


def _never_ends(start: str, known: Mapping[str, QuotaNode]) -> bool:
    seen: set[str] = set()
    key: str | None = start
    while key is not None and key not in seen:
        seen.add(key)
        key = known[key].parent
    return key is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """The other objects that exist. None means that they are unknown, so that none counts as missing."""

    flavors: Collection[str] | None = None
    topologies: Collection[str] | None = None
    checks: Collection[str] | None = None
    cyclic: Collection[str] = field(default_factory=frozenset)


def find_inactive_reason(
    source: CaseFields, node: QuotaNode, topology_of: Mapping[str, str], known: Known
) -> str | None:
    """Return why a ClusterQueue admits nothing regardless of quota; None if it is active."""
    spec = source.read_object("spec")
    if spec.read_choice("stopPolicy", STOPS, StopPolicy.NONE) is not StopPolicy.NONE:
        return "it is stopped"
    if node.id in known.cyclic:
        return "its cohort is part of a cycle"
    for name in _flavor_names(spec):
        if known.flavors is not None and name not in known.flavors:
            return f"it names the flavor {name}, which does not exist"
        topology = topology_of.get(name, "")
        if topology and known.topologies is not None and topology not in known.topologies:
            return f"its flavor {name} names the topology {topology}, which does not exist"
    for check in spec.read_object("admissionChecksStrategy").read_objects("admissionChecks"):
        if known.checks is not None and check.read_text("name") not in known.checks:
            return f"it names the admission check {check.read_text('name')}, which is not active"
    return None


def on_order(source: CaseFields, controllers: Mapping[str, str]) -> tuple[str, ...]:
    """Return the flavors of a ClusterQueue whose nodes exist only after quota is reserved.

    `controllers` has the controller of each admission check. A provisioning check orders nodes for the
    flavors it is bound to, or for all; a job that another cluster runs is not placed in this one.
    """
    spec = source.read_object("spec")
    if runs_elsewhere(source, controllers):
        return tuple(dict.fromkeys(_flavor_names(spec)))
    found: dict[str, None] = {}
    for check in spec.read_object("admissionChecksStrategy").read_objects("admissionChecks"):
        if controllers.get(check.read_text("name")) == PROVISIONING:
            bound = check.read_texts("onFlavors") or tuple(_flavor_names(spec))
            found.update(dict.fromkeys(bound))
    return tuple(found)


def runs_elsewhere(source: CaseFields, controllers: Mapping[str, str]) -> bool:
    """Return whether a ClusterQueue's workloads run in other clusters, which place them."""
    checks = source.read_object("spec", "admissionChecksStrategy").read_objects("admissionChecks")
    return any(controllers.get(check.read_text("name")) == ELSEWHERE for check in checks)


def read_weight(source: CaseFields) -> int:
    """Return the weight in a `fairSharing` object, in thousandths."""
    if "weight" not in source:
        return 1000
    try:
        return quantities.parse_thousandths(source.value["weight"])
    except quantities.KueueQuantityError as error:
        raise ObjectError(source.path_of("weight"), str(error)) from error


def _group(source: CaseFields) -> ResourceGroup:
    names = tuple(entry.read_text("name") for entry in source.read_objects("flavors"))
    return ResourceGroup(source.read_texts("coveredResources"), names)


def _flavor_names(spec: CaseFields) -> Iterator[str]:
    for group in spec.read_objects("resourceGroups"):
        for entry in group.read_objects("flavors"):
            yield entry.read_text("name")


def _quota_node(source: CaseFields, node_id: str, parent: str) -> QuotaNode:
    spec = source.read_object("spec")
    return QuotaNode(
        id=node_id,
        parent=cohort_node(parent) if parent else None,
        quotas=tuple(_quotas(spec)),
        weight_milli=read_weight(spec.read_object("fairSharing")),
    )


def _quotas(spec: CaseFields) -> Iterator[Quota]:
    for group in spec.read_objects("resourceGroups"):
        for entry in group.read_objects("flavors"):
            for resource in entry.read_objects("resources"):
                key = FlavorResource(entry.read_text("name"), resource.read_text("name"))
                yield Quota(
                    flavor=key.flavor,
                    resource=key.resource,
                    own_nominal=_limit(resource, "nominalQuota", key.resource, 0),
                    borrowing_limit=_limit(resource, "borrowingLimit", key.resource, None),
                    lending_limit=_limit(resource, "lendingLimit", key.resource, None),
                )


def _limit(source: CaseFields, key: str, resource: str, default: int | None) -> int | None:
    if key not in source:
        return default
    try:
        return quantities.parse_limit(source.value[key], resource)
    except quantities.KueueQuantityError as error:
        raise ObjectError(source.path_of(key), str(error)) from error


def _preemption(source: CaseFields) -> PreemptionPolicy:
    borrowing = source.read_object("borrowWithinCohort")
    bounded = "maxPriorityThreshold" in borrowing
    return PreemptionPolicy(
        within_queue=source.read_choice("withinClusterQueue", WITHIN, PreemptWithin.NEVER),
        reclaim=source.read_choice("reclaimWithinCohort", OTHERS, PreemptOthers.NEVER),
        while_borrowing=borrowing.read_choice("policy", OTHERS, PreemptOthers.NEVER),
        # Kueue compares the value with Never, and a missing value differs from it.
        within_while_borrowing="reclaimWithinCohort" not in source,
        max_priority=borrowing.read_number("maxPriorityThreshold") if bounded else None,
    )


def _fungibility(source: CaseFields) -> Fungibility:
    return Fungibility(
        when_can_borrow=source.read_choice("whenCanBorrow", BORROW, WhenCan.MAY_STOP_SEARCH),
        when_can_preempt=source.read_choice("whenCanPreempt", PREEMPT, WhenCan.TRY_NEXT_FLAVOR),
        preference=source.read_choice("preference", PREFERENCES, Preference.BORROWING_OVER_PREEMPTION),
    )
