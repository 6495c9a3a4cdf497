"""The quota table as lines: one table per pool, the tenant first, then its children."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, pgettext_lazy

from clusters.models import Flavor
from foundation.core.quantities import Resource
from frontend.components.capacity import Meter
from frontend.pages.quotas.tree_use import TableUse
from frontend.texts import formats
from frontend.texts.allocated_use import format_used
from quotas.selectors.pools.pool_size import pool_sizes
from quotas.selectors.tables.quota_row import QuotaRow
from quotas.selectors.tables.quota_table import NodeQuota

UNITS: Final[dict[Resource, tuple[str | Promise, float]]] = {
    Resource.GPU_CORES: (pgettext_lazy("unit", "GPUs"), 100),
    Resource.GPU_CARDS: (pgettext_lazy("unit", "GPUs"), 1),
    Resource.GPU_MEMORY: ("GiB", 1024),
    Resource.CPU: (gettext_lazy("cores"), 1000),
    Resource.MEMORY: ("GiB", 1024),
}
"""The unit that users read, and its size in the resource's own unit."""
TITLES: Final[dict[Resource, str | Promise]] = {
    Resource.GPU_CORES: gettext_lazy("Compute"),
    Resource.GPU_CARDS: gettext_lazy("GPU count"),
    Resource.GPU_MEMORY: gettext_lazy("GPU memory"),
    Resource.CPU: gettext_lazy("CPU"),
    Resource.MEMORY: gettext_lazy("Memory"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaLine:
    """One node in one pool, its amounts as text.

    `use_note` is the reason why the use is unknown or known only in part.
    """

    node_id: uuid.UUID
    name: str
    url: str
    own: bool
    meter: Meter
    nominal: str
    own_nominal: str
    reserved: str
    used: str
    use_note: str
    borrowed: str
    lent: str
    borrowing_limit: str
    lending_limit: str
    pending: str
    edit_url: str
    edited: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """The table of one pool; `unit` is that of all its amounts.

    `over` is the text that the tenant has more quota than there are GPUs; empty otherwise.
    """

    flavor: Flavor
    unit: str
    over: str
    lines: Sequence[QuotaLine]
    edited: bool


@dataclass(frozen=True, slots=True)
class Links:
    """The links of a row: the tenant's own page, and the form; empty if there is none."""

    open: Callable[[NodeQuota], str]
    edit: Callable[[NodeQuota, Flavor], str]


def format_amount(resource: Resource, value: int | None) -> str:
    """Return an amount in the unit that users read, or `unlimited`."""
    if value is None:
        return _("unlimited")
    return formats.format_number(value / UNITS[resource][1], 1).removesuffix(".0")


def pool_tables(
    nodes: Sequence[NodeQuota],
    resource: Resource,
    links: Links,
    use: TableUse,
    editing: tuple[uuid.UUID, uuid.UUID] | None = None,
) -> list[Pool]:
    """Return one table per pool in which any of the nodes has, or uses, the resource; two queries.

    The first node is the tenant itself. `editing` is the node and flavor whose form is open.
    """
    flavors = {
        row.flavor.pk: row.flavor for node in nodes for row in node.assigned_rows if row.resource == resource
    }
    sizes = pool_sizes(flavors.values()) if resource is Resource.GPU_CORES else {}
    found = []
    for flavor in flavors.values():
        lines = [
            _line(node, row, links, use, own=index == 0, edited=editing == (node.node.pk, flavor.pk))
            for index, node in enumerate(nodes)
            for row in (_of(node, flavor, resource),)
        ]
        edited = any(line.edited for line in lines)
        exists = sizes[flavor.pk].gpus[resource] if flavor.pk in sizes else None
        over = _over(_of(nodes[0], flavor, resource).nominal, exists) if nodes else ""
        found.append(Pool(flavor=flavor, unit=str(UNITS[resource][0]), over=over, lines=lines, edited=edited))
    return sorted(found, key=lambda pool: (pool.flavor.name, str(pool.flavor.pk)))


def _over(nominal: int | None, exists: int | None) -> str:
    if nominal is None or exists is None or nominal <= exists:
        return ""
    numbers = {
        "nominal": format_amount(Resource.GPU_CORES, nominal),
        "exists": format_amount(Resource.GPU_CORES, exists),
    }
    return _("Nominal quota of %(nominal)s GPUs exceeds the %(exists)s GPUs of the pool.") % numbers


def _of(node: NodeQuota, flavor: Flavor, resource: Resource) -> QuotaRow:
    for row in node.rows:
        if (row.flavor.pk, row.resource) == (flavor.pk, resource):
            return row
    return QuotaRow(queue=node.queue, flavor=flavor, resource=resource)


def _line(
    node: NodeQuota, row: QuotaRow, links: Links, use: TableUse, *, own: bool, edited: bool
) -> QuotaLine:
    resource, unit, found = row.resource, UNITS[row.resource], use.find_use(node, row)
    format_own = partial(format_amount, resource)
    pending = node.pending_flavors.get(row.flavor.pk, 0)
    return QuotaLine(
        node_id=node.node.pk,
        name=node.queue or node.node.tenant.name,
        url="" if own else links.open(node),
        own=own,
        meter=Meter(
            nominal=(row.nominal or 0) / unit[1],
            allocated=row.reserved / unit[1],
            used=None if found is None else round(found.used / unit[1], 1),
            borrowed=row.borrowed / unit[1],
            lent=row.lent / unit[1],
            unit=str(unit[0]),
            is_partly_measured=found is not None and found.is_partial,
        ),
        nominal=format_amount(resource, row.nominal),
        own_nominal=format_amount(resource, row.own_nominal),
        reserved=format_amount(resource, row.reserved),
        used=format_used(found, format_own),
        use_note=use.explain_use(found, node.node.tenant_id, format_own),
        borrowed=format_amount(resource, row.borrowed) if row.borrowed else formats.MISSING,
        lent=format_amount(resource, row.lent) if row.lent else formats.MISSING,
        borrowing_limit=format_amount(resource, row.borrowing_limit),
        lending_limit=format_amount(resource, row.lending_limit),
        pending=formats.format_number(pending),
        edit_url=links.edit(node, row.flavor),
        edited=edited,
    )
