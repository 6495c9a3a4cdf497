"""Requests for more quota, and decisions about them.

A request is decided once: the decision locks the cell and requires a pending request. An approval calls the
same services as an admin's own change, with the permissions of the approving user.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.utils.translation import gettext as _

from clusters.models import Cell
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import SYSTEM, Actor
from foundation.core.errors import AllotmentError, Conflict, FieldError, Invalid, NotFound, PermissionDenied
from foundation.sql import row_scope
from foundation.sql.versions import advance_version
from quotas.distribution.division import Keep
from quotas.hooks import request_evidence
from quotas.models import (
    OPEN_STATES,
    Override,
    QuotaChangeSource,
    QuotaKey,
    QuotaNode,
    QuotaRequest,
    RequestState,
)
from quotas.selectors.changes.quota_request import quota_requests
from quotas.services.errors import OfferWithdrawn, RequestNotPending, RequestOpen
from quotas.services.overrides.override import LoanAmount, override_create
from quotas.services.quota import find_decider, quota_change, require_decider
from quotas.services.quota_plan import NodeAmounts, QuotaAmount, QuotaTables
from quotas.services.requests.request_amounts import (
    current_limits,
    find_missing_amounts,
    names_lending_limits,
    store_amounts,
)
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User

LASTS: Final = timedelta(days=14)
LONGEST: Final = timedelta(days=90)
COUNTED: Final = 200
_DECIDER_FIELDS: Final = (
    *("asked", "node__is_queue", "node__tenant__path", "node__tenant__parent__path"),
    *("node__tenant__parent__parent",),
)
"""The fields that `may_decide_request` needs of a request."""
Items = Sequence[Mapping[str, Any]]


@transaction.atomic
def quota_request_create(
    *,
    acting_user: User,
    node: QuotaNode,
    asked: Items,
    reason: str,
    until: datetime | None = None,
    expires_at: datetime | None = None,
) -> QuotaRequest:
    """Request other limits for a node, permanently or until `until`; the evidence is gathered now.

    Raises: NotFound; PermissionDenied for a user who may not submit jobs there; Invalid for a request that
    asks for no more than there is; RequestOpen while the asker has an open request for the node.
    """
    permissions.require_permission(acting_user, Permission.JOB_SUBMIT, node.tenant)
    now = clock.now()
    expires = _checked_times(now, until, expires_at)
    items = store_amounts(node, asked, until=until)
    if QuotaRequest.unscoped.filter(node=node, asker=acting_user, state__in=OPEN_STATES).exists():
        raise RequestOpen(_("A request for this quota is already open. Withdraw it first."))
    made = QuotaRequest.unscoped.create(
        node=node,
        asker=acting_user,
        reason=reason,
        asked=items,
        current=current_limits(node, items),
        until=until,
        expires_at=min(expires, until) if until else expires,
        evidence=request_evidence.gather_evidence(node, now=now),
    )
    _record(acting_user, "quota-request.create", made, {"asked": items, "reason": reason})
    return made


@transaction.atomic
def quota_request_approve(
    *, acting_user: User, request: QuotaRequest, answer: str = "", version: int | None = None
) -> QuotaRequest:
    """Approve a request, by a quota change or a loan from above until `until`.

    Raises: NotFound, PermissionDenied; RequestNotPending; PreconditionFailed for another version; as
    `quota_change` and `override_create` where the node above does not have the quota.
    """
    found = _pending(acting_user, request, version)
    _decide(found, acting_user, RequestState.APPROVED, answer)
    _apply(acting_user, found, found.asked)
    _record(acting_user, "quota-request.approve", found, {"asked": found.asked, "answer": answer})
    return found


@transaction.atomic
def quota_request_reject(
    *, acting_user: User, request: QuotaRequest, answer: str, version: int | None = None
) -> QuotaRequest:
    """Reject a request with a reason.

    Raises: NotFound, PermissionDenied; RequestNotPending; PreconditionFailed.
    """
    found = _pending(acting_user, request, version)
    _decide(found, acting_user, RequestState.REJECTED, answer)
    _record(acting_user, "quota-request.reject", found, {"answer": answer})
    return found


@transaction.atomic
def quota_request_counter(
    *, acting_user: User, request: QuotaRequest, offer: Items, answer: str = "", version: int | None = None
) -> QuotaRequest:
    """Make a counter-offer. The asker can accept or decline it until the request expires.

    Raises: NotFound, PermissionDenied; RequestNotPending; PreconditionFailed; Invalid for an impossible
    offer.
    """
    found = _pending(acting_user, request, version)
    items = store_amounts(found.node, offer, until=found.until, name="offer")
    _require_all(acting_user, found.node, items)
    found.counter = items
    _decide(found, acting_user, RequestState.COUNTERED, answer)
    _record(acting_user, "quota-request.counter", found, {"offer": items, "answer": answer})
    return found


def quota_request_accept(
    *, acting_user: User, request: QuotaRequest, version: int | None = None
) -> QuotaRequest:
    """Accept the counter-offer. It is applied with the present permissions of the user who made it.

    Raises: NotFound; PermissionDenied for any user but the asker; RequestNotPending; OfferWithdrawn where it
    cannot be applied any more. The reason is recorded in the audit of the deciding tenant and hidden from the
    asker, because it may name other tenants.
    """
    try:
        return _accept(acting_user, request, version)
    except _CannotApply as failed:
        with row_scope.whole(), transaction.atomic():
            above = request_decider(request)
            audit_log.record_failure(
                acting_user,
                "quota-request.offer-gone",
                entity="quota-request",
                entity_id=request.pk,
                tenant_id=above.pk if above else None,
                after={"problem": failed.why.detail, "code": failed.why.code},
            )
        raise OfferWithdrawn from failed.why


class _CannotApply(Exception):
    """The counter-offer cannot be applied; `why` is the error, for the tenant that decides."""

    def __init__(self, why: AllotmentError) -> None:
        super().__init__(why.code)
        self.why = why


@transaction.atomic
def _accept(acting_user: User, request: QuotaRequest, version: int | None) -> QuotaRequest:
    found = _offered(acting_user, request, version)
    decider = found.decided_by
    if decider is None:
        raise RequestNotPending
    try:
        if not decider.is_active:
            # A disabled account keeps its roles for a later reactivation; until then its offers are not
            # applied.
            raise PermissionDenied(_("The account that sent the proposal is disabled."))
        # It is the decider's change, so rows that the asker may not see belong to it.
        with row_scope.whole():
            _apply(decider, found, found.counter)
    except NotFound:
        raise  # NotFound names no tenant
    except AllotmentError as error:
        raise _CannotApply(error) from error
    _close(found, RequestState.APPROVED)
    _record(acting_user, "quota-request.accept", found, {"offer": found.counter})
    return found


@transaction.atomic
def quota_request_decline(
    *, acting_user: User, request: QuotaRequest, version: int | None = None
) -> QuotaRequest:
    """Decline the counter-offer.

    Raises: NotFound, PermissionDenied for any user but the asker; RequestNotPending; PreconditionFailed.
    """
    found = _offered(acting_user, request, version)
    _close(found, RequestState.DECLINED)
    _record(acting_user, "quota-request.decline", found, {})
    return found


@transaction.atomic
def quota_request_withdraw(
    *, acting_user: User, request: QuotaRequest, version: int | None = None
) -> QuotaRequest:
    """Withdraw a request that is still open; allowed for the asker and the admins of the tenant.

    Raises: NotFound, PermissionDenied; RequestNotPending; PreconditionFailed.
    """
    permissions.require_permission(acting_user, Permission.QUOTA_VIEW, request.node.tenant)
    own = acting_user.pk == request.asker_id
    if not own and not permissions.has_permission(acting_user, Permission.QUOTA_EDIT, request.node.tenant):
        raise PermissionDenied(_("Only the requester or an admin can withdraw a request."))
    found = _locked(request, version, OPEN_STATES)
    _close(found, RequestState.WITHDRAWN)
    _record(acting_user, "quota-request.withdraw", found, {})
    return found


def quota_requests_expire(*, now: datetime) -> int:
    """Close open requests whose time is over; return their number."""
    over = QuotaRequest.unscoped.filter(state__in=OPEN_STATES, expires_at__lte=now)
    return sum(_expire(pk, now) for pk in over.order_by("expires_at", "pk").values_list("pk", flat=True))


@transaction.atomic
def _expire(pk: uuid.UUID, now: datetime) -> bool:
    rows = QuotaRequest.unscoped.select_related("node").select_for_update(of=("self",))
    found = rows.filter(pk=pk, state__in=OPEN_STATES, expires_at__lte=now).first()
    if found is None:
        return False
    advance_version(found, expected=None)
    _close(found, RequestState.EXPIRED)
    _record(SYSTEM, "quota-request.expire", found, {})
    return True


def may_decide_request(viewer: Actor, request: QuotaRequest) -> bool:
    """Return whether the viewer may decide about a request."""
    return _may_decide(viewer, request_decider(request))


def _may_decide(viewer: Actor, decider: Tenant | None) -> bool:
    return permissions.has_permission(viewer, Permission.QUOTA_EDIT, decider)


def requests_to_decide(viewer: Actor) -> int:
    """Count the requests that wait for the viewer's decision, out of the first `COUNTED` pending requests."""
    if Permission.QUOTA_EDIT not in permissions.permissions_anywhere(viewer):
        return 0
    waiting = quota_requests(viewer).filter(state=RequestState.PENDING, expires_at__gt=clock.now())
    # Every page of an operator shows this count. An admin of the platform decides about all requests.
    if _may_decide(viewer, None):
        return waiting.order_by()[:COUNTED].count()
    narrow = waiting.select_related(None).select_related("node__tenant__parent").only(*_DECIDER_FIELDS)
    return sum(may_decide_request(viewer, request) for request in narrow[:COUNTED])


def request_decider(request: QuotaRequest) -> Tenant | None:
    """Return the tenant whose admins decide about a request; None is the platform."""
    return find_decider(request.node, limits=names_lending_limits(request.asked))


# Pieces


def _checked_times(now: datetime, until: datetime | None, expires_at: datetime | None) -> datetime:
    if until is not None and until <= now:
        message = _("Select a future time.")
        raise Invalid(message, errors=[FieldError("until", "PAST", message)])
    expires = now + LASTS if expires_at is None else expires_at
    if expires <= now:
        message = _("Select a future time.")
        raise Invalid(message, errors=[FieldError("expires_at", "PAST", message)])
    if expires > now + LONGEST:
        message = _("Maximum validity is 90 days.")
        raise Invalid(message, errors=[FieldError("expires_at", "TOO_LATE", message)])
    return expires


def _require_all(acting_user: Actor, node: QuotaNode, items: Items) -> None:
    permissions.require_permission(acting_user, Permission.QUOTA_VIEW, node.tenant)
    require_decider(acting_user, node, limits=names_lending_limits(items))


def _pending(acting_user: Actor, request: QuotaRequest, version: int | None) -> QuotaRequest:
    """Return the locked request, if it waits for a decision of this user. Raises: as `_locked`,
    PermissionDenied.
    """
    _require_all(acting_user, request.node, request.asked)
    return _locked(request, version, (RequestState.PENDING,))


def _offered(acting_user: Actor, request: QuotaRequest, version: int | None) -> QuotaRequest:
    permissions.require_permission(acting_user, Permission.QUOTA_VIEW, request.node.tenant)
    if acting_user.pk != request.asker_id:
        raise PermissionDenied(_("Only the requester can answer a proposal."))
    return _locked(request, version, (RequestState.COUNTERED,))


def _locked(request: QuotaRequest, version: int | None, states: Sequence[str]) -> QuotaRequest:
    """Lock the cell, then the request, in the order of a quota change; increment the request's version.

    Raises: RequestNotPending when it is in none of the states, or its time is over; PreconditionFailed.
    """
    Cell.unscoped.select_for_update().get(pk=request.node.cell_id)
    rows = QuotaRequest.unscoped.select_related("node__tenant__parent", "node__parent", "decided_by", "asker")
    found = rows.select_for_update(of=("self",)).get(pk=request.pk)
    if found.state not in states or found.expires_at <= clock.now():
        state = RequestState(found.state)
        expired = state in OPEN_STATES and found.expires_at <= clock.now()
        shown = RequestState.EXPIRED if expired else state
        raise RequestNotPending(numbers={"state": shown.value})
    advance_version(found, expected=version)
    return found


def _decide(request: QuotaRequest, acting_user: User, state: RequestState, answer: str) -> None:
    request.decided_by, request.decided_at, request.answer = acting_user, clock.now(), answer
    request.save(update_fields=["decided_by", "decided_at", "answer", "counter"])
    _close(request, state)


def _close(request: QuotaRequest, state: RequestState) -> None:
    request.state = state
    request.closed_at = None if state in OPEN_STATES else clock.now()
    request.save(update_fields=["state", "closed_at"])


def _apply(acting_user: User, request: QuotaRequest, items: Items) -> None:
    """Apply the items. Limits that are higher by now stay unchanged."""
    node = request.node
    if request.until is not None:
        request.override = _lend(acting_user, request, find_missing_amounts(node, items))
        request.save(update_fields=["override"])
        return
    amounts = find_missing_amounts(node, items)
    request.revision = quota_change(
        acting_user=acting_user,
        cell_id=node.cell_id,
        changes=[NodeAmounts(node, amounts)],
        reason=request.reason[:500],
        source=QuotaChangeSource.REQUEST,
    )
    request.save(update_fields=["revision"])


def _lend(acting_user: User, request: QuotaRequest, amounts: Sequence[QuotaAmount]) -> Override:
    node, until = request.node, request.until
    above = QuotaNode.unscoped.select_related("tenant__parent").filter(children=node).first()
    if above is None or until is None:
        raise Conflict(_("This quota has no parent that could transfer quota to it."))
    tables, loans = QuotaTables(node.cell_id), []
    for wanted in amounts:
        has = tables.get_nominal(QuotaKey(node.pk, wanted.flavor.pk, wanted.resource)) or 0
        if not isinstance(wanted.nominal, Keep) and wanted.nominal is not None:
            loans.append(LoanAmount(wanted.flavor, wanted.resource, wanted.nominal - has, wanted.place))
    return override_create(
        acting_user=acting_user,
        lender=above,
        borrower=node,
        amounts=loans,
        starts_at=None,
        ends_at=until,
        reason=request.reason[:500],
    )


def _record(acting_user: Actor, action: str, request: QuotaRequest, after: Mapping[str, Any]) -> None:
    shown = {**after, "state": request.state}
    tenant_id = request.node.tenant_id
    audit_log.record_action(
        acting_user, action, entity="quota-request", entity_id=request.pk, tenant_id=tenant_id, after=shown
    )
