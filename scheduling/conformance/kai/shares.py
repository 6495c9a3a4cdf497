"""Checks KAI-Scheduler's table of the division of resources among queues."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from scheduling.conformance.errors import BadCase, Skipped
from scheduling.conformance.kai.division import Claimant, divide_rest, divide_shares

Case = Mapping[str, Any]

RESOURCES: Final = ("CPU", "GPU", "Memory")
EXACT: Final = 1e-6


def check_division(case: Case) -> str | None:
    """Make the calls of a case and compare the shares, and the rest if the case has one."""
    for call, expected in zip(case["input"]["calls"], case["expected"]["results"], strict=True):
        names = RESOURCES if "resource" not in call else (call["resource"],)
        for resource in names:
            shares, left = _called(call, resource)
            for queue in sorted(shares):
                wanted = float(expected["fairShare"][queue][resource])
                if abs(wanted - shares[queue]) > EXACT:
                    return f"expected {queue} {resource} {wanted}, got {shares[queue]}"
            if "remaining" in expected and abs(float(expected["remaining"]) - left) > EXACT:
                return f"expected {expected['remaining']} {resource} left, got {left}"
    return None


def _called(call: Mapping[str, Any], resource: str) -> tuple[dict[str, float], float]:
    queues = [build_claimant(name, queue, resource) for name, queue in sorted(call["queues"].items())]
    total = call["total"]
    amount = float(total.get(resource, 0) if isinstance(total, Mapping) else total)
    match call["function"]:
        case "setResourceShare" | "SetResourcesShare":
            return divide_shares(amount, queues, float(call["kValue"]))
        case "divideOverQuotaResource":
            before = {
                name: float(queue[resource].get("FairShare", 0)) for name, queue in call["queues"].items()
            }
            return divide_rest(amount, queues, before, float(call["kValue"]))
    raise BadCase(f"there is no function {call['function']}")


def build_claimant(name: str, queue: Mapping[str, Any], resource: str) -> Claimant:
    """Return one queue of a case for one resource."""
    found = queue.get(resource, {})
    return Claimant(
        id=name,
        deserved=float(found.get("Deserved", 0)),
        limit=float(found.get("MaxAllowed", 0)),
        weight=float(found.get("OverQuotaWeight", 0)),
        request=float(found.get("Request", 0)),
        priority=int(queue.get("Priority", 0)),
        created=int(queue.get("createdRank", 0)),
        usage=float(found.get("Usage", 0)),
    )


def own_rule(case: Case) -> str | None:
    """Skip tables of single functions of KAI's sharing, for which the engine has other rules.

    Raises:
        Skipped: always; the engine compares dominant resource shares of borrowed quota.
    """
    raise Skipped("KAI's own rule of sharing: the engine goes by nominal, borrowing and dominant share")


TABLES: Final[Mapping[str, Callable[[Case], str | None]]] = {
    "TestProportion_resource_division": check_division,
    "TestReclaimable": own_rule,
    "TestGetQueueOrderResult": own_rule,
}
