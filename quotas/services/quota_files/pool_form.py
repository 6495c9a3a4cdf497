"""Quota of a pool in GPUs: from the short form of a file to limits, and back."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.utils.translation import gettext as _

from clusters.models import Flavor, GpuMode
from foundation.core.errors import Invalid
from foundation.core.quantities import Resource
from quotas.distribution.division import Keep, compute_nominals
from quotas.files import FileProblems, PoolRow, PoolShare
from quotas.models import FlavorKey, QuotaNode
from quotas.selectors.pools.pool_size import OF_GPUS, OF_NODES, PoolSize, pool_sizes
from quotas.selectors.tables.quota_row import QuotaRow
from quotas.services.quota_plan import QuotaAmount, QuotaTables
from quotas.tree.limits import Amount

Setting = int | Keep | None


def pool_amounts(
    pools: Sequence[tuple[QuotaNode, PoolRow, Flavor]],
    given: Mapping[QuotaNode, Sequence[QuotaAmount]],
    problems: FileProblems,
) -> Iterator[tuple[QuotaNode, list[QuotaAmount]]]:
    """Yield the limits that each row of a pool results in; errors are recorded in `problems`.

    CPU and memory that a row omits stay unchanged. Where the node has none of them yet, and `given` names no
    limit, they are unlimited if the root's are or the node is the root, otherwise they follow from the nodes
    of the pool: without them no job could start.
    """
    sizes = pool_sizes({flavor.pk: flavor for _node, _row, flavor in pools}.values())
    tables = {cell: _Totals(cell) for cell in {node.cell_id for node, _row, _flavor in pools}}
    for node, row, flavor in pools:
        table = tables[node.cell_id]
        here = {(amount.flavor.pk, amount.resource) for amount in given.get(node, ())}
        unset = {
            resource: table.root == node.pk or table.get_nominals(flavor, resource)[table.root] is None
            for resource in OF_NODES
            if (flavor.pk, resource) not in here and table.get_nominals(flavor, resource)[node.pk] == 0
        }
        yield node, _limits_of_pool(row, flavor, sizes[flavor.pk], unset, problems)


def amounts_of_gpus(
    node: QuotaNode, flavor: Flavor, gpus: int, *, cpu: Setting = Keep.AS_IS, memory: Setting = Keep.AS_IS
) -> list[QuotaAmount]:
    """Return the nominals of so many GPUs of a pool, with the CPU and memory that belong to them.

    Given CPU and memory are used as they are. Unlimited ones stay unlimited; they also become unlimited where
    the node has none of them yet, the root is unlimited and the parent has no limit. Otherwise they are the
    part of the pool's nodes that belongs to the GPUs. Raises: Invalid for a pool without GPUs, or one whose
    nodes are not known.
    """
    table, size, problems = _Totals(node.cell_id), pool_sizes([flavor])[flavor.pk], FileProblems("gpus")
    of_nodes = [
        _unlimited_or_share(table.get_nominals(flavor, each), node, table.root)
        if asked is Keep.AS_IS
        else asked
        for each, asked in zip(OF_NODES, (cpu, memory), strict=True)
    ]
    row = PoolRow(
        line=0,
        tenant=node.tenant.slug,
        queue="",
        cluster=flavor.cluster.name,
        flavor=flavor.name,
        gpus=gpus,
        cpu=of_nodes[0],
        memory=of_nodes[1],
    )
    found = _limits_of_pool(row, flavor, size, {}, problems)
    try:
        problems.raise_if_any()
    except Invalid as error:
        raise Invalid(error.errors[0].message) from error
    return [replace(amount, borrowing_limit=Keep.AS_IS, lending_limit=Keep.AS_IS) for amount in found]


def amounts_of_compute(flavor: Flavor, size: PoolSize, points: Amount, place: str = "") -> list[QuotaAmount]:
    """Return the nominals of GPUs for so many percent points of compute; None is unlimited.

    Raises: Invalid for a pool without GPUs or of unknown size, and for a part of a GPU where the pool has
    only whole ones.
    """
    problems = FileProblems("gpus")
    row = PoolRow(line=0, tenant="", queue="", cluster=flavor.cluster.name, flavor=flavor.name, gpus=0)
    known = _gpus_known(row, flavor, size, problems)
    try:
        problems.raise_if_any()
    except Invalid as error:
        raise Invalid(error.errors[0].message) from error
    each = size.gpu[Resource.GPU_CORES] or 0
    if points is not None and known and flavor.gpu_mode != GpuMode.SLICE and points % each:
        raise Invalid(_("Enter a number of whole GPUs, for example 8."))
    return [
        QuotaAmount(
            flavor,
            resource,
            None if points is None or of_one is None else points * of_one // each,
            place=place,
        )
        for resource, of_one in size.gpu.items()
    ]


def _unlimited_or_share(
    had: Mapping[uuid.UUID, Amount], node: QuotaNode, root: uuid.UUID
) -> PoolShare | None:
    # A resource that is limited at the parent can't be unlimited below it.
    unset = had[node.pk] == 0 and not (node.parent_id and had[node.parent_id])
    unlimited = had[node.pk] is None or (unset and had[root] is None)
    return None if unlimited else PoolShare.OF_NODES


class _Totals:
    """The nominal of each node of a cell; computed once for each flavor and resource."""

    def __init__(self, cell_id: uuid.UUID) -> None:
        self._tables = QuotaTables(cell_id)
        self.root = next(pk for pk, parent in self._tables.parents.items() if parent is None)
        self._found: dict[FlavorKey, Mapping[uuid.UUID, Amount]] = {}

    def get_nominals(self, flavor: Flavor, resource: Resource) -> Mapping[uuid.UUID, Amount]:
        """Return the nominals by node."""
        key = (flavor.pk, resource)
        if key not in self._found:
            self._found[key] = compute_nominals(self._tables.parents, self._tables.get_own_nominals(*key))
        return self._found[key]


def _limits_of_pool(
    row: PoolRow, flavor: Flavor, size: PoolSize, unset: Mapping[Resource, bool], problems: FileProblems
) -> list[QuotaAmount]:
    """Return the limits of a row. `unset` has, for each resource that gets an unnamed amount, whether it is
    unlimited.
    """
    found = []
    named = [limit for limit in (row.gpus, row.borrowing_limit, row.lending_limit) if limit is not Keep.AS_IS]
    if named:
        if not _gpus_known(row, flavor, size, problems):
            return []
        limits = [_in_gpus(size, each) for each in (row.gpus, row.borrowing_limit, row.lending_limit)]
        place = _place(row, "gpus", problems)
        for resource in OF_GPUS:
            nominal, borrowing, lending = (limit[resource] for limit in limits)
            found.append(QuotaAmount(flavor, resource, nominal, borrowing, lending, place=place))
    for resource, asked in zip(OF_NODES, (row.cpu, row.memory), strict=True):
        amount = asked
        if asked is Keep.AS_IS and resource in unset:
            amount = None if unset[resource] else PoolShare.OF_NODES
        if isinstance(amount, PoolShare):
            amount = _share(row, resource, size, problems)
        if not isinstance(amount, Keep):
            found.append(QuotaAmount(flavor, resource, amount, place=_place(row, resource.value, problems)))
    return found


def _place(row: PoolRow, field: str, problems: FileProblems) -> str:
    return f"{problems.locate_field(row.lines.get(field, row.line), field)} "


def _in_gpus(size: PoolSize, gpus: Setting) -> Mapping[Resource, Setting]:
    return dict.fromkeys(OF_GPUS, gpus) if isinstance(gpus, Keep) else dict(size.compute_amounts(gpus))


def _gpus_known(row: PoolRow, flavor: Flavor, size: PoolSize, problems: FileProblems) -> bool:
    line = row.lines.get("gpus", row.line)
    if flavor.gpu_mode == GpuMode.NONE:
        message = _("Pool %(name)s has no GPUs. Specify cpu and memory.")
        problems.add_problem(line, "gpus", "NO_GPUS", message % {"name": flavor.name})
        return False
    if flavor.gpu_mode != GpuMode.WHOLE and 0 in size.gpu.values():
        message = _("The GPU size of pool %(name)s is unknown. Specify each limit.")
        problems.add_problem(line, "gpus", "UNKNOWN", message % {"name": flavor.name})
        return False
    return True


def _share(row: PoolRow, resource: Resource, size: PoolSize, problems: FileProblems) -> Setting:
    """Return the amount that belongs to the GPUs of the row, or that of all nodes if it names none."""
    if row.gpus is None:
        return None
    if isinstance(row.gpus, Keep):
        return size.nodes[resource]
    share = size.compute_share(resource, row.gpus)
    if share is None:
        message = _('Pool %(name)s has no GPUs now. Enter an amount or "unlimited".')
        line = row.lines.get(resource.value, row.line)
        problems.add_problem(line, resource.value, "NO_NODES", message % {"name": row.flavor})
        return Keep.AS_IS
    return share


def short_of_rows(
    flavor: Flavor, rows: Sequence[QuotaRow], size: PoolSize
) -> tuple[dict[str, Any], list[QuotaRow]]:
    """Compute the fields of the short form for one node and pool, and the rows that it cannot express.

    No fields where the limits of the GPUs are not those of a number of GPUs.
    """
    empty = QuotaRow(queue="", flavor=flavor, resource=Resource.CPU)
    has = {row.resource: row for row in rows}
    limits = {resource: has.get(resource, empty) for resource in (*OF_GPUS, *OF_NODES)}
    fields: dict[str, Any] = {}
    for field, name in (
        ("gpus", "nominal"),
        ("borrowing_limit", "borrowing_limit"),
        ("lending_limit", "lending_limit"),
    ):
        amounts = {resource: getattr(limits[resource], name) for resource in OF_GPUS}
        count = _count(amounts, size)
        if size.compute_amounts(count) != amounts:
            return {}, list(rows)
        fields[field] = count
    if flavor.gpu_mode == GpuMode.NONE:
        fields = {}
    rest = []
    for resource in OF_NODES:
        if limits[resource].borrowing_limit is None and limits[resource].lending_limit is None:
            fields[resource.value] = limits[resource].nominal
        else:
            rest += [row for row in rows if row.resource is resource]
    return fields, rest


def _count(amounts: Mapping[Resource, Amount], size: PoolSize) -> Amount:
    cores, each = amounts[Resource.GPU_CORES], size.gpu[Resource.GPU_CORES]
    return None if cores is None or not each else cores // each
