"""Prices of pools with the time from which each applies. A price that has taken effect never changes."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from django.db import transaction
from django.db.models import Case, Exists, OuterRef, QuerySet, TextChoices, Value, When
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from clusters.models import Flavor
from foundation.audit import audit_log
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid, NotFound
from foundation.core.months import to_ms
from foundation.web.listing import Column, ColumnKind
from telemetry.models import Price
from telemetry.usage.accounting import Rate
from telemetry.usage.figures import PRICE_DIGITS
from telemetry.usage.stored_reports import delete_stored_reports
from tenants.access import permissions
from tenants.access.permissions import Permission

PRICE_MAX: Final = Decimal(1_000_000)

PRICE_COLUMNS: Final = {
    "flavor": Column("flavor.name"),
    "cluster": Column("flavor.cluster.name"),
    "effective_at": Column("effective_at", ColumnKind.TIME),
}
"""The columns by which a list of prices can be filtered."""


def read_rates(flavors: Iterable[uuid.UUID] | None = None) -> dict[uuid.UUID, list[Rate]]:
    """Return the prices of flavors, or of all, in order of time; callers check the permission."""
    rows = Price.unscoped.order_by("effective_at")
    if flavors is not None:
        rows = rows.filter(flavor__in=list(flavors))
    found: defaultdict[uuid.UUID, list[Rate]] = defaultdict(list)
    for price in rows:
        part = price.gpu_hour if price.slice_hour is None else price.slice_hour
        found[price.flavor_id].append(Rate(to_ms(price.effective_at), price.gpu_hour, part))
    return dict(found)


def _prices() -> QuerySet[Price]:
    return Price.unscoped.select_related("flavor__cluster").order_by(
        "flavor__cluster__name", "flavor__name", "-effective_at"
    )


def price_list(viewer: Actor) -> QuerySet[Price]:
    """Return all prices, the latest of each pool first. Raises: PermissionDenied."""
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    return _prices()


class PriceState(TextChoices):
    """The state of a price: the latest of its pool that has begun is in effect."""

    CURRENT = "current", gettext_lazy("In effect")
    UPCOMING = "upcoming", gettext_lazy("Upcoming")
    EXPIRED = "expired", gettext_lazy("Expired")


def annotate_state(prices: QuerySet[Price], *, now: datetime) -> QuerySet[Price]:
    """Return the prices with the `state` of each."""
    newer = Price.unscoped.filter(
        flavor=OuterRef("flavor"), effective_at__gt=OuterRef("effective_at"), effective_at__lte=now
    )
    return prices.annotate(
        state=Case(
            When(effective_at__gt=now, then=Value(PriceState.UPCOMING.value)),
            When(Exists(newer), then=Value(PriceState.EXPIRED.value)),
            default=Value(PriceState.CURRENT.value),
        )
    )


def price_get(viewer: Actor, pk: uuid.UUID) -> Price:
    """Return one price. Raises: NotFound, PermissionDenied."""
    found = price_list(viewer).filter(pk=pk).first()
    if found is None:
        raise NotFound(_("Price not found."))
    return found


@transaction.atomic
def price_create(
    *,
    acting_user: Actor,
    flavor: Flavor,
    gpu_hour: Decimal,
    slice_hour: Decimal | None,
    effective_at: datetime,
    now: datetime,
) -> Price:
    """Set the price of a pool from a time on.

    The time may be in the past only if the pool had no price until now, so that no shown amount changes.
    Raises: PermissionDenied; Invalid; Conflict for a second price at one time.
    """
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    _check_amount("gpu_hour", gpu_hour)
    if slice_hour is not None:
        _check_amount("slice_hour", slice_hour)
    Flavor.unscoped.select_for_update(no_key=True).get(pk=flavor.pk)
    prices = Price.unscoped.filter(flavor=flavor)
    if effective_at < now and prices.filter(effective_at__lte=now).exists():
        message = _("The pool already has a price at that time. Choose a time in the future.")
        raise Invalid(message, errors=[FieldError("effective_at", "PAST", message)])
    if prices.filter(effective_at=effective_at).exists():
        message = _("The pool already has a price from that time. Delete it first.")
        errors = [FieldError("effective_at", "EXISTS", message)]
        raise Conflict(message, code="PRICE_EXISTS", errors=errors)
    price = Price.unscoped.create(
        flavor=flavor, gpu_hour=gpu_hour, slice_hour=slice_hour, effective_at=effective_at
    )
    if effective_at <= now:
        delete_stored_reports()
    _record(acting_user, "price.create", price, after=_facts(price))
    return price


@transaction.atomic
def price_delete(*, acting_user: Actor, price: Price, now: datetime) -> None:
    """Delete a price that has not taken effect. Raises: PermissionDenied, NotFound, Conflict."""
    permissions.require_permission(acting_user, Permission.CLUSTER_EDIT)
    locked = Price.unscoped.select_for_update(no_key=True).filter(pk=price.pk).first()
    if locked is None:
        raise NotFound(_("Price not found."))
    if price.effective_at <= now:
        raise Conflict(_("A price that has taken effect can't be deleted."), code="PRICE_IN_EFFECT")
    _record(acting_user, "price.delete", price, before=_facts(price))
    locked.delete()


def _check_amount(name: str, amount: Decimal) -> None:
    if (
        not amount.is_finite()
        or not 0 <= amount <= PRICE_MAX
        or -int(amount.as_tuple().exponent) > PRICE_DIGITS
    ):
        message = _("Prices must be from 0 to 1,000,000 with at most six decimals.")
        raise Invalid(message, errors=[FieldError(name, "RANGE", message)])


def _facts(price: Price) -> dict[str, Any]:
    return {
        "flavor": price.flavor.name,
        "gpu_hour": str(price.gpu_hour),
        "slice_hour": None if price.slice_hour is None else str(price.slice_hour),
        "effective_at": price.effective_at.isoformat(),
    }


def _record(acting_user: Actor, action: str, price: Price, **change: Any) -> None:
    audit_log.record_action(acting_user, action, entity="price", entity_id=price.pk, **change)
