"""The quota tree as lines: one per tenant and queue, for one pool."""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.urls import reverse
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from clusters.models import Flavor, GpuMode
from foundation.core.quantities import WHOLE_CARD, Resource
from frontend.components.capacity import Meter
from frontend.pages.quotas.rows import TITLES, UNITS
from frontend.pages.quotas.tree_columns import TreeFacts
from frontend.texts import formats
from frontend.texts.allocated_use import AllocatedUse, format_used
from quotas.selectors.pools.pool_size import PoolSize, pool_sizes
from quotas.selectors.tables.quota_tree import MoreRows, QuotaTreeRow, ResourceQuota, TreeRows
from quotas.tree.limits import Amount

GPUS: Final = "gpus"
"""The key of cells in whole GPUs, which set count, compute and GPU memory together."""
DEEPEST: Final = 5  # the style sheet has no deeper indent


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeColumn:
    """A resource whose nominal the page shows. `key` names its cells, `unit` is the size of the shown unit in
    the resource's own unit.
    """

    key: str
    resource: Resource
    title: str
    unit_word: str
    unit: int

    def format_amount(self, amount: Amount) -> str:
        """Return an amount in the shown unit, without the unit's name."""
        if amount is None:
            return _("unlimited")
        return formats.format_number(amount / self.unit, 1).removesuffix(".0")

    def format_exact(self, amount: Amount) -> str:
        """Return the exact amount for input fields, without rounding."""
        return _("unlimited") if amount is None else f"{round(amount / self.unit, 3):.10g}"


@dataclass(frozen=True, slots=True)
class TreeLayout:
    """The columns of a view of a pool: the first one in full, the others with nominal and allocated."""

    flavor: Flavor
    size: PoolSize
    columns: Sequence[TreeColumn]

    @property
    def main_column(self) -> TreeColumn:
        return self.columns[0]

    @property
    def resources(self) -> list[Resource]:
        return [column.resource for column in self.columns]

    @property
    def ratio(self) -> str:
        """The CPU and memory of one percent point of compute, by key, as JSON; empty if not known."""
        each = self.size.gpu[Resource.GPU_CORES] or int(WHOLE_CARD)
        shares = {} if self.main_column.key != GPUS else _shares_of_one(self.size)
        return json.dumps({resource.value: share / each for resource, share in shares.items()})

    @property
    def ratio_words(self) -> str:
        """The ratio as text: `1 GPU : 16 CPU cores : 128 GiB`; empty if not known."""
        shares = _shares_of_one(self.size) if self.main_column.key == GPUS else {}
        if len(shares) < 2:
            return ""
        cpu, memory = shares[Resource.CPU], shares[Resource.MEMORY]
        return _("1 GPU : %(cpu)s CPU cores : %(memory)s") % {
            "cpu": f"{cpu / 1000:g}",
            "memory": formats.format_memory(memory),
        }

    @property
    def pending_resource(self) -> Resource:
        """The resource of the column of pending requests: GPUs, unless the main column is CPU or memory."""
        shown = self.main_column.resource
        return shown if shown in (Resource.CPU, Resource.MEMORY) else Resource.GPU_CARDS

    @property
    def pending_title(self) -> str:
        """The head of the column of pending requests."""
        return _("Pending GPUs") if self.pending_resource is Resource.GPU_CARDS else _("Pending")

    def format_pending(self, amount: int) -> str:
        """Return a pending amount in the unit of its column."""
        if self.pending_resource is Resource.GPU_CARDS:
            return formats.format_number(amount)
        return self.main_column.format_amount(amount)

    @property
    def pool_amount(self) -> Amount:
        """The amount of the main column in the pool; None if it is not meaningful."""
        if self.main_column.resource in self.size.nodes:
            return self.size.nodes[self.main_column.resource]
        return self.size.gpus.get(self.main_column.resource)


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeCell:
    """The nominal of one resource. `raw` is in the resource's own unit, empty for unlimited. Without pending
    jobs that request it, `pending` is empty.
    """

    key: str
    title: str
    label: str
    text: str
    exact: str
    raw: str
    unit: int
    reserved: str
    pending: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeLine:
    """One row. `rate` is the allocated part of the nominal. `own` is by key what the node may still
    distribute, as JSON for the page's sums; `follows` are the keys in which its only queue follows it.
    `use_note` is the reason why the use is unknown or known only in part.
    """

    row: QuotaTreeRow
    indent: int
    url: str
    limits_url: str
    open_url: str
    meter: Meter
    cell: TreeCell
    others: Sequence[TreeCell]
    owner: str
    unassigned: str
    reserved: str
    rate: str
    used: str
    use_note: str
    pending: str
    borrowed: str
    lent: str
    free: str
    over: str
    own: str
    follows: str
    says: dict[str, str]


def _shares_of_one(size: PoolSize) -> dict[Resource, int]:
    shares = {resource: size.compute_share(resource, 1) for resource in size.nodes}
    return {resource: share for resource, share in shares.items() if share is not None}


def layout_of(flavor: Flavor, word: str) -> TreeLayout:
    """Return the columns that `?resource=` names; all resources for any other text."""
    size = pool_sizes([flavor])[flavor.pk]
    if word in {resource.value for resource in Resource} and word != Resource.GPU_CORES:
        return TreeLayout(flavor, size, [_column(Resource(word))])
    beside = [_column(Resource.CPU), _column(Resource.MEMORY)]
    if flavor.gpu_mode == GpuMode.NONE:
        return TreeLayout(flavor, size, beside)
    return TreeLayout(flavor, size, [gpu_column(flavor, size), *beside])


def gpu_column(flavor: Flavor, size: PoolSize) -> TreeColumn:
    """Return the column in GPUs, or in instances of MIG, of which the largest counts as one."""
    mig = flavor.gpu_mode == GpuMode.MIG
    unit = (size.gpu[Resource.GPU_CORES] if mig else 0) or int(WHOLE_CARD)
    title: str | Promise = _("MIG instances") if mig else _("GPUs")
    return TreeColumn(
        key=GPUS, resource=Resource.GPU_CORES, title=str(title), unit_word=str(title), unit=unit
    )


def _column(resource: Resource) -> TreeColumn:
    word, unit = UNITS[resource]
    return TreeColumn(
        key=resource.value,
        resource=resource,
        title=str(TITLES[resource]),
        unit_word=str(word),
        unit=int(unit),
    )


def tree_lines(
    layout: TreeLayout, rows: TreeRows, query: dict[str, str], facts: TreeFacts
) -> list[TreeLine | MoreRows]:
    """Return the rows as lines; `query` are the parameters that addresses keep."""
    return [row if isinstance(row, MoreRows) else _line(layout, row, query, facts) for row in rows]


def _line(layout: TreeLayout, row: QuotaTreeRow, query: dict[str, str], facts: TreeFacts) -> TreeLine:
    column = layout.main_column
    amounts = row.amounts[column.resource]
    use = facts.find_use(row)
    return TreeLine(
        row=row,
        indent=min(row.depth, DEEPEST),
        url="" if row.queue else f"{reverse('frontend:ops-quotas')}?{urlencode({'tenant': row.slug})}",
        limits_url=_limits_url(layout.flavor, row) if row.may_edit else "",
        open_url=f"?{urlencode({**query, 'open': str(row.node_id)})}#node-{row.node_id}",
        meter=draw_meter(column, amounts, use),
        cell=_cell(column, row),
        others=[_cell(other, row, facts.find_pending(row, other.resource)) for other in layout.columns[1:]],
        unassigned=column.format_amount(amounts.own_nominal) if row.children else formats.MISSING,
        owner=facts.describe_owner(row),
        reserved=column.format_amount(amounts.reserved),
        rate=formats.format_percent(100 * amounts.reserved / amounts.nominal if amounts.nominal else None),
        used=format_used(use, column.format_amount),
        use_note=facts.explain_use(row, use, column.format_amount),
        pending=layout.format_pending(facts.find_pending(row, layout.pending_resource)),
        borrowed=column.format_amount(amounts.borrowed) if amounts.borrowed else formats.MISSING,
        lent=column.format_amount(amounts.lent) if amounts.lent else formats.MISSING,
        free=column.format_amount(amounts.free),
        over=_over(amounts.nominal, layout.pool_amount),
        own=json.dumps({c.key: _own(row.amounts[c.resource]) for c in layout.columns}),
        says=_labels(row.name),
        follows=" ".join(c.key for c in layout.columns if c.resource in row.followed),
    )


def _labels(name: str) -> dict[str, str]:
    """Return the labels of a row's controls, for screen readers."""
    return {
        "children": _("Children of %(name)s") % {"name": name},
        "move": _("Move quota of %(name)s") % {"name": name},
        "limits": _("All limits of %(name)s") % {"name": name},
    }


def _own(amounts: ResourceQuota) -> int | None:
    """Return what a node did not distribute; None if its distribution is not limited."""
    return None if amounts.nominal is None else amounts.own_nominal


def _over(nominal: Amount, exists: Amount) -> str:
    """Return the ratio of a nominal to the pool, if it is more than the pool has."""
    if nominal is None or not exists or nominal <= exists:
        return ""
    return f"×{nominal / exists:.2f}"


def _cell(column: TreeColumn, row: QuotaTreeRow, pending: int = 0) -> TreeCell:
    amounts = row.amounts[column.resource]
    return TreeCell(
        key=column.key,
        title=column.title,
        label=_("%(resource)s of %(name)s") % {"resource": column.title, "name": row.name},
        text=column.format_amount(amounts.nominal),
        exact=column.format_exact(amounts.nominal),
        raw="" if amounts.nominal is None else str(amounts.nominal),
        unit=column.unit,
        reserved=_("%(amount)s allocated") % {"amount": column.format_amount(amounts.reserved)},
        pending=_("%(amount)s pending") % {"amount": column.format_amount(pending)} if pending else "",
    )


def draw_meter(column: TreeColumn, amounts: ResourceQuota, use: AllocatedUse | None) -> Meter:
    """Return the bar of a row; `use` is None where it is unknown or not shown."""
    return Meter(
        nominal=(amounts.nominal or 0) / column.unit,
        allocated=amounts.reserved / column.unit,
        used=None if use is None else round(use.used / column.unit, 1),
        borrowed=amounts.borrowed / column.unit,
        lent=amounts.lent / column.unit,
        unit=column.unit_word,
        is_partly_measured=use is not None and use.is_partial,
    )


def _limits_url(flavor: Flavor, row: QuotaTreeRow) -> str:
    """Return the address of the form with every limit of the node, below the table of its parent."""
    query: dict[str, Any] = {"tenant": row.slug, "edit": row.node_id, "flavor": flavor.pk}
    return f"{reverse('frontend:ops-quotas')}?{urlencode(query)}#quota-form"


def node_of(text: str) -> uuid.UUID | None:
    """Return a node's id from an address or a form; None for any other text."""
    try:
        return uuid.UUID(text)
    except ValueError:
        return None
