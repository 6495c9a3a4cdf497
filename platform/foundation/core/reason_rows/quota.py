"""Reasons of quota."""

from __future__ import annotations

from typing import Final

from foundation.core.quantities import gettext_noop as _
from foundation.core.reason_row import Gate, ReasonRow, ReasonSeverity

EXCEEDS_MAX_QUOTA: Final = ReasonRow(
    "EXCEEDS_MAX_QUOTA",
    _("Exceeds maximum quota"),
    ReasonSeverity.ERROR,
    Gate.QUOTA,
    "The request is above what the queue could ever get: its nominal quota and its borrowing limit.",
    sentences=(
        _(
            "Preemptions: %(capped)s, so the job can't borrow: requests %(asked)s, nominal"
            " quota in %(flavor)s is %(limit)s."
        ),
        _("Requests %(asked)s; maximum for queue %(queue)s is %(limit)s (nominal + borrowing)."),
        _("Requests %(asked)s of %(flavor)s; the queue's maximum is %(limit)s."),
        _("Requests %(asked)s; the queue's maximum is %(limit)s (nominal + borrowing)."),
        _("Exceeds the queue's maximum quota (nominal + borrowing)."),
    ),
    helps=(
        _("Reduce to %(limit)s, or request more quota."),
        _("Reduce the request, or request more quota."),
    ),
)

WAITING_FOR_QUOTA: Final = ReasonRow(
    "WAITING_FOR_QUOTA",
    _("Waiting for quota"),
    ReasonSeverity.WAITING,
    Gate.QUOTA,
    "The queue's own quota is in use, and the job may not borrow or nothing is left to borrow.",
    sentences=(
        _(
            "Preemptions: %(capped)s, so the job can't borrow: requests %(asked)s of"
            " %(flavor)s; %(own_free)s of %(nominal)s nominal available to the job."
        ),
        _("Requests %(asked)s of %(flavor)s. Free: %(own_free)s nominal, %(borrowable)s to borrow."),
        _("Requests %(asked)s; %(free)s of %(nominal)s nominal free, %(borrowable)s can be borrowed."),
        _("Requests %(asked)s of %(flavor)s; %(available)s available."),
        _("Requests %(asked)s; %(free)s of %(nominal)s free."),
        _("Requests %(asked)s; %(available)s available."),
        _("Nominal quota is fully used and no quota can be borrowed."),
    ),
    helps=(
        _("Reduce to %(free)s, or request %(short)s more quota."),
        _("Reduce the request, select another pool, or request more quota."),
    ),
)

WAITING_FOR_BORROWED: Final = ReasonRow(
    "WAITING_FOR_BORROWED",
    _("Waiting to borrow quota"),
    ReasonSeverity.WAITING,
    Gate.COHORT,
    "The job would start on quota that others own and use at the moment.",
    sentences=(
        _(
            "Preemptions: %(evictions)s. To borrow again, %(keep_free)s of %(flavor)s must"
            " stay unused besides the requested %(asked)s; unused now: %(unused)s."
        ),
        _(
            "Preemption lost many GPU-hours in the last 30 days. To borrow, %(keep_free)s of"
            " %(flavor)s must stay unused besides the requested %(asked)s; unused now:"
            " %(unused)s."
        ),
        _(
            "The job's borrowed quota was reclaimed; the job can't borrow before"
            " %(drained_until)s. Requests %(asked)s of %(flavor)s."
        ),
        _(
            "Preemptions: %(capped)s, so the job can't borrow: requests %(asked)s of"
            " %(flavor)s; %(own_free)s nominal available to the job, the rest is in use."
        ),
        _(
            "Requests %(asked)s of %(flavor)s. Free: %(own_free)s nominal, %(borrowable)s to"
            " borrow; the rest is in use."
        ),
        _("Needs to borrow %(short)s of %(asked)s; currently used by %(holders)s."),
        _("Requests %(asked)s of %(flavor)s; %(available)s available including borrowing."),
        _("Requests %(asked)s; %(available)s available including borrowing."),
        _("The quota is used by others that this job can't preempt."),
    ),
    helps=(
        _("Reduce to %(available)s, or wait for borrowers to finish."),
        _("Stay within nominal quota, or wait for borrowers to finish."),
    ),
)
