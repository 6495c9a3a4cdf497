"""Limits of what the queues of a workspace borrow together, where one of them has no limit by mistake.

Earlier releases opened queues without limits: a workspace whose queue had a borrowing limit, set above the
workspace, could open a second queue that borrowed without limit. That missing limit was not decided by an
admin above. So the workspace as a whole borrows no more than its queues were allowed together.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

from foundation.core.quantities import Resource
from quotas.models import QuotaKey
from quotas.tree import NodeLimits
from quotas.tree.limits import Amount


@lru_cache(maxsize=4096)
def share_limits(own_nominal: Amount, borrowing_limit: Amount, lending_limit: Amount) -> NodeLimits:
    """Return one shared object for equal limits: a tree has thousands of rows, most of them equal."""
    return NodeLimits(own_nominal, borrowing_limit, lending_limit)


class StoredQuota(NamedTuple):
    """A row of `Quota` as the arithmetic needs it."""

    node_id: uuid.UUID
    flavor_id: uuid.UUID
    resource: str
    own_nominal: int | None
    borrowing_limit: int | None
    lending_limit: int | None

    @property
    def key(self) -> QuotaKey:
        """The quota that these limits apply to."""
        return QuotaKey(self.node_id, self.flavor_id, Resource(self.resource))

    @property
    def limits(self) -> NodeLimits:
        """The limits as the quota tree takes them."""
        return share_limits(self.own_nominal, self.borrowing_limit, self.lending_limit)


class WorkspaceNode(Protocol):
    """The fields of a quota node that are read here; ids grow with the creation time of nodes."""

    @property
    def pk(self) -> uuid.UUID: ...
    @property
    def parent_id(self) -> uuid.UUID | None: ...
    @property
    def is_queue(self) -> bool: ...
    @property
    def limits_decided(self) -> bool: ...


_FlavorKey = tuple[uuid.UUID, str]
Rows = Mapping[uuid.UUID, Sequence[StoredQuota]]
FlavorsOf = Callable[[Sequence[uuid.UUID]], Mapping[uuid.UUID, set[uuid.UUID]]]
"""The flavors of queues, by their node."""


def bound_workspaces(
    nodes: Sequence[WorkspaceNode], quotas: Rows, flavors_of: FlavorsOf
) -> dict[uuid.UUID, list[StoredQuota]]:
    """Return the rows of workspaces that borrow no more than their queues were allowed together."""
    queues: defaultdict[uuid.UUID, list[WorkspaceNode]] = defaultdict(list)
    for node in sorted(nodes, key=lambda node: node.pk):
        if node.is_queue and node.parent_id is not None:
            queues[node.parent_id].append(node)
    doubtful = {workspace: _doubtful(of, quotas) for workspace, of in queues.items()}
    doubtful = {workspace: of for workspace, of in doubtful.items() if of}
    if not doubtful:
        return {}
    flavors = flavors_of([node.pk for workspace in doubtful for node in queues[workspace]])
    found = {}
    for workspace, unsaid in doubtful.items():
        said = [node.pk for node in queues[workspace] if node.pk not in unsaid]
        limits = dict(_limits(said, unsaid, quotas, flavors))
        rows = {(row.flavor_id, row.resource): row for row in quotas.get(workspace, ())}
        for key, limit in limits.items():
            row = rows.get(key, StoredQuota(workspace, *key, 0, None, None))
            has = row.borrowing_limit
            rows[key] = row._replace(borrowing_limit=limit if has is None else min(has, limit))
        found[workspace] = list(rows.values())
    return found


def _doubtful(queues: Sequence[WorkspaceNode], quotas: Rows) -> set[uuid.UUID]:
    """Return the queues without decided limits that were opened after a queue with a borrowing limit."""
    found, limited = set(), False
    for node in queues:
        if limited and not node.limits_decided:
            found.add(node.pk)
        limited = limited or any(row.borrowing_limit is not None for row in quotas.get(node.pk, ()))
    return found


def _limits(
    said: Sequence[uuid.UUID],
    unsaid: set[uuid.UUID],
    quotas: Rows,
    flavors: Mapping[uuid.UUID, set[uuid.UUID]],
) -> Iterator[tuple[_FlavorKey, int]]:
    """Compute what the queues may borrow together where a doubtful one has no limit."""
    borrowing: dict[uuid.UUID, dict[_FlavorKey, int | None]] = {
        node: {
            **{(flavor, resource.value): None for flavor in flavors.get(node, ()) for resource in Resource},
            **{(row.flavor_id, row.resource): row.borrowing_limit for row in quotas.get(node, ())},
        }
        for node in (*said, *unsaid)
    }
    missing = {key for node in unsaid for key, limit in borrowing[node].items() if limit is None}
    for key in sorted(missing):
        # Without a limit in a flavor that it does not try, a queue borrows nothing of it.
        if any(borrowing[node].get(key, 0) is None and key[0] in flavors.get(node, ()) for node in said):
            continue
        yield key, sum(borrowing[node].get(key) or 0 for node in borrowing)
