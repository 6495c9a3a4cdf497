"""Sets and reads the conditions in the status of a workload as Kueue's scheduler does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

Status = dict[str, Any]
Condition = tuple[str, str]
"""Status and reason."""


def conditions_of(status: Mapping[str, Any]) -> dict[str, Condition]:
    """Return the conditions by type."""
    return {c["type"]: (c["status"], c["reason"]) for c in status.get("conditions", ())}


def holds_quota(status: Mapping[str, Any]) -> bool:
    """Return whether quota is reserved for the workload."""
    return conditions_of(status).get("QuotaReserved", ("", ""))[0] == "True"


def puts_off(status: Mapping[str, Any]) -> bool:
    """Return whether the topology assignment of some PodSet is delayed."""
    return any(
        part.get("delayedTopologyRequest") == "Pending" and not part.get("topologyAssignment")
        for part in (status.get("admission") or {}).get("podSetAssignments", ())
    )


def set_reserved(status: Status, admission: Mapping[str, Any], checks: Collection[str] = ()) -> None:
    """Record that quota is reserved; with all checks ready and all pods placed, the workload is admitted at
    once.

    `checks` are the admission checks that it must pass. Conditions of an earlier eviction become false.
    """
    status["admission"] = admission
    _set(status, "QuotaReserved", "True", "QuotaReserved")
    for kind in ("Evicted", "Preempted", "BlockedOnPreemptionGates"):
        if conditions_of(status).get(kind, ("", ""))[0] == "True":
            _set(status, kind, "False", "QuotaReserved")
    sync_admitted(status, checks)


def sync_admitted(status: Status, checks: Collection[str] = ()) -> None:
    """Set the condition `Admitted` of a workload that holds quota."""
    states = {check["name"]: check.get("state") for check in status.get("admissionChecks", ())}
    ready = all(state == "Ready" for state in (*states.values(), *(states.get(name) for name in checks)))
    if ready and not puts_off(status):
        _set(status, "Admitted", "True", "Admitted")
    else:
        _set(status, "Admitted", "False", "UnsatisfiedAdmissionChecks")


def set_waiting(status: Status, reason: str) -> None:
    """Record that no quota is reserved, with the reason."""
    _set(status, "QuotaReserved", "False", reason)
    _set(status, "Admitted", "False", "NoReservation")


def set_preempted(status: Status, reason: str) -> None:
    """Record that the workload was preempted."""
    _set(status, "Evicted", "True", "Preempted")
    _set(status, "Preempted", "True", reason)


def gave_up(status: Status) -> None:
    """Record that the workload was evicted, because a failed node could not be replaced."""
    _set(status, "Evicted", "True", "NodeFailures")


def set_gated(status: Status) -> None:
    """Record that preemption by the workload is blocked by its gates."""
    _set(status, "BlockedOnPreemptionGates", "True", "PreemptionGated")


def set_replaced(status: Status) -> None:
    """Record that a larger workload slice has replaced the workload."""
    _set(status, "Finished", "True", "WorkloadSliceReplaced")


def is_admitted(status: Mapping[str, Any]) -> bool:
    """Return whether the workload is admitted."""
    return conditions_of(status).get("Admitted", ("", ""))[0] == "True"


def _set(status: Status, kind: str, value: str, reason: str) -> None:
    others = [entry for entry in status.get("conditions", ()) if entry["type"] != kind]
    status["conditions"] = [*others, {"type": kind, "status": value, "reason": reason}]
