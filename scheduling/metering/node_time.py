"""CPU and memory of nodes over time, from allocations: of every task, with GPUs or without."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from django.db.models import BigIntegerField, Func, Q, Sum, Value
from django.db.models.functions import Coalesce, Greatest, Least

from foundation.core.months import from_ms, to_ms
from scheduling.metering.usage_rows import Tenants, inline_few_ids
from scheduling.models import Allocation


class NodeTime(NamedTuple):
    """CPU in millicores and memory in MiB, both times milliseconds."""

    cpu: int = 0
    memory: int = 0


NO_TIME: Final = NodeTime()


class NodeTimeRow(NamedTuple):
    """The node time of tasks that have the same ids; `keys` are these."""

    keys: Sequence[uuid.UUID]
    time: NodeTime


_KEYS: Final = {
    "workspace_id": "attempt__job__workspace_id",
    "queue_id": "attempt__job__queue_id",
    "user_id": "attempt__job__submitted_by_id",
    "job_id": "attempt__job_id",
    "flavor_id": "flavor_id",
}


class _Milliseconds(Func):
    """A time as `to_ms` gives it."""

    template = "FLOOR(EXTRACT(EPOCH FROM %(expressions)s) * 1000)::bigint"
    output_field = BigIntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        """Times are texts there: `2026-04-01 00:00:00.123456`, without the fraction where that is zero."""
        moment, parameters = compiler.compile(self.source_expressions[0])
        # Without its fraction, since that is rounded.
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
    """Yield what tasks held of nodes within the time, by some of their ids; what is still held ends `now`.

    The same ids may come several times. `only` as for `usage_rows`. The caller has decided who may know.
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
    # Tasks of the same size are added up by the database: there are few sizes, and a sum of times is small.
    columns = (*(_KEYS[name] for name in by), "cpu_millicores", "memory_mib")
    length = Greatest(Value(0), ended - begun, output_field=BigIntegerField())
    rows: Iterable[tuple[Any, ...]] = held.order_by().values_list(*columns).annotate(held_ms=Sum(length))
    for *keys, cpu, memory, held_ms in rows:
        if held_ms:
            yield NodeTimeRow(keys, NodeTime(cpu * held_ms, memory * held_ms))


def sum_node_times(rows: Iterable[NodeTimeRow], at: int = 0) -> dict[uuid.UUID, NodeTime]:
    """Sum rows by the id that is at this place of their keys."""
    sums: defaultdict[uuid.UUID, NodeTime] = defaultdict(NodeTime)
    for row in rows:
        before = sums[owner := row.keys[at]]
        sums[owner] = NodeTime(before.cpu + row.time.cpu, before.memory + row.time.memory)
    return dict(sums)
