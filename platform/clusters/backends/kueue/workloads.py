"""A job as a Workload of Kueue, and a Workload's conditions as a verdict.

The platform creates the Workload itself, and its pods only after the admission. A Workload is admitted as a
whole, so a gang needs no pod group; a waiting job has only one small object in the API server; and Kueue
counts its quota as used until the platform releases it, after every pod is confirmed gone, which is the
platform's own rule. (Pods with gates, or pod groups, would be deleted by Kueue when it evicts, without being
created again; and each waiting job would have all its pods in the API server.)
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from clusters.backends.delegation import DelegatedPodSet, DelegatedWorkload, VerdictKind, WorkloadVerdict
from clusters.backends.kubernetes.client.api import Json
from clusters.backends.kueue.amounts import task_requests
from clusters.backends.kueue.names import (
    ATTEMPT,
    JOB,
    OWNER,
    POOL,
    SHAPE,
    TITLE,
    VERSION,
    key_of,
    name_of,
    owner_labels,
)
from foundation.core.reasons import Reason

MOST_GROUPS: Final = 8
"""The most pod sets of one Workload."""
RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
EVICTED: Final = "Evicted"
FINISHED: Final = "Finished"
REQUEUED: Final = "Requeued"
_PREEMPTED: Final = "Preempted"

# Kueue gives the reason of a preemption in the condition Preempted, and any other in the condition Evicted.
_RULES: Final = {
    "InClusterQueue": "IN_QUEUE_PRIORITY",
    "InCohortReclamation": "RECLAIM_NOMINAL",
    "InCohortReclaimWhileBorrowing": "RECLAIM_WHILE_BORROWING",
    "InCohortFairSharing": "FAIR_SHARE",
    "ClusterQueueStopped": "QUEUE_DRAINED",
    "LocalQueueStopped": "QUEUE_DRAINED",
    "NodeFailures": "NODE_LOST",
}
_OTHERWISE: Final = "NOT_READY"

# The first match applies. Kueue's message names each flavor that it tried; its last reason counts.
_REASONS: Final = (
    (re.compile(r"Pending the preemption"), Reason.WAITING_FOR_PREEMPTED),
    (re.compile(r"insufficient unused quota"), Reason.WAITING_FOR_QUOTA),
    (re.compile(r"is inactive|is stopped|is terminating|doesn't exist"), Reason.QUEUE_STOPPED),
    (re.compile(r"maximum capacity|insufficient quota|limit"), Reason.EXCEEDS_MAX_QUOTA),
    (
        re.compile(r"doesn't match node affinity|untolerated taint|unavailable in ClusterQueue"),
        Reason.NEVER_FITS,
    ),
)
_MISSING: Final = re.compile(r"insufficient unused quota for (\S+) in flavor (\S+), (\S+) more needed")


def build_workload(workload: DelegatedWorkload, owner: str, installation: str) -> Json:
    """Build the Workload of a waiting job."""
    spec = {
        "queueName": name_of(workload.queue),
        "priority": workload.priority,
        "priorityClassRef": {
            "group": "kueue.x-k8s.io",
            "kind": "WorkloadPriorityClass",
            "name": name_of(workload.priority_class),
        },
        "podSets": [_pod_set(group) for group in workload.groups],
    }
    return {
        "apiVersion": VERSION,
        "kind": "Workload",
        "metadata": {
            "name": workload.name,
            "namespace": workload.namespace,
            "labels": {**owner_labels(owner, installation), JOB: workload.job},
            "annotations": {
                TITLE: workload.name,
                SHAPE: shape_of(workload),
                ATTEMPT: str(workload.attempt),
                # In addition to the labels: lists and watches select by labels, which other clients may
                # remove.
                OWNER: owner,
                JOB: workload.job,
            },
        },
        "spec": spec,
    }


def shape_of(workload: DelegatedWorkload) -> str:
    """Return a digest of all fields on which an admission depends."""
    detail = [workload.queue, workload.priority_class, workload.priority, *map(_pod_set, workload.groups)]
    return hashlib.sha256(json.dumps(detail, sort_keys=True).encode()).hexdigest()[:16]


def _pod_set(group: DelegatedPodSet) -> Json:
    asked = task_requests(
        cpu_millicores=group.cpu_millicores,
        memory_mib=group.memory_mib,
        cards=group.cards,
        cores=group.cores,
        gpu_memory_mib=group.gpu_memory_mib,
    )
    ours = {"key": POOL, "operator": "In", "values": [name_of(pool) for pool in group.pools]}
    terms = [{"matchExpressions": [ours, *term]} for term in (group.node_affinity or ([],))]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod_set: Json = {
        "name": group.name,
        "count": group.count,
        "template": {
            "spec": {
                "restartPolicy": "Never",
                "nodeSelector": dict(group.node_selector),
                "affinity": {"nodeAffinity": required},
                "tolerations": [dict(item) for item in group.tolerations],
                "containers": [{"name": "main", "resources": {"requests": asked}}],
            }
        },
    }
    if group.least < group.count:
        pod_set["minCount"] = group.least
    return pod_set


def read_verdict(found: Json, names: Mapping[str, str], *, ours: bool = True) -> WorkloadVerdict:
    """Read a Workload's conditions; `names` are the flavors' display names by id. A Workload of another owner
    has no job.
    """
    metadata, spec, status = found["metadata"], found["spec"], found.get("status") or {}
    annotations = metadata.get("annotations") or {}
    conditions = {item["type"]: item for item in status.get("conditions") or ()}
    kind = _kind(conditions)
    code, detail = "", ""
    numbers: dict[str, int | str] = {}
    if kind is VerdictKind.TERMINATING:
        # Kueue's message names other tenants by their queues, which the job's owner may not see.
        code = _rule(conditions)
    elif kind is VerdictKind.WAITING:
        code, numbers, detail = _why(conditions.get(RESERVED) or {}, names)
    assigned = (status.get("admission") or {}).get("podSetAssignments") or ()
    return WorkloadVerdict(
        namespace=metadata["namespace"],
        name=metadata["name"],
        job=(metadata.get("labels") or {}).get(JOB, "") if ours else "",
        kind=kind,
        code=code,
        numbers=numbers,
        detail=detail,
        pools={item["name"]: _pool(item) for item in assigned},
        counts={item["name"]: int(item.get("count", 0)) for item in assigned},
        shape=annotations.get(SHAPE, ""),
        attempt=int(annotations[ATTEMPT]) if annotations.get(ATTEMPT, "").isdecimal() else 0,
        active=spec.get("active", True),
        reserved=_is(conditions, RESERVED),
        content=found,
    )


def _is(conditions: Mapping[str, Json], kind: str) -> bool:
    return (conditions.get(kind) or {}).get("status") == "True"


def _kind(conditions: Mapping[str, Json]) -> VerdictKind:
    if _is(conditions, FINISHED):
        return VerdictKind.ENDED
    if not _is(conditions, RESERVED):
        return VerdictKind.WAITING
    if _is(conditions, EVICTED):
        return VerdictKind.TERMINATING
    return VerdictKind.ADMITTED if _is(conditions, ADMITTED) else VerdictKind.WAITING


def _rule(conditions: Mapping[str, Json]) -> str:
    evicted = conditions[EVICTED]
    cause = conditions.get(_PREEMPTED) if evicted["reason"] == _PREEMPTED else None
    return _RULES.get((cause or evicted)["reason"], _OTHERWISE)


def _why(reserved: Json, names: Mapping[str, str]) -> tuple[str, dict[str, int | str], str]:
    detail = replace_flavor_names(reserved.get("message", ""), names)
    if reserved.get("status") == "True":
        return Reason.NO_ROOM, {}, detail  # quota is reserved; an admission check is pending
    code = next((code for pattern, code in _REASONS if pattern.search(detail)), "")
    numbers: dict[str, int | str] = {}
    if missing := _MISSING.search(detail):
        numbers = {"resource": missing[1], "flavor": missing[2], "short": missing[3]}
    return code, numbers, detail


def replace_flavor_names(detail: str, names: Mapping[str, str]) -> str:
    """Replace flavors in a message of Kueue's with their display names."""
    return re.sub(r"allotment-[0-9a-f]{32}", lambda found: names.get(key_of(found[0]), found[0]), detail)


def _pool(assigned: Mapping[str, Any]) -> str:
    """Return the flavor of a pod set; all resources of a queue come from one flavor."""
    chosen = sorted(set((assigned.get("flavors") or {}).values()))
    return key_of(chosen[0]) if len(chosen) == 1 else ""
