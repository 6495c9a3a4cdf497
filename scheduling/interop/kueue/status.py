"""The status of a workload: conditions as Kueue's scheduler sets them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Status = dict[str, Any]
Condition = tuple[str, str]
"""Status and reason."""


def conditions_of(status: Mapping[str, Any]) -> dict[str, Condition]:
    """Conditions by type."""
    return {c["type"]: (c["status"], c["reason"]) for c in status.get("conditions", ())}


def reserved(status: Status, admission: Mapping[str, Any]) -> None:
    """Quota is reserved; with every check passed the workload is admitted at once.

    What was said of an earlier eviction no longer holds.
    """
    status["admission"] = admission
    _set(status, "QuotaReserved", "True", "QuotaReserved")
    for kind in ("Evicted", "Preempted", "BlockedOnPreemptionGates"):
        if conditions_of(status).get(kind, ("", ""))[0] == "True":
            _set(status, kind, "False", "QuotaReserved")
    if all(check.get("state") == "Ready" for check in status.get("admissionChecks", ())):
        _set(status, "Admitted", "True", "Admitted")
    else:
        _set(status, "Admitted", "False", "UnsatisfiedAdmissionChecks")


def waiting(status: Status, reason: str) -> None:
    """No quota is reserved, and why."""
    _set(status, "QuotaReserved", "False", reason)
    _set(status, "Admitted", "False", "NoReservation")


def preempted(status: Status, reason: str) -> None:
    """It was told to leave for another."""
    _set(status, "Evicted", "True", "Preempted")
    _set(status, "Preempted", "True", reason)


def gated(status: Status) -> None:
    """It may not ask others to leave yet."""
    _set(status, "BlockedOnPreemptionGates", "True", "PreemptionGated")


def replaced(status: Status) -> None:
    """A larger one took its place."""
    _set(status, "Finished", "True", "WorkloadSliceReplaced")


def admitted(status: Mapping[str, Any]) -> bool:
    """Whether nothing more keeps it from running."""
    return conditions_of(status).get("Admitted", ("", ""))[0] == "True"


def _set(status: Status, kind: str, value: str, reason: str) -> None:
    kept = [entry for entry in status.get("conditions", ()) if entry["type"] != kind]
    status["conditions"] = [*kept, {"type": kind, "status": value, "reason": reason}]
