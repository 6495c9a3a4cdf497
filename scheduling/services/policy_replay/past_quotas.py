"""Computes the quotas of a cell in the past: undoes the changes since then on the current quotas."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from foundation.core.quantities import Resource
from quotas.distribution.division import compute_nominals
from quotas.models import QuotaChange, QuotaKey, QuotaRevision
from quotas.selectors.limits.tree import read_engine_rows
from quotas.tree import NodeLimits
from quotas.tree.limits import NOTHING, Amount

FlavorKey = tuple[uuid.UUID, Resource]
Limits = Mapping[QuotaKey, NodeLimits]


@dataclass(frozen=True, slots=True)
class PastQuotas:
    """The limits at the beginning of a period that differ from the current ones, and their changes within
    it."""

    at_begin: Limits
    steps: Sequence[tuple[datetime, Limits]]


def read_past_quotas(cell_id: uuid.UUID, *, begin: datetime, end: datetime) -> PastQuotas:
    """Return the limits of a cell in a period, as far as the history of quotas contains them.

    The history has the nominal of each node including its children; own nominals are computed from it.
    """
    rows = read_engine_rows(cell_id)
    parents = {node.pk: node.parent_id for node in rows.nodes}
    table = _LimitTable(parents, {quota.key: quota.limits for of in rows.quotas.values() for quota in of})
    revisions = list(
        QuotaRevision.unscoped.filter(cell_id=cell_id, created_at__gt=begin)
        .prefetch_related("changes")
        .order_by("-created_at", "-pk")
    )
    after: list[tuple[datetime, Limits]] = []
    touched: set[FlavorKey] = set()
    for revision in revisions:
        changes = list(revision.changes.all())
        keys = {(change.flavor_id, Resource(change.resource)) for change in changes}
        touched |= keys
        if revision.created_at <= end:
            after.append((revision.created_at, table.export_limits(keys)))
        table.undo_changes(changes)
    return PastQuotas(table.export_limits(touched), after[::-1])


class _LimitTable:
    """The limits of all quota nodes, on which changes are undone."""

    def __init__(self, parents: Mapping[uuid.UUID, uuid.UUID | None], limits: Limits) -> None:
        self._parents, self._limits = parents, dict(limits)
        self._children: defaultdict[uuid.UUID, list[uuid.UUID]] = defaultdict(list)
        for node, parent in parents.items():
            if parent is not None:
                self._children[parent].append(node)
        self._nominals: dict[FlavorKey, dict[uuid.UUID, Amount]] = {}

    def _nominals_of(self, key: FlavorKey) -> dict[uuid.UUID, Amount]:
        if key not in self._nominals:
            own = {
                node: self._limits.get(QuotaKey(node, *key), NOTHING).own_nominal for node in self._parents
            }
            self._nominals[key] = compute_nominals(self._parents, own)
        return self._nominals[key]

    def undo_changes(self, changes: Iterable[QuotaChange]) -> None:
        """Set the limits of nodes to those before these changes."""
        for change in changes:
            if change.node_id not in self._parents:
                continue
            flavor_key = change.flavor_id, Resource(change.resource)
            self._nominals_of(flavor_key)[change.node_id] = change.nominal_before
            key = QuotaKey(change.node_id, *flavor_key)
            self._limits[key] = replace(
                self._limits.get(key, NOTHING),
                borrowing_limit=change.borrowing_before,
                lending_limit=change.lending_before,
            )

    def export_limits(self, keys: Iterable[FlavorKey]) -> Limits:
        """Return the limits of all nodes for these flavors and resources."""
        found: dict[QuotaKey, NodeLimits] = {}
        for flavor_key in keys:
            nominals = self._nominals_of(flavor_key)
            for node, nominal in nominals.items():
                below = sum(nominals[child] or 0 for child in self._children[node])
                own = None if nominal is None else max(nominal - below, 0)
                key = QuotaKey(node, *flavor_key)
                limits = self._limits.get(key)
                if limits is None and not own:
                    continue  # the node has no row and needs none
                found[key] = replace(limits or NOTHING, own_nominal=own)
        return found
