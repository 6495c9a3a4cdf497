"""Loans: quota that a node lends to another for a limited time, and that returns by itself.

A loan moves own nominal from the lender to the borrower, so the tree is always divided as if an admin had
done it. `overrides_sweep` starts and ends what is due according to the rows, whenever it runs: a missed run
only delays these changes.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.db.models import F
from django.utils.translation import gettext as _

from clusters.models import Cell, Flavor
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import SYSTEM, Actor
from foundation.core.errors import FieldError, Invalid
from foundation.core.quantities import Resource
from foundation.sql import row_scope
from foundation.sql.versions import advance_version
from quotas.distribution.division import path_to_root
from quotas.distribution.loans import Loan, least_own_nominal
from quotas.models import Override, OverrideAmount, OverrideState, QuotaChangeSource, QuotaNode
from quotas.selectors.changes.override import loan_flows
from quotas.selectors.tables.node_names import node_names
from quotas.services.errors import LenderShort, OverrideClosed
from quotas.services.overrides.loan_return import override_amounts, return_loan
from quotas.services.quota import require_decider
from quotas.services.quota_move import move_lent_quota
from quotas.services.quota_plan import AMOUNT_MAX, QuotaTables
from quotas.texts.amounts import format_amount
from tenants.access import permissions
from tenants.access.permissions import Permission

LONGEST: Final = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class LoanAmount:
    """An amount that is lent. `place` is the prefix of field names in errors."""

    flavor: Flavor
    resource: Resource
    amount: int
    place: str = ""


@transaction.atomic
def override_create(
    *,
    acting_user: Actor,
    lender: QuotaNode,
    borrower: QuotaNode,
    amounts: Sequence[LoanAmount],
    starts_at: datetime | None,
    ends_at: datetime,
    reason: str = "",
) -> Override:
    """Plan a loan, and start it at once where `starts_at` is None or has passed.

    Raises: NotFound; PermissionDenied for a user who does not decide about both nodes; Invalid for a window
    in the wrong order and for impossible amounts; LenderShort with the sums.
    """
    for node in (lender, borrower):
        permissions.require_permission(acting_user, Permission.QUOTA_VIEW, node.tenant)
    now = clock.now()
    start = max(now, starts_at or now)
    _check_places(lender, borrower)
    Cell.unscoped.select_for_update().get(pk=lender.cell_id)
    tables = QuotaTables(lender.cell_id)
    for node in _between(tables, lender.pk, borrower.pk):
        require_decider(acting_user, node, limits=False)
    _check_window(now, starts_at, ends_at)
    _check_amounts(lender.cell_id, amounts)
    _check_sums(tables, lender, borrower, amounts, (start, ends_at))
    made = Override.unscoped.create(
        cell_id=lender.cell_id,
        lender=lender,
        borrower=borrower,
        starts_at=start,
        ends_at=ends_at,
        reason=reason,
        actor_id=acting_user.pk,
        actor_name=acting_user.get_username(),
    )
    OverrideAmount.unscoped.bulk_create(
        OverrideAmount(override=made, flavor=item.flavor, resource=item.resource.value, amount=item.amount)
        for item in amounts
    )
    _record(acting_user, "loan.create", made, after=_facts(made, amounts))
    if start <= now:
        _start(acting_user, made, tables)
    return made


@transaction.atomic
def override_end(*, acting_user: Actor, override: Override, version: int | None = None) -> Override:
    """End a loan before its time, or cancel one that has not begun.

    Raises: NotFound; PermissionDenied for a user who does not decide about both nodes; OverrideClosed;
    PreconditionFailed for another version.
    """
    for node in (override.lender, override.borrower):
        permissions.require_permission(acting_user, Permission.QUOTA_VIEW, node.tenant)
    now, found = clock.now(), _locked(override.pk)
    tables = QuotaTables(found.cell_id)
    for node in _between(tables, found.lender_id, found.borrower_id):
        require_decider(acting_user, node, limits=False)
    advance_version(found, expected=version)
    if found.state == OverrideState.ACTIVE:
        _return(acting_user, found, tables, now)
    elif found.state == OverrideState.PLANNED:
        _close(acting_user, found, OverrideState.CANCELLED, "loan.cancel", now)
    else:
        raise OverrideClosed
    return found


@transaction.atomic
def override_move_end(
    *, acting_user: Actor, override: Override, ends_at: datetime, version: int | None = None
) -> Override:
    """Move the end of a loan that has not ended, to a later or an earlier time.

    Raises: NotFound; PermissionDenied for a user who does not decide about both nodes; OverrideClosed;
    Invalid for an impossible window; LenderShort with the sums, where the lender's quota is lent to others by
    then; PreconditionFailed for another version.
    """
    for node in (override.lender, override.borrower):
        permissions.require_permission(acting_user, Permission.QUOTA_VIEW, node.tenant)
    found = _locked(override.pk)
    tables = QuotaTables(found.cell_id)
    for node in _between(tables, found.lender_id, found.borrower_id):
        require_decider(acting_user, node, limits=False)
    if found.state not in (OverrideState.PLANNED, OverrideState.ACTIVE):
        raise OverrideClosed
    _check_window(clock.now(), found.starts_at, ends_at)
    advance_version(found, expected=version)
    before, found.ends_at = found.ends_at, ends_at
    for item in _items(found) if ends_at > before else ():
        own = tables.get_own_nominals(item.flavor.pk, item.resource)[found.lender_id]
        # The flows include the return of this loan at its old end, so `least` has to cover the amount again.
        flows = loan_flows(found.lender_id, item.flavor.pk, item.resource)
        least = least_own_nominal(own, flows, before, ends_at)
        if least is not None and least < item.amount:
            raise _short(found.lender, item, own or 0, least, field="ends_at")
    found.save(update_fields=["ends_at"])
    times = {"before": {"ends_at": before.isoformat()}, "after": {"ends_at": ends_at.isoformat()}}
    _record(acting_user, "loan.move-end", found, **times)
    return found


def overrides_sweep(*, now: datetime) -> int:
    """End loans that are over, then start loans that are due, each in its own transaction; return their
    number.
    """
    over = Override.unscoped.filter(state=OverrideState.ACTIVE, ends_at__lte=now)
    due = Override.unscoped.filter(state=OverrideState.PLANNED, starts_at__lte=now)
    done = 0
    for pk in [
        *over.order_by("ends_at", "-starts_at", "-pk").values_list("pk", flat=True),
        *due.order_by("starts_at", "pk").values_list("pk", flat=True),
    ]:
        done += _sweep_one(pk, now)
    return done


@transaction.atomic
def _sweep_one(pk: uuid.UUID, now: datetime) -> bool:
    """Start or end one loan if it is due; return whether anything changed."""
    found = _locked(pk)
    if found.state == OverrideState.ACTIVE and found.ends_at <= now:
        _return(SYSTEM, found, QuotaTables(found.cell_id), now)
        return True
    if found.state != OverrideState.PLANNED or found.starts_at > now:
        return False
    if found.ends_at <= now:
        _close(SYSTEM, found, OverrideState.MISSED, "loan.miss", now)
        return True
    try:
        with transaction.atomic():
            _start(SYSTEM, found, QuotaTables(found.cell_id))
    except LenderShort as error:
        # The start is retried until the loan's time is over, because the missing quota may become available.
        if found.problem == error.detail[:1000]:
            return False
        found.problem = error.detail[:1000]
        found.save(update_fields=["problem"])
        _record(SYSTEM, "loan.delay", found, after={"problem": found.problem})
    return True


def _locked(pk: uuid.UUID) -> Override:
    cell_id = Override.unscoped.values_list("cell_id", flat=True).get(pk=pk)
    Cell.unscoped.select_for_update().get(pk=cell_id)
    rows = Override.unscoped.select_related("lender__tenant__parent", "borrower__tenant__parent")
    return rows.select_for_update(of=("self",)).get(pk=pk)


# Checks


def _check_places(lender: QuotaNode, borrower: QuotaNode) -> None:
    if lender.pk == borrower.pk:
        message = _("Source and target must differ.")
        raise Invalid(message, errors=[FieldError("borrower", "SAME", message)])
    if lender.cell_id != borrower.cell_id:
        message = _("Both must belong to the same scheduling domain.")
        raise Invalid(message, errors=[FieldError("borrower", "OTHER_CELL", message)])


def _check_window(now: datetime, starts_at: datetime | None, ends_at: datetime) -> None:
    start = starts_at or now
    if ends_at <= start:
        message = _("End time must be after start time.")
        raise Invalid(message, errors=[FieldError("ends_at", "WINDOW", message)])
    if ends_at <= now:
        message = _("Select a future time.")
        raise Invalid(message, errors=[FieldError("ends_at", "PAST", message)])
    if ends_at - start > LONGEST:
        message = _("Maximum duration is one year.")
        raise Invalid(message, errors=[FieldError("ends_at", "TOO_LONG", message)])


def _check_amounts(cell_id: uuid.UUID, amounts: Sequence[LoanAmount]) -> None:
    seen = set()
    for item in amounts:
        if (item.flavor.pk, item.resource) in seen:
            raise _wrong(item, "TWICE", _("Duplicate amount."))
        seen.add((item.flavor.pk, item.resource))
        if item.flavor.cluster.cell_id != cell_id:
            message = _("Pool %(flavor)s belongs to another scheduling domain.") % {"flavor": item.flavor}
            raise _wrong(item, "OTHER_CELL", message, "flavor")
        if not 0 < item.amount <= AMOUNT_MAX:
            raise _wrong(item, "AMOUNT", _("Minimum: 1."))
    if not amounts:
        message = _("Select the quota to transfer.")
        raise Invalid(message, errors=[FieldError("amounts", "REQUIRED", message)])


def _wrong(item: LoanAmount, code: str, message: str, name: str = "amount") -> Invalid:
    return Invalid(message, errors=[FieldError(f"{item.place}{name}", code, message)])


def _check_sums(
    tables: QuotaTables,
    lender: QuotaNode,
    borrower: QuotaNode,
    amounts: Sequence[LoanAmount],
    window: tuple[datetime, datetime],
) -> None:
    """Check that the lender's own nominal suffices at every moment, with all other loans that it gives and
    gets.

    Raises: Invalid, LenderShort.
    """
    for item in amounts:
        if tables.get_own_nominals(item.flavor.pk, item.resource)[borrower.pk] is None:
            message = _("%(node)s is unlimited and needs no temporary quota.")
            raise _wrong(item, "UNLIMITED", message % {"node": node_names([borrower.pk])[borrower.pk]})
        own = tables.get_own_nominals(item.flavor.pk, item.resource)[lender.pk]
        flows = loan_flows(lender.pk, item.flavor.pk, item.resource)
        least = least_own_nominal(own, flows, *window)
        if least is not None and least < item.amount:
            raise _short(lender, item, own or 0, least)


def _short(lender: QuotaNode, item: LoanAmount, own: int, least: int, *, field: str = "") -> LenderShort:
    values = {
        "node": node_names([lender.pk])[lender.pk],
        "kept": format_amount(item.resource, own),
        "flavor": item.flavor.name,
        "least": format_amount(item.resource, max(0, least)),
        "asked": format_amount(item.resource, item.amount),
    }
    if least == own:
        sentence = _("%(node)s has %(kept)s of %(flavor)s unassigned; %(asked)s requested.") % values
    else:
        sentence = (
            _(
                "%(node)s has %(kept)s of %(flavor)s unassigned; other transfers leave %(least)s "
                "in this period; %(asked)s requested."
            )
            % values
        )
    error = FieldError(field or f"{item.place}amount", LenderShort.code, sentence)
    numbers = {"own_nominal": own, "least": least, "asked": item.amount, "resource": item.resource.value}
    return LenderShort(sentence, numbers=numbers, errors=[error])


@row_scope.whole()
def _between(tables: QuotaTables, one: uuid.UUID, other: uuid.UUID) -> list[QuotaNode]:
    """Return the nodes whose nominals a move changes: those on the paths from each side up to their meeting
    point.
    """
    ways = [path_to_root(tables.parents, one), path_to_root(tables.parents, other)]
    changed = [pk for way, against in (ways, ways[::-1]) for pk in way if pk not in against]
    rows = QuotaNode.unscoped.select_related("tenant__parent").in_bulk(changed)
    return [rows[pk] for pk in changed]


# Changes


def _start(acting_user: Actor, override: Override, tables: QuotaTables) -> None:
    items = _items(override)
    for item in items:
        own = tables.get_own_nominals(item.flavor.pk, item.resource)[override.lender_id]
        if own is not None and own < item.amount:
            raise _short(override.lender, item, own, own)
    loan_ledgers = {}
    for item in items:
        key = item.flavor.pk, item.resource
        loan_ledgers[key] = tables.build_loan_ledger(key)
        loan_ledgers[key].start_loan(override.pk, Loan(override.lender_id, override.borrower_id, item.amount))
    override.started_by = move_lent_quota(
        acting_user, tables, loan_ledgers, reason=override.reason, source=QuotaChangeSource.LOAN
    )
    override.state, override.problem = OverrideState.ACTIVE, ""
    override.save(update_fields=["state", "problem", "started_by"])
    _record(acting_user, "loan.start", override, after={"state": override.state})


@row_scope.whole()
def _return(acting_user: Actor, override: Override, tables: QuotaTables, now: datetime) -> None:
    """Return the lent quota, and end the loans made of it. Jobs that use it continue over quota until other
    jobs need the quota.

    Row policies are off: the quota may have been lent on to tenants that the user cannot see.
    """
    found = return_loan(override, tables)
    revision = move_lent_quota(
        acting_user, tables, found.ledgers, reason=override.reason, source=QuotaChangeSource.LOAN_RETURNED
    )
    for pk in reversed(found.others):
        other = _locked(pk)
        other.returned_by = revision
        other.save(update_fields=["returned_by"])
        _close(SYSTEM, other, OverrideState.ENDED, "loan.end", now)
    override.returned_by = revision
    override.save(update_fields=["returned_by"])
    _close(acting_user, override, OverrideState.ENDED, "loan.end", now)


def _close(acting_user: Actor, override: Override, state: OverrideState, action: str, now: datetime) -> None:
    override.state, override.ended_at, override.ended_by = state, now, acting_user.get_username()
    override.save(update_fields=["state", "ended_at", "ended_by"])
    _record(acting_user, action, override, after={"state": state.value, "returned": override.returned})


def _items(override: Override) -> list[LoanAmount]:
    return [LoanAmount(row.flavor, Resource(row.resource), row.amount) for row in override_amounts(override)]


def _facts(override: Override, amounts: Sequence[LoanAmount]) -> dict[str, Any]:
    names = node_names([override.lender_id, override.borrower_id])
    return {
        "lender": names[override.lender_id],
        "borrower": names[override.borrower_id],
        "starts_at": override.starts_at.isoformat(),
        "ends_at": override.ends_at.isoformat(),
        "amounts": {f"{item.flavor.name} {item.resource.value}": item.amount for item in amounts},
        "reason": override.reason,
    }


def _record(
    acting_user: Actor,
    action: str,
    override: Override,
    *,
    after: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
) -> None:
    """Record an action in the audit of both sides."""
    Override.unscoped.filter(pk=override.pk).update(version=F("version") + 1)
    override.version += 1
    tenants = (override.lender.tenant_id, override.borrower.tenant_id)
    for tenant_id in dict.fromkeys(tenants):
        audit_log.record_action(
            acting_user,
            action,
            entity="loan",
            entity_id=override.pk,
            tenant_id=tenant_id,
            before=before,
            after=after,
        )
