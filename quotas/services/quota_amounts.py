"""Limits as requests and files write them, with names in place of rows."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.utils.translation import gettext as _

from clusters.models import Flavor
from foundation.core.errors import FieldError, Invalid
from foundation.core.quantities import Resource
from quotas.distribution.division import Keep
from quotas.models import QuotaNode
from quotas.selectors.pools.flavor import list_flavors
from quotas.services.quota_plan import QuotaAmount


def parse_amounts(node: QuotaNode, items: Sequence[Mapping[str, Any]]) -> list[QuotaAmount]:
    """Return the limits of `amounts` in a request; omitted limits stay unchanged.

    Raises: Invalid for a flavor that the node's cell does not have, or has in several clusters.
    """
    flavors = list_flavors([node.cell_id])
    return [_amount(item, flavors, f"amounts.{index}.") for index, item in enumerate(items)]


def find_flavor_of_cell(cell_id: uuid.UUID, item: Mapping[str, Any], place: str) -> Flavor:
    """Return the flavor that `flavor`, and where needed `cluster`, of an item name.

    Raises: Invalid for a flavor that the cell does not have, or has in several clusters.
    """
    return _flavor(item, list_flavors([cell_id]), place)


def select_flavor(flavors: Sequence[Flavor], name: str, cluster: str, place: str = "") -> Flavor:
    """Return the flavor of that name; with an empty cluster the name must be unique. Raises: Invalid."""
    named = [f for f in flavors if f.name == name and cluster in ("", f.cluster.name)]
    if not named:
        message = _("Pool %(name)s not found.") % {"name": name}
        raise Invalid(message, errors=[FieldError(f"{place}flavor", "UNKNOWN", message)])
    if len(named) > 1:
        clusters = ", ".join(flavor.cluster.name for flavor in named)
        message = _("The pool exists in several clusters. Specify one of: %(clusters)s.") % {
            "clusters": clusters
        }
        raise Invalid(message, errors=[FieldError(f"{place}cluster", "AMBIGUOUS", message)])
    return named[0]


def _flavor(item: Mapping[str, Any], flavors: Sequence[Flavor], place: str) -> Flavor:
    return select_flavor(flavors, item["flavor"], item.get("cluster", ""), place)


def _amount(item: Mapping[str, Any], flavors: Sequence[Flavor], place: str) -> QuotaAmount:
    return QuotaAmount(
        _flavor(item, flavors, place),
        Resource(item["resource"]),
        item.get("nominal", Keep.AS_IS),
        item.get("borrowing_limit", Keep.AS_IS),
        item.get("lending_limit", Keep.AS_IS),
        place=place,
    )
