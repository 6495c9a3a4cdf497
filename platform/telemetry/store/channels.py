"""Finds the channels of keys, and creates those that are new, in a constant number of queries."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

from scheduling.models import Allocation
from telemetry.models import Channel, Scope
from telemetry.store.holdings import DeviceHold
from telemetry.store.matching import ChannelKey

_COLUMNS = ("id", "scope", "cluster_id", "node_id", "device_id", "allocation_id")


def _key(
    scope: str,
    cluster_id: uuid.UUID,
    node_id: uuid.UUID | None,
    device_id: uuid.UUID | None,
    allocation_id: uuid.UUID | None,
) -> ChannelKey:
    if allocation_id is not None:
        return (Scope.SLICE, allocation_id, device_id)
    if node_id is not None:
        return (Scope(scope), node_id, device_id)
    return (Scope.CLUSTER, cluster_id, None)


def _known(cluster_id: uuid.UUID) -> dict[ChannelKey, int]:
    # Two queries and not one with OR: slices of past jobs outnumber the rest, and either half has an
    # index of its own.
    lasting = Channel.unscoped.filter(cluster_id=cluster_id, allocation_id__isnull=True)
    live = Allocation.unscoped.filter(node__cluster_id=cluster_id, released_at__isnull=True)
    slices = Channel.unscoped.filter(allocation_id__in=live.values("id"))
    rows = [*lasting.values_list(*_COLUMNS), *slices.values_list(*_COLUMNS)]
    return {_key(*row[1:]): row[0] for row in rows}


def _new(cluster_id: uuid.UUID, key: ChannelKey, hold: DeviceHold | None) -> Channel:
    scope, first, device_id = key
    channel = Channel(scope=scope, cluster_id=cluster_id, device_id=device_id)
    if hold is not None:
        channel.node_id = hold.node_id
        channel.allocation_id = hold.allocation_id
        channel.task_id = hold.task_id
        channel.job_id = hold.job_id
        channel.workspace_id = hold.workspace_id
        channel.user_id = hold.user_id
    elif scope != Scope.CLUSTER:
        channel.node_id = first
    return channel


def resolve_channels(
    cluster_id: uuid.UUID, keys: Iterable[ChannelKey], holds: Mapping[ChannelKey, DeviceHold]
) -> dict[ChannelKey, int]:
    """Return the channel id of each key; `holds` says whose a slice is.

    Safe beside itself: two writers that create the same channel end with one row, which both use.
    """
    wanted = list(dict.fromkeys(keys))
    known = _known(cluster_id)
    missing = [key for key in wanted if key not in known]
    if missing:
        rows = [_new(cluster_id, key, holds.get(key)) for key in missing]
        Channel.unscoped.bulk_create(rows, ignore_conflicts=True)
        known = _known(cluster_id)
    return {key: known[key] for key in wanted if key in known}
