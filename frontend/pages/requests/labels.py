"""States and amounts of requests, loans and budgets as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.quantities import Resource
from frontend.pages.quotas.rows import TITLES
from frontend.texts import formats, reasons
from frontend.texts.pools import Place, name_pool
from quotas.models import BudgetAction, OverrideState, QuotaNode, RequestState
from quotas.texts.amounts import describe_amounts, format_amount

Word = tuple[str | Promise, str]
"""The text and the tone of a tag."""

REQUESTS: Final[dict[str, Word]] = {
    RequestState.PENDING: (gettext_lazy("Pending approval"), "waiting"),
    RequestState.COUNTERED: (gettext_lazy("Changes proposed"), "info"),
    RequestState.APPROVED: (gettext_lazy("approved"), "running"),
    RequestState.REJECTED: (gettext_lazy("rejected"), "failed"),
    RequestState.DECLINED: (gettext_lazy("Proposal declined"), "done"),
    RequestState.WITHDRAWN: (gettext_lazy("withdrawn"), "done"),
    RequestState.EXPIRED: (gettext_lazy("expired"), "done"),
}
LOANS: Final[dict[str, Word]] = {
    OverrideState.PLANNED: (gettext_lazy("Upcoming"), "waiting"),
    OverrideState.ACTIVE: (gettext_lazy("In effect"), "running"),
    OverrideState.ENDED: (gettext_lazy("returned"), "done"),
    OverrideState.CANCELLED: (gettext_lazy("canceled"), "done"),
    OverrideState.MISSED: (gettext_lazy("Failed to start"), "failed"),
}
ACTIONS: Final[dict[str, str | Promise]] = {
    BudgetAction.WARN: gettext_lazy("Alert only"),
    BudgetAction.HOLD: gettext_lazy("Block new jobs"),
    BudgetAction.PREEMPTIBLE_ONLY: gettext_lazy("Allow preemptible jobs only"),
    BudgetAction.STOP_PREEMPTIBLE: gettext_lazy("Block new jobs and stop preemptible jobs"),
}
_LIMITS: Final = {
    "nominal": "",
    "borrowing_limit": gettext_lazy("borrowing limit"),
    "lending_limit": gettext_lazy("lending limit"),
}


def node_word(node: QuotaNode) -> str:
    """Return the name of a quota node: the tenant, or its queue."""
    return f"{node.tenant.name} / {node.queue.name}" if node.is_queue else node.tenant.name


def wish_lines(items: Sequence[Mapping[str, Any]], current: Sequence[Mapping[str, Any]]) -> list[str]:
    """Describe the requested change: `a100 · Compute: 8 cards → 12 cards`."""
    was = {_place(item): item for item in current}
    pools = {(item["cluster"], item["flavor"]) for item in items}
    lines = []
    for item in items:
        resource, before = Resource(item["resource"]), was.get(_place(item), {})
        for name, word in _LIMITS.items():
            if name in item:
                change = f"{_amount(resource, before.get(name))} → {_amount(resource, item[name])}"
                pool = name_pool((item["cluster"], item["flavor"]), pools)
                what = f"{pool} · {TITLES[resource]}" + (f" · {word}" if word else "")
                lines.append(f"{what}{_(': ')}{change}")
    return lines


def _amount(resource: Resource, value: int | None) -> str:
    """Return an amount as text; compute is in GPUs, because its row names the resource."""
    if resource is Resource.GPU_CORES and value is not None:
        return reasons.format_compute(value)
    return format_amount(resource, value)


def _place(item: Mapping[str, Any]) -> tuple[Any, ...]:
    return item["cluster"], item["flavor"], item["resource"]


def loan_lines(amounts: Iterable[Any]) -> list[str]:
    """Describe the amounts of a temporary quota by pool: `a100 · 4 GPUs, GPU memory 160 GiB`."""
    by_pool: dict[Place, dict[Resource, int]] = {}
    for row in amounts:
        place = row.flavor.cluster.name, row.flavor.name
        by_pool.setdefault(place, {})[Resource(row.resource)] = row.amount
    return [f"{name_pool(place, by_pool)} · {describe_amounts(found)}" for place, found in by_pool.items()]


def evidence_facts(evidence: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the evidence for and against, each with its value, or with the reason why it is missing."""
    use, idle, pending = (evidence.get(name, {}) for name in ("use", "idle", "pending"))
    days = evidence.get("days", 30)
    if "missing" in use or not use:
        used = _("No usage in the last %(days)s days") % {"days": days}
    else:
        hours = use["gpu_hours"].items()
        by_flavor = _(", ").join(f"{name} {formats.format_number(amount, 1)}" for name, amount in hours)
        used = _("%(hours)s GPU-hours (%(parts)s), %(mean)s GPUs on average") % {
            "hours": formats.format_number(use["total_gpu_hours"], 1),
            "parts": by_flavor,
            "mean": formats.format_number(use["mean_gpus"], 1),
        }
    if "missing" in idle or not idle:
        idled = _("No metrics available")
    else:
        idled = _("%(idle)s of %(held)s measured GPU-hours were idle for 10 minutes or longer") % {
            "idle": formats.format_number(idle["idle_gpu_hours"], 1),
            "held": formats.format_number(idle["measured_gpu_hours"], 1),
        }
    waits = _("Jobs: %(jobs)s, GPUs: %(cards)s") % {
        "jobs": formats.format_number(pending.get("jobs", 0)),
        "cards": formats.format_number(pending.get("cards", 0)),
    }
    return [
        (_("Usage, last %(days)s days") % {"days": days}, used),
        (_("Idle"), idled),
        (_("Pending jobs at the time of the request"), waits),
    ]
