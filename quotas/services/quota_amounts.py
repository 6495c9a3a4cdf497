"""Limits as they come from outside, with names in place of rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from clusters.models import Flavor
from foundation.errors import FieldError, Invalid
from foundation.quantities import Resource
from quotas.models import QuotaNode
from quotas.services.quota_plan import Keep, QuotaAmount


def amounts_of(node: QuotaNode, items: Sequence[Mapping[str, Any]]) -> list[QuotaAmount]:
    """The limits of `amounts` in a request; those that are left out stay as they are.

    Raises: Invalid for a flavor that the node's cell does not have, or has in several clusters.
    """
    flavors = list(
        Flavor.unscoped.filter(cluster__cell_id=node.cell_id).select_related("cluster").order_by("pk")
    )
    return [_amount(item, flavors, f"amounts.{index}.") for index, item in enumerate(items)]


def _amount(item: Mapping[str, Any], flavors: Sequence[Flavor], place: str) -> QuotaAmount:
    cluster = item.get("cluster", "")
    named = [f for f in flavors if f.name == item["flavor"] and cluster in ("", f.cluster.name)]
    if not named:
        message = _("There is no flavor named %(name)s.") % {"name": item["flavor"]}
        raise Invalid(message, errors=[FieldError(f"{place}flavor", "UNKNOWN", message)])
    if len(named) > 1:
        clusters = ", ".join(flavor.cluster.name for flavor in named)
        message = _("Several clusters have this flavor; name one of: %(clusters)s.") % {"clusters": clusters}
        raise Invalid(message, errors=[FieldError(f"{place}cluster", "AMBIGUOUS", message)])
    return QuotaAmount(
        named[0],
        Resource(item["resource"]),
        item.get("nominal", Keep.AS_IS),
        item.get("borrowing_limit", Keep.AS_IS),
        item.get("lending_limit", Keep.AS_IS),
        place=place,
    )
