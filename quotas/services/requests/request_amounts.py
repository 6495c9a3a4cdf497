"""The limits that a request or an offer names: checked, stored by name, and read back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from django.utils.translation import gettext as _

from foundation.core.errors import FieldError, Invalid
from quotas.distribution.division import Keep
from quotas.models import QuotaKey, QuotaNode
from quotas.services.quota_amounts import parse_amounts
from quotas.services.quota_plan import NodeAmounts, QuotaAmount, QuotaLimits, QuotaTables, wanted_amounts
from quotas.tree.limits import Amount

LIMITS = ("nominal", "borrowing_limit", "lending_limit")
Items = Sequence[Mapping[str, Any]]


def store_amounts(
    node: QuotaNode, items: Items, *, until: datetime | None, name: str = "amounts"
) -> list[dict[str, Any]]:
    """Return the items as they are stored, each with the cluster of its flavor.

    Raises: Invalid that names the item, for impossible amounts, for amounts that are not above the present
    ones, and for limits other than a nominal in a request with an end.
    """
    amounts = [replace(a, place=a.place.replace("amounts.", f"{name}.")) for a in parse_amounts(node, items)]
    wanted_amounts(node.cell_id, [NodeAmounts(node, amounts)])
    tables = QuotaTables(node.cell_id)
    for amount in amounts:
        _check_more(amount, _limits_now(tables, node, amount))
        if until is not None and (_limits_borrowing_or_lending(amount) or amount.nominal is None):
            message = _("Only nominal quota can be temporary.")
            raise Invalid(message, errors=[FieldError(f"{amount.place}nominal", "UNTIL", message)])
    return [_item(amount) for amount in amounts]


def names_lending_limits(items: Items) -> bool:
    """Return whether the items name a limit of borrowing or lending, which is decided further up."""
    return any(name in item for item in items for name in ("borrowing_limit", "lending_limit"))


def current_limits(node: QuotaNode, items: Items) -> list[dict[str, Any]]:
    """Return the present limits that the items name, in the same form with all three limits."""
    tables, found = QuotaTables(node.cell_id), []
    for amount in parse_amounts(node, items):
        now = _limits_now(tables, node, amount)
        limits = {name: getattr(now, name) for name in LIMITS}
        found.append({**_place(amount), **limits})
    return found


def find_missing_amounts(node: QuotaNode, items: Items) -> list[QuotaAmount]:
    """Return the amounts that are still above the node's limits; others were raised in the meantime."""
    tables, found = QuotaTables(node.cell_id), []
    for amount in parse_amounts(node, items):
        now = _limits_now(tables, node, amount)
        unchanged = {
            name: Keep.AS_IS
            for name in LIMITS
            if not isinstance(getattr(amount, name), Keep)
            and not _asks(name, getattr(amount, name), getattr(now, name))
        }
        left = replace(amount, **unchanged)  # type: ignore[arg-type]
        if any(not isinstance(getattr(left, name), Keep) for name in LIMITS):
            found.append(left)
    return found


def _check_more(amount: QuotaAmount, now: QuotaLimits) -> None:
    named = [name for name in LIMITS if not isinstance(getattr(amount, name), Keep)]
    if not named:
        message = _("Enter an amount.")
        raise Invalid(message, errors=[FieldError(f"{amount.place}nominal", "REQUIRED", message)])
    for name in named:
        if not _asks(name, getattr(amount, name), getattr(now, name)):
            message = _("The requested amount isn't higher than the current quota.")
            raise Invalid(message, errors=[FieldError(f"{amount.place}{name}", "NOT_MORE", message)])


def _asks(name: str, asked: Amount, has: Amount) -> bool:
    """Return whether a limit asks for more than the node has; any change of a lending limit does."""
    if name == "lending_limit":
        return asked != has
    return has is not None and (asked is None or asked > has)


def _limits_borrowing_or_lending(amount: QuotaAmount) -> bool:
    return not isinstance(amount.borrowing_limit, Keep) or not isinstance(amount.lending_limit, Keep)


def _limits_now(tables: QuotaTables, node: QuotaNode, amount: QuotaAmount) -> QuotaLimits:
    return tables.get_quota_limits(QuotaKey(node.pk, amount.flavor.pk, amount.resource))


def _place(amount: QuotaAmount) -> dict[str, Any]:
    return {
        "cluster": amount.flavor.cluster.name,
        "flavor": amount.flavor.name,
        "resource": amount.resource.value,
    }


def _item(amount: QuotaAmount) -> dict[str, Any]:
    limits = {name: getattr(amount, name) for name in LIMITS}
    return {**_place(amount), **{k: v for k, v in limits.items() if not isinstance(v, Keep)}}
