"""Records which intervals have to be rolled up."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterable

from telemetry.models import PendingBucket


def mark_pending(cluster_id: uuid.UUID, grain_ms: int, times: Iterable[int], *, sums: bool = False) -> None:
    """Record that intervals of a cluster have new rows; call it last in the transaction that wrote them.

    `times` are starts of intervals of `grain_ms`. `sums`: their ticks have to be summed as well.
    """
    rows = [
        PendingBucket(
            cluster_id=cluster_id, grain_ms=grain_ms, at_ms=at_ms, token=secrets.randbits(62), sums=sums
        )
        # Sorted, so that two writers that lock several rows cannot deadlock.
        for at_ms in sorted(set(times))
    ]
    PendingBucket.unscoped.bulk_create(
        rows,
        update_conflicts=True,
        unique_fields=["grain_ms", "at_ms", "cluster_id"],
        update_fields=["token", "sums"] if sums else ["token"],
    )
