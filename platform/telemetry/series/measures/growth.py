"""The increase of counters of GPUs since a moment."""

from __future__ import annotations

import uuid
from datetime import datetime

from foundation.core.actor import Actor
from telemetry.models import Reading, RolledMinute, Scope
from telemetry.store.packing import Stat, first_stat, merge_following, unpack_stats, unpack_values
from telemetry.store.times import MINUTE_MS, floor_ms, to_ms
from tenants.access import permissions
from tenants.access.permissions import Permission


def counter_growth(viewer: Actor, measure: str, *, since: datetime) -> dict[uuid.UUID, float]:
    """Return by device id the increase of a counter from `since` to its last reading; absent without
    readings.

    Rolled-up minutes are read from roll-ups, the last ones from readings. A counter that restarted counts
    from 0. Raises: PermissionDenied without `cluster.view`.
    """
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    since_ms = floor_ms(to_ms(since), MINUTE_MS)
    found: dict[uuid.UUID, Stat] = {}
    rolled_until: dict[uuid.UUID, int] = {}
    cards = {"channel__scope": Scope.CARD, "values__isnull": False}
    minutes = RolledMinute.unscoped.filter(at_ms__gte=since_ms, **cards).order_by("at_ms")
    for device, at_ms, packed in minutes.values_list("channel__device_id", "at_ms", "values"):
        if device is None:
            continue
        rolled_until[device] = at_ms + MINUTE_MS
        if (stat := unpack_stats(packed).get(measure)) is not None:
            _follow(found, device, measure, stat)
    oldest = min(rolled_until.values(), default=since_ms)
    readings = Reading.unscoped.filter(at_ms__gte=oldest, **cards).order_by("at_ms")
    for device, at_ms, interval, packed in readings.values_list(
        "channel__device_id", "at_ms", "interval_ms", "values"
    ):
        if device is None or at_ms < rolled_until.get(device, 0):
            continue
        if (value := unpack_values(packed).get(measure)) is not None:
            _follow(found, device, measure, first_stat(measure, value, interval))
    return {device: stat.mean for device, stat in found.items()}


def _follow(found: dict[uuid.UUID, Stat], device: uuid.UUID, measure: str, stat: Stat) -> None:
    before = found.get(device)
    found[device] = stat if before is None else merge_following(measure, before, stat)
