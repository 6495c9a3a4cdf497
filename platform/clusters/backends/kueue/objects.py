"""The quota tree as Kueue's objects: a flavor, a cohort or a pair of queues for each part."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from clusters.backends.delegation import (
    Cohort,
    ProjectedFlavor,
    ProjectedPriority,
    Projection,
    QueueRules,
    QuotaLimit,
)
from clusters.backends.kubernetes.client.api import Json
from clusters.backends.kubernetes.namespaces.namespaces import WORKSPACE
from clusters.backends.kueue.amounts import COVERED, flavor_quotas
from clusters.backends.kueue.names import POOL, TITLE, VERSION, name_of, owner_labels

FLAVORS: Final = "resourceflavors"
PRIORITIES: Final = "workloadpriorityclasses"
COHORTS: Final = "cohorts"
CLUSTER_QUEUES: Final = "clusterqueues"
LOCAL_QUEUES: Final = "localqueues"
IN_ORDER: Final = (FLAVORS, PRIORITIES, COHORTS, CLUSTER_QUEUES, LOCAL_QUEUES)
"""Kinds that others refer to come first; objects are deleted in the reverse order."""

_WORDS: Final = {
    "best-effort-fifo": "BestEffortFIFO",
    "strict-fifo": "StrictFIFO",
    "none": "None",
    "hold": "Hold",
    "hold-and-drain": "HoldAndDrain",
    "never": "Never",
    "lower-priority": "LowerPriority",
    "lower-or-newer-equal-priority": "LowerOrNewerEqualPriority",
    "any": "Any",
    "may-stop-search": "MayStopSearch",
    "try-next-flavor": "TryNextFlavor",
    "borrowing-over-preemption": "BorrowingOverPreemption",
    "preemption-over-borrowing": "PreemptionOverBorrowing",
}


@dataclass(frozen=True, slots=True)
class ProjectedObject:
    """An object in its wanted state: a value None must be absent, fields that are not named belong to others.

    `workspace`: the id of the workspace to which its namespace has to belong.
    """

    plural: str
    namespace: str
    content: Json
    workspace: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """The kind, namespace and name of the object."""
        return self.plural, self.namespace, str(self.content["metadata"]["name"])


def projected_objects(projection: Projection, owner: str, installation: str) -> list[ProjectedObject]:
    """Return every object of the projection, those that others refer to first."""
    pools = {pool.id: pool for pool in projection.pools}
    made = [_flavor(pool) for pool in projection.pools]
    made += [_priority(item) for item in projection.priorities]
    made += [_cohort(item, pools) for item in projection.cohorts]
    made += [_cluster_queue(item, pools) for item in projection.queues]
    made += [_local_queue(item) for item in projection.queues]
    for item in made:
        item.content["metadata"]["labels"] = owner_labels(owner, installation)
    return sorted(made, key=lambda item: (IN_ORDER.index(item.plural), *item.key))


def _wanted(
    plural: str, kind: str, key: str, title: str, content: Json, namespace: str = ""
) -> ProjectedObject:
    metadata = {"name": name_of(key), "annotations": {TITLE: title}}
    if namespace:
        metadata["namespace"] = namespace
    return ProjectedObject(
        plural, namespace, {"apiVersion": VERSION, "kind": kind, "metadata": metadata, **content}
    )


def _flavor(pool: ProjectedFlavor) -> ProjectedObject:
    spec = {
        "nodeLabels": {**pool.node_labels, POOL: name_of(pool.id)},
        "nodeTaints": [dict(taint) for taint in pool.taints],
        "tolerations": [dict(item) for item in pool.tolerations],
    }
    return _wanted(FLAVORS, "ResourceFlavor", pool.id, pool.name, {"spec": spec})


def _priority(item: ProjectedPriority) -> ProjectedObject:
    content = {"value": item.value, "description": item.name}
    return _wanted(PRIORITIES, "WorkloadPriorityClass", item.id, item.name, content)


def _cohort(item: Cohort, pools: Mapping[str, ProjectedFlavor]) -> ProjectedObject:
    own = [pools[key] for key in sorted({limit.pool for limit in item.limits})]
    spec = {
        "parentName": name_of(item.parent) if item.parent else None,
        "fairSharing": {"weight": f"{item.weight_milli}m"},
        "resourceGroups": _groups(own, item.limits, bounded=item.parent is not None),
    }
    return _wanted(COHORTS, "Cohort", item.id, item.name, {"spec": spec})


def _cluster_queue(item: QueueRules, pools: Mapping[str, ProjectedFlavor]) -> ProjectedObject:
    when = [_WORDS[item.when_can_borrow], _WORDS[item.when_can_preempt]]
    preferred = set(when) == {"TryNextFlavor"}  # otherwise Kueue takes no preference
    fungibility = {
        "whenCanBorrow": when[0],
        "whenCanPreempt": when[1],
        "preference": _WORDS[item.preference] if preferred else None,
    }
    spec = {
        "cohortName": name_of(item.parent),
        "namespaceSelector": {
            "matchLabels": {"kubernetes.io/metadata.name": item.namespace, WORKSPACE: item.workspace}
        },
        "queueingStrategy": _WORDS[item.strategy],
        "stopPolicy": _WORDS[item.stop_policy],
        "fairSharing": {"weight": f"{item.weight_milli}m"},
        "preemption": _preemption(item),
        "flavorFungibility": fungibility,
        "resourceGroups": _groups([pools[key] for key in item.pools], item.limits, bounded=True),
    }
    title = f"{item.namespace}/{item.name}"
    return _wanted(CLUSTER_QUEUES, "ClusterQueue", item.id, title, {"spec": spec})


def _preemption(item: QueueRules) -> Json:
    # A queue that does not reclaim its own quota does not preempt in order to borrow either.
    takes = item.reclaim != "never" and item.while_borrowing != "never"
    borrowing = {
        "policy": "LowerPriority" if takes else "Never",
        "maxPriorityThreshold": item.max_priority if takes else None,
    }
    return {
        "withinClusterQueue": _WORDS[item.within],
        "reclaimWithinCohort": _WORDS[item.reclaim],
        "borrowWithinCohort": borrowing,
    }


def _groups(pools: list[ProjectedFlavor], limits: Iterable[QuotaLimit], *, bounded: bool) -> list[Json]:
    if not pools:
        return []
    return [{"coveredResources": list(COVERED), "flavors": flavor_quotas(pools, limits, bounded=bounded)}]


def _local_queue(item: QueueRules) -> ProjectedObject:
    content = {"spec": {"clusterQueue": name_of(item.id)}}
    made = _wanted(LOCAL_QUEUES, "LocalQueue", item.id, item.name, content, item.namespace)
    return replace(made, workspace=item.workspace)
