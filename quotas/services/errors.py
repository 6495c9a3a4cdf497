"""Refusals of changes of quota, each with a stable code."""

from __future__ import annotations

from django.utils.translation import gettext_lazy as _

from foundation.core.errors import Conflict, Refused


class ExceedsParent(Refused):
    """The children of a node would have more than the node has."""

    code = "QUOTA_EXCEEDS_PARENT"
    title = _("A tenant cannot give more than it has")


class BelowUse(Refused):
    """Less than is in use now, and nobody said what becomes of what runs."""

    code = "QUOTA_BELOW_USE"
    title = _("More is in use than this quota would allow")


class LenderShort(Refused):
    """A node would lend more than it keeps at some moment of the loan."""

    code = "LOAN_EXCEEDS_LENDER"
    title = _("More would be lent than is there")


class QuotaLent(Refused):
    """Quota that is only lent would be destroyed, or the lender's would be limited before it is back."""

    code = "QUOTA_IS_LENT"
    title = _("A loan holds this quota")


class OverrideClosed(Conflict):
    """The loan has ended, or never began."""

    code = "LOAN_CLOSED"
    title = _("This loan is over")


class RequestNotPending(Conflict):
    """The request was decided, withdrawn or has expired meanwhile."""

    code = "REQUEST_NOT_PENDING"
    title = _("The request no longer waits for a decision")


class RequestOpen(Conflict):
    """The asker has an open request for the same quota."""

    code = "REQUEST_OPEN"
    title = _("You have asked for this quota already")


class OfferWithdrawn(Refused):
    """The counter-offer cannot be carried out any more."""

    code = "OFFER_GONE"
    title = _("What was offered is no longer there; ask who offered it.")
