"""The cause of a job's eviction as text.

Users of the evicted job see the rule and the beneficiary as far as they may: the job, else its workspace or a
folder above it, else that it is another tenant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from frontend.texts import reasons
from scheduling.selectors.events.beneficiary import Beneficiary
from scheduling.services.node_drain import BY_OPERATOR
from tenants.models import TenantKind

_WHY: Final[dict[str, str | Promise]] = {
    "IN_QUEUE_PRIORITY": gettext_lazy("Preempted by a job ahead of it in the same queue"),
    "RECLAIM_NOMINAL": gettext_lazy("Ran on borrowed quota that its owner reclaimed"),
    "RECLAIM_WHILE_BORROWING": gettext_lazy(
        "Ran on borrowed quota; preempted by a higher-priority job of another tenant"
    ),
    "FAIR_SHARE": gettext_lazy("The tenant was above its fair share; a tenant below its share was pending"),
    "NODE_PRESSURE": gettext_lazy("Node memory, disk or PID pressure"),
    "NODE_LOST": gettext_lazy("Node unreachable"),
    "NODE_DRAINED": gettext_lazy("Node is being drained"),
    "DEVICE_UNHEALTHY": gettext_lazy("A GPU it uses failed"),
    "NOT_READY": gettext_lazy("Pods didn't become ready"),
    "START_LIMIT": gettext_lazy("A pod didn't start within the workspace's time limit"),
    "POD_DELETED": gettext_lazy("A pod was deleted in the cluster outside Allotment"),
    "IMAGE_RUNS_AS_ROOT": gettext_lazy(
        "Image runs as root or a non-numeric user. Set security: {run_as_user: 1000} in the job file."
    ),
    "IMAGE_NAME_INVALID": gettext_lazy("Invalid image name"),
    "IMAGE_NOT_ON_NODE": gettext_lazy("Image isn't present on the node and the job's pull policy is Never"),
    "NAMESPACE_NOT_OWNED": gettext_lazy(
        "The cluster has a namespace with the workspace's name that doesn't belong to the "
        'workspace. A platform admin can adopt it with "allotment namespace adopt" or delete it; '
        "until then the job is retried."
    ),
    "STALE_GANG": gettext_lazy("Fewer tasks than the gang minimum were left"),
    "BUDGET": gettext_lazy("Budget exhausted"),
    "IDLE": gettext_lazy("GPUs were idle longer than the idle timeout"),
    "SLICE_RETURNED": gettext_lazy("Used GPU memory that another job had lent and needs again"),
    "OVERRIDE_ENDED": gettext_lazy("The temporary quota it used expired"),
    "QUEUE_DRAINED": gettext_lazy("The queue is draining"),
    "CONSOLIDATION": gettext_lazy("Moved to defragment GPUs; its new nodes are reserved"),
    "TIME_LIMIT": gettext_lazy("Run time limit exceeded"),
}
_FOR_OWN: Final[dict[str, str | Promise]] = {
    "IN_QUEUE_PRIORITY": gettext_lazy("Preempted by %(job)s, which is ahead of it in the same queue"),
    "CONSOLIDATION": gettext_lazy("Moved to make room for %(job)s; its new nodes are reserved"),
}

_OF_BORROWED: Final = frozenset({"RECLAIM_NOMINAL", "RECLAIM_WHILE_BORROWING", "FAIR_SHARE"})


def name_beneficiary(found: Beneficiary) -> str:
    """Name the beneficiary of a preemption: its job, workspace or folder, or another tenant."""
    if found.job is not None and found.tenant is not None:
        return _("%(job)s of %(tenant)s") % {"job": found.job.name, "tenant": found.tenant.name}
    if found.tenant is None:
        return _("another tenant")
    if found.tenant.kind == TenantKind.FOLDER:
        return _("a tenant of %(folder)s") % {"folder": found.tenant.name}
    return found.tenant.name


def explain_rule(rule: str, numbers: Mapping[str, Any], beneficiary: str = "") -> str:
    """Return the reason for an eviction by a rule, without a full stop; empty for an unknown rule.

    `beneficiary` is its name where `numbers` name no job of the same workspace.
    """
    if rule == "BUDGET" and "budget_hours" in numbers:
        return _("Monthly budget of %(tenant)s exhausted (%(used_hours)s of %(budget_hours)s GPU-hours)") % (
            numbers
        )
    if rule == "NODE_DRAINED" and numbers.get("by") == BY_OPERATOR:
        return _("Node %(node)s drained by a platform admin") % {"node": numbers.get("node", "")}
    own, job = _FOR_OWN.get(rule), numbers.get("beneficiary")
    if job and own is not None:
        return str(own) % {"job": job}
    reason, job = str(_WHY.get(rule, "")), job or beneficiary
    if rule in _OF_BORROWED and numbers.get("borrowed_none"):
        reason = _explain_excess(rule, numbers)
    if job and reason:
        return _("%(reason)s (for %(job)s)") % {"reason": reason, "job": job}
    return reason


def _explain_excess(rule: str, numbers: Mapping[str, Any]) -> str:
    """Return why a job that started on nominal quota was evicted: its tenant or queue exceeded its quota."""
    if "nominal" not in numbers:
        if rule == "FAIR_SHARE":
            return _(
                "The tenant was above its fair share; a tenant below its share was pending. The job itself "
                "started on nominal quota"
            )
        return _("The tenant used borrowed quota that was reclaimed. The job itself started on nominal quota")
    resource = str(numbers.get("resource"))
    words = {
        "queue": numbers.get("queue"),
        "flavor": numbers.get("flavor"),
        "used": reasons.format_resource_amount(numbers["used"], resource),
        "nominal": reasons.format_resource_amount(numbers["nominal"], resource),
    }
    if numbers.get("lowered"):
        return (
            _(
                "The nominal quota of queue %(queue)s in %(flavor)s was lowered to %(nominal)s while it used "
                "%(used)s. Another tenant needed the excess"
            )
            % words
        )
    return (
        _(
            "Queue %(queue)s used %(used)s in %(flavor)s with a nominal quota of %(nominal)s. Another tenant "
            "needed the borrowed part. The job itself started on nominal quota"
        )
        % words
    )
