"""Why a job had to give way, in plain words.

A job's own people are told by which rule, and for which job only where that is one of theirs. Of other
teams nothing is said but that there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

_WHY: Final[dict[str, str | Promise]] = {
    "IN_QUEUE_PRIORITY": gettext_lazy("a job of its queue with a higher rank needs the place"),
    "RECLAIM_NOMINAL": gettext_lazy("it ran on borrowed quota, and the team that owns it needs it now"),
    "RECLAIM_WHILE_BORROWING": gettext_lazy(
        "it ran on borrowed quota, and another team has more urgent work for it"
    ),
    "FAIR_SHARE": gettext_lazy("its team had more than its fair share, and one that has less is waiting"),
    "NODE_PRESSURE": gettext_lazy("its node runs out of memory, disk or process ids"),
    "NODE_LOST": gettext_lazy("its node does not answer any more"),
    "NODE_DRAINED": gettext_lazy("its node is being drained"),
    "DEVICE_UNHEALTHY": gettext_lazy("a GPU that it holds has failed"),
    "NOT_READY": gettext_lazy("its pods did not come up"),
    "START_LIMIT": gettext_lazy("a pod did not start within the limit of its workspace"),
    "POD_DELETED": gettext_lazy("its pod was deleted in the cluster, and not by Allotment"),
    "IMAGE_RUNS_AS_ROOT": gettext_lazy(
        "its image runs as root, or as a user without a number, which is not let in: "
        "name a user in the job file, as in security: {run_as_user: 1000}"
    ),
    "IMAGE_NAME_INVALID": gettext_lazy("the name of its image is none"),
    "IMAGE_NOT_ON_NODE": gettext_lazy("its image is not on the node, and the job file says never to pull it"),
    "NAMESPACE_NOT_OWNED": gettext_lazy(
        "the cluster has a namespace of its workspace's name that is not the workspace's; an operator hands "
        "it over with “allotment namespace adopt”, or removes it; the job is tried again until then"
    ),
    "STALE_GANG": gettext_lazy("too few of its tasks were left to get anything done"),
    "BUDGET": gettext_lazy("the budget is used up"),
    "IDLE": gettext_lazy("its cards did nothing for too long"),
    "OVERRIDE_ENDED": gettext_lazy("the temporary quota it ran on has ended"),
    "QUEUE_DRAINED": gettext_lazy("its queue is being emptied"),
    "CONSOLIDATION": gettext_lazy("it moves, so that a larger job finds room; its new place is kept for it"),
    "TIME_LIMIT": gettext_lazy("it ran for as long as it may"),
}
_FOR_OWN: Final[dict[str, str | Promise]] = {
    "IN_QUEUE_PRIORITY": gettext_lazy("%(job)s of the same queue has a higher rank and needs the place"),
    "CONSOLIDATION": gettext_lazy("it moves, so that %(job)s finds room; its new place is kept for it"),
}


def why(rule: str, numbers: Mapping[str, Any]) -> str:
    """The reason behind a rule as half a sentence; empty for a rule that is not known."""
    if rule == "BUDGET" and "budget_hours" in numbers:
        return _(
            "the budget of %(tenant)s is used up: %(used_hours)s of %(budget_hours)s GPU-hours this month"
        ) % (numbers)
    own, job = _FOR_OWN.get(rule), numbers.get("beneficiary")
    if job and own is not None:
        return str(own) % {"job": job}
    reason = str(_WHY.get(rule, ""))
    if job and reason:
        return _("%(reason)s (for %(job)s)") % {"reason": reason, "job": job}
    return reason
