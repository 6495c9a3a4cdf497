"""The grid of limits for requests and offers: the request consists of the changed limits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from foundation.core.errors import FieldError
from foundation.core.quantities import Resource
from frontend.pages.quotas import form
from quotas.distribution.division import Keep
from quotas.selectors.limits.pool_limits import PoolLimits
from quotas.services.quota_plan import QuotaAmount

_FIELD = re.compile(r"(?:amounts|offer)\.([0-9]{1,9})\.(\w+)")


def requested_items(typed: form.Typed, before: PoolLimits) -> list[dict[str, Any]]:
    """Return the limits that differ from the present ones, as requests take them.

    Raises: Invalid that names each box that cannot be read.
    """
    return [_item(amount) for amount in form.changed_amounts(typed, before)]


def _item(amount: QuotaAmount) -> dict[str, Any]:
    limits = {name: getattr(amount, name) for name in form.LIMITS}
    return {
        "cluster": amount.flavor.cluster.name,
        "flavor": amount.flavor.name,
        "resource": amount.resource.value,
        **{name: value for name, value in limits.items() if not isinstance(value, Keep)},
    }


def mark_errors(
    typed: form.Typed, items: Sequence[Mapping[str, Any]], errors: Sequence[FieldError]
) -> form.Typed:
    """Return the grid with the errors of the items at their boxes."""
    found = []
    for error in errors:
        match = _FIELD.fullmatch(error.field)
        if match and int(match[1]) < len(items):
            error = replace(error, field=f"{items[int(match[1])]['resource']}.{match[2]}")
        found.append(error)
    return typed.mark_errors(found)


def select_other_pools(items: Sequence[Mapping[str, Any]], before: PoolLimits) -> list[Mapping[str, Any]]:
    """Return the requested items of other pools than that of the grid, which an offer leaves unchanged."""
    pool = (before.flavor.cluster.name, before.flavor.name)
    return [item for item in items if (item["cluster"], item["flavor"]) != pool]


def requested_form(before: PoolLimits, items: Sequence[Mapping[str, Any]]) -> form.Typed:
    """Return the grid with the requested limits filled in."""
    typed, pool = form.form_of(before), before.flavor
    values = {
        f"{item['resource']}.{name}": form.format_limit(Resource(item["resource"]), item[name])
        for item in items
        for name in form.LIMITS
        if item["flavor"] == pool.name and item["cluster"] == pool.cluster.name and name in item
    }
    rows = [
        replace(row, boxes=[replace(box, value=values.get(box.name, box.value)) for box in row.boxes])
        for row in typed.rows
    ]
    return replace(typed, rows=rows)
