"""The status of a workload: conditions as Kueue's scheduler sets them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

Status = dict[str, Any]
Condition = tuple[str, str]
"""Status and reason."""


def conditions_of(status: Mapping[str, Any]) -> dict[str, Condition]:
    """Conditions by type."""
    return {c["type"]: (c["status"], c["reason"]) for c in status.get("conditions", ())}


def holds_quota(status: Mapping[str, Any]) -> bool:
    """Return whether quota is reserved for it."""
    return conditions_of(status).get("QuotaReserved", ("", ""))[0] == "True"


def puts_off(status: Mapping[str, Any]) -> bool:
    """Return whether the places of some PodSet are still to be found."""
    return any(
        part.get("delayedTopologyRequest") == "Pending" and not part.get("topologyAssignment")
        for part in (status.get("admission") or {}).get("podSetAssignments", ())
    )


def set_reserved(status: Status, admission: Mapping[str, Any], checks: Collection[str] = ()) -> None:
    """Quota is reserved; with every check passed and every place found it is admitted at once.

    `checks` are those that it must pass. What was said of an earlier eviction no longer holds.
    """
    status["admission"] = admission
    _set(status, "QuotaReserved", "True", "QuotaReserved")
    for kind in ("Evicted", "Preempted", "BlockedOnPreemptionGates"):
        if conditions_of(status).get(kind, ("", ""))[0] == "True":
            _set(status, kind, "False", "QuotaReserved")
    sync_admitted(status, checks)


def sync_admitted(status: Status, checks: Collection[str] = ()) -> None:
    """Say whether a workload that holds quota may run."""
    states = {check["name"]: check.get("state") for check in status.get("admissionChecks", ())}
    ready = all(state == "Ready" for state in (*states.values(), *(states.get(name) for name in checks)))
    if ready and not puts_off(status):
        _set(status, "Admitted", "True", "Admitted")
    else:
        _set(status, "Admitted", "False", "UnsatisfiedAdmissionChecks")


def set_waiting(status: Status, reason: str) -> None:
    """No quota is reserved, and why."""
    _set(status, "QuotaReserved", "False", reason)
    _set(status, "Admitted", "False", "NoReservation")


def set_preempted(status: Status, reason: str) -> None:
    """It was told to leave for another."""
    _set(status, "Evicted", "True", "Preempted")
    _set(status, "Preempted", "True", reason)


def gave_up(status: Status) -> None:
    """It lost a node, and nothing could stand in for it."""
    _set(status, "Evicted", "True", "NodeFailures")


def set_gated(status: Status) -> None:
    """It may not ask others to leave yet."""
    _set(status, "BlockedOnPreemptionGates", "True", "PreemptionGated")


def set_replaced(status: Status) -> None:
    """A larger one took its place."""
    _set(status, "Finished", "True", "WorkloadSliceReplaced")


def is_admitted(status: Mapping[str, Any]) -> bool:
    """Return whether nothing more keeps the workload from running."""
    return conditions_of(status).get("Admitted", ("", ""))[0] == "True"


def _set(status: Status, kind: str, value: str, reason: str) -> None:
    others = [entry for entry in status.get("conditions", ()) if entry["type"] != kind]
    status["conditions"] = [*others, {"type": kind, "status": value, "reason": reason}]
