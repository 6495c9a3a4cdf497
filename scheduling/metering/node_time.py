"""CPU and memory of nodes over time, from allocations: of every task, with GPUs or without."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import Q

from foundation.core.months import from_ms, to_ms
from scheduling.metering.usage_rows import Tenants, inline_few_ids
from scheduling.models import Allocation


class NodeTime(NamedTuple):
    """CPU in millicores and memory in MiB, both times milliseconds."""

    cpu: int = 0
    memory: int = 0


NO_TIME: Final = NodeTime()


class NodeTimeRow(NamedTuple):
    """The node time of one task of a job in a period."""

    workspace_id: uuid.UUID
    queue_id: uuid.UUID
    user_id: uuid.UUID
    job_id: uuid.UUID
    flavor_id: uuid.UUID
    time: NodeTime


_KEYS: Final = {
    "workspace_id": "attempt__job__workspace_id",
    "queue_id": "attempt__job__queue_id",
    "user_id": "attempt__job__submitted_by_id",
    "job_id": "attempt__job_id",
    "flavor_id": "flavor_id",
}
_TIMES: Final = ("granted_at", "attempt__admitted_at", "released_at", "cpu_millicores", "memory_mib")


def node_time_rows(
    start_ms: int, end_ms: int, *, now: datetime, workspaces: Tenants = None, **only: Collection[uuid.UUID]
) -> Iterator[NodeTimeRow]:
    """Yield what each allocation held of its node within the time; what is still held ends `now`.

    `only` as for `usage_rows`. The caller has decided who may know.
    """
    held = Allocation.unscoped.filter(
        Q(released_at__isnull=True) | Q(released_at__gt=from_ms(start_ms)),
        attempt__admitted_at__lt=from_ms(end_ms),
        **{f"{_KEYS[name]}__in": list(values) for name, values in only.items()},
    )
    if workspaces is not None:
        held = held.filter(attempt__job__workspace__in=inline_few_ids(workspaces))
    columns: tuple[str, ...] = (*_KEYS.values(), *_TIMES)
    rows: Iterable[tuple[Any, ...]] = held.order_by().values_list(*columns).iterator(chunk_size=2000)
    for *keys, allocated, admitted, released, cpu, memory in rows:
        begin = max(start_ms, to_ms(allocated or admitted))
        length = min(end_ms, to_ms(released or now)) - begin
        if length > 0:
            yield NodeTimeRow._make((*keys, NodeTime(cpu * length, memory * length)))


def sum_node_times(rows: Iterable[NodeTimeRow], key: str) -> dict[uuid.UUID, NodeTime]:
    """Sum rows by one of their ids."""
    sums: defaultdict[uuid.UUID, NodeTime] = defaultdict(NodeTime)
    for row in rows:
        before = sums[owner := getattr(row, key)]
        sums[owner] = NodeTime(before.cpu + row.time.cpu, before.memory + row.time.memory)
    return dict(sums)
