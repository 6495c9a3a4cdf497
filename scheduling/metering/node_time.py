"""Sums CPU and memory of nodes over time from the allocations of all tasks, with or without GPUs."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import BigIntegerField, Func, Q, Sum, Value
from django.db.models.functions import Coalesce, Greatest, Least

from foundation.core.months import from_ms, to_ms
from scheduling.metering.usage_rows import RUN_KEYS, Tenants, inline_few_ids
from scheduling.models import Allocation


class NodeTime(NamedTuple):
    """CPU in millicores and memory in MiB, both multiplied by milliseconds."""

    cpu: int = 0
    memory: int = 0


NO_TIME: Final = NodeTime()


class NodeTimeRow(NamedTuple):
    """The node time of tasks with the same ids, which are `keys`."""

    keys: Sequence[uuid.UUID]
    time: NodeTime


_KEYS: Final = {
    "workspace_id": "attempt__job__workspace_id",
    "flavor_id": "flavor_id",
    **RUN_KEYS,
}


class _Milliseconds(Func):
    """The SQL for a time in milliseconds since 1970, as `to_ms`."""

    template = "FLOOR(EXTRACT(EPOCH FROM %(expressions)s) * 1000)::bigint"
    output_field = BigIntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Return the SQL for SQLite, where times are text such as `2026-04-01 00:00:00.123456`; a fraction of
        zero is left out."""
        moment, parameters = compiler.compile(self.source_expressions[0])
        # The fraction is cut off, because STRFTIME would round it.
        seconds = f"CAST(STRFTIME('%%s', SUBSTR({moment}, 1, 19)) AS INTEGER)"
        whole = f"({seconds} * 1000 + CAST(SUBSTR({moment}, 21, 3) AS INTEGER))"
        return whole, [*parameters, *parameters]


def node_time_rows(
    start_ms: int,
    end_ms: int,
    by: Sequence[str],
    *,
    now: datetime,
    workspaces: Tenants = None,
    **only: Collection[uuid.UUID],
) -> Iterator[NodeTimeRow]:
    """Yield the node time of tasks within a period, by some of their ids; live allocations count until `now`.

    The same ids may occur several times. `only` is as for `usage_rows`. The caller has checked permissions.
    """
    held = Allocation.unscoped.filter(
        Q(released_at__isnull=True) | Q(released_at__gt=from_ms(start_ms)),
        attempt__admitted_at__lt=from_ms(end_ms),
        **{f"{_KEYS[name]}__in": list(values) for name, values in only.items()},
    )
    if workspaces is not None:
        held = held.filter(attempt__job__workspace__in=inline_few_ids(workspaces))
    begun = Greatest(Value(start_ms), _Milliseconds(Coalesce("granted_at", "attempt__admitted_at")))
    ended = Least(Value(end_ms), Coalesce(_Milliseconds("released_at"), Value(to_ms(now))))
    # The database groups tasks by size: there are few sizes, and a sum of times does not overflow.
    columns = (*(_KEYS[name] for name in by), "cpu_millicores", "memory_mib")
    length = Greatest(Value(0), ended - begun, output_field=BigIntegerField())
    rows: Iterable[tuple[Any, ...]] = held.order_by().values_list(*columns).annotate(held_ms=Sum(length))
    for *keys, cpu, memory, held_ms in rows:
        if held_ms:
            yield NodeTimeRow(keys, NodeTime(cpu * held_ms, memory * held_ms))


def sum_node_times(rows: Iterable[NodeTimeRow], at: int = 0) -> dict[uuid.UUID, NodeTime]:
    """Return the sums of rows by the id at the index `at` of their keys."""
    sums: defaultdict[uuid.UUID, NodeTime] = defaultdict(NodeTime)
    for row in rows:
        before = sums[owner := row.keys[at]]
        sums[owner] = NodeTime(before.cpu + row.time.cpu, before.memory + row.time.memory)
    return dict(sums)
