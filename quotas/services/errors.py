"""Refusals of quota changes, each with a stable code."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from foundation.core.errors import Conflict, Refused


class ExceedsParent(Refused):
    """The children of a node would have more than the node has."""

    code = "QUOTA_EXCEEDS_PARENT"
    title = _("Insufficient quota in the parent tenant")


class BelowUse(Refused):
    """The new quota is below use, and the caller did not choose whether running jobs are evicted."""

    code = "QUOTA_BELOW_USE"
    title = _("Usage exceeds the new quota")


class LenderShort(Refused):
    """A node would lend more than its own nominal at some moment of the loan."""

    code = "LOAN_EXCEEDS_LENDER"
    title = _("Insufficient unassigned quota")


class QuotaLent(Refused):
    """Quota that is only lent would be destroyed, or the lender's quota would be limited before the loan
    ends.
    """

    code = "QUOTA_IS_LENT"
    title = _("Temporary quota uses this quota")


class OverrideClosed(Conflict):
    """The loan has ended, or was cancelled before it started."""

    code = "LOAN_CLOSED"
    title = _("Temporary quota has ended")


class RequestNotPending(Conflict):
    """The request was decided, withdrawn or has expired meanwhile."""

    code = "REQUEST_NOT_PENDING"
    title = _("Request is no longer pending")


class RequestOpen(Conflict):
    """The asker has an open request for the same quota."""

    code = "REQUEST_OPEN"
    title = _("Request already open")


class OfferWithdrawn(Refused):
    """The counter-offer cannot be carried out any more."""

    code = "OFFER_GONE"
    title = _("The proposed quota is no longer available. Contact the approver.")
