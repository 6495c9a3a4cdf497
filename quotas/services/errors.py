"""Refusals of changes of quota, each with a stable code."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from foundation.core.errors import Conflict, Refused


class ExceedsParent(Refused):
    """The children of a node would have more than the node has."""

    code = "QUOTA_EXCEEDS_PARENT"
    title = _("Insufficient quota in the parent tenant")


class BelowUse(Refused):
    """Less than is in use now, and nobody said what becomes of what runs."""

    code = "QUOTA_BELOW_USE"
    title = _("Usage exceeds the new quota")


class LenderShort(Refused):
    """A node would lend more than it keeps at some moment of the loan."""

    code = "LOAN_EXCEEDS_LENDER"
    title = _("Insufficient unassigned quota")


class QuotaLent(Refused):
    """Quota that is only lent would be destroyed, or the lender's would be limited before it is back."""

    code = "QUOTA_IS_LENT"
    title = _("Temporary quota uses this quota")


class OverrideClosed(Conflict):
    """The loan has ended, or never began."""

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
