"""The cordon of a node as text: its author, time and reason, and the progress of a drain."""

from __future__ import annotations

from django.utils.translation import gettext as _

from clusters.models import NodeCordon
from foundation.core import clock
from frontend.components import view_models
from frontend.texts import formats


def cordon_box(row: NodeCordon | None, *, cordoned: bool, jobs_left: int) -> view_models.ProblemBox | None:
    """Return the state of a node that is cordoned, drained or about to be; None for any other.

    `row` is the request through the platform, None after `kubectl cordon`.
    """
    if row is None and not cordoned:
        return None
    if row is None:
        detail = _join(_running(), _("Cordoned outside Allotment."))
        return view_models.ProblemBox(title=_("Node is cordoned"), detail=detail, tone="waiting")
    title, state = _describe_state(row, jobs_left)
    return view_models.ProblemBox(title=title, detail=_join(state, _describe_request(row)), tone="waiting")


def refusal_box(row: NodeCordon | None) -> view_models.ProblemBox | None:
    """Return the request that the cluster has just refused; None if it did not refuse any."""
    if row is None:
        return None
    title = _("Uncordon refused by the cluster") if row.schedulable else _("Cordon refused by the cluster")
    return view_models.ProblemBox(
        title=title,
        detail=row.refusal,
        unchanged=_("Running jobs. None were evicted.") if row.drain else "",
        help=_("If permissions are missing, apply deploy/kubernetes/access.yaml again. Then retry."),
    )


def cordon_note(row: NodeCordon | None) -> str:
    """Return the line below the state in a list of nodes; empty if there is nothing to add."""
    if row is None:
        return ""
    if row.is_pending:
        return _("Waiting for the cluster")
    return row.reason or _("By %(user)s") % {"user": row.requested_by}


def _describe_state(row: NodeCordon, jobs_left: int) -> tuple[str, str]:
    if row.schedulable:
        return _("Uncordon requested"), _("Waiting for the cluster to confirm.")
    if row.is_pending:
        waits = (
            _("No new pods are scheduled here. Jobs are evicted after the cluster confirms.")
            if row.is_draining
            else _("No new pods are scheduled here. Waiting for the cluster to confirm.")
        )
        return (_("Drain requested") if row.is_draining else _("Cordon requested")), waits
    if row.is_draining:
        left = _("New pods aren't scheduled here. Jobs left: %(n)s.") % {"n": jobs_left}
        return _("Node is being drained"), left
    if row.drain:
        return _("Node is drained"), _("New pods aren't scheduled here. All jobs were evicted.")
    return _("Node is cordoned"), _running()


def _running() -> str:
    return _("New pods aren't scheduled here. Running pods aren't affected.")


def _describe_request(row: NodeCordon) -> str:
    words = {
        "user": row.requested_by,
        "when": formats.format_relative(row.requested_at, clock.now()),
        "reason": row.reason,
    }
    if row.reason:
        return _("Requested by %(user)s, %(when)s. Reason: %(reason)s") % words
    return _("Requested by %(user)s, %(when)s.") % words


def _join(first: str, second: str) -> str:
    return _("%(first)s %(second)s") % {"first": first, "second": second}
