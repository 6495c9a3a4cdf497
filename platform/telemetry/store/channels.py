"""Finds the channels of keys, and creates new ones, in a constant number of queries."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping

from scheduling.models import Allocation
from telemetry.models import Channel, GpuProcess, Scope
from telemetry.store.holdings import HeldSlice
from telemetry.store.matching import ChannelKey

_COLUMNS = (
    "id",
    "scope",
    "cluster_id",
    "node_id",
    "device_id",
    "allocation_id",
    "workspace_id",
    "process_id",
)


def _key(
    scope: str,
    cluster_id: uuid.UUID,
    node_id: uuid.UUID | None,
    device_id: uuid.UUID | None,
    *others: uuid.UUID | None,
) -> ChannelKey:
    firsts = dict(zip((Scope.SLICE, Scope.WORKSPACE, Scope.PROCESS), others, strict=True))
    kind = Scope(scope)
    return (kind, firsts.get(kind) or node_id or cluster_id, device_id)


def _known(
    cluster_id: uuid.UUID,
    nodes: Collection[uuid.UUID] | None,
    processes: Collection[uuid.UUID],
    *,
    slices: bool,
) -> dict[ChannelKey, int]:
    # Separate queries instead of one with OR: past slices and processes outnumber the rest, and each part has
    # its own index.
    lasting = Channel.unscoped.filter(allocation_id__isnull=True, process_id__isnull=True)
    live = Allocation.unscoped.filter(released_at__isnull=True)
    if nodes is None:
        lasting, live = lasting.filter(cluster_id=cluster_id), live.filter(node__cluster_id=cluster_id)
    else:
        lasting, live = lasting.filter(node_id__in=nodes), live.filter(node__in=nodes)
    parts = [lasting]
    if slices:
        parts.append(Channel.unscoped.filter(allocation_id__in=live.values("id")))
    if processes:
        parts.append(Channel.unscoped.filter(process_id__in=processes))
    return {_key(*row[1:]): row[0] for part in parts for row in part.values_list(*_COLUMNS)}


def _past(keys: Iterable[ChannelKey]) -> dict[ChannelKey, int]:
    """Return the channels of slices that are no longer held."""
    ended = {first for scope, first, _ in keys if scope == Scope.SLICE}
    if not ended:
        return {}
    rows = Channel.unscoped.filter(allocation_id__in=ended).values_list(*_COLUMNS)
    return {_key(*row[1:]): row[0] for row in rows}


def _new(
    cluster_id: uuid.UUID, key: ChannelKey, hold: HeldSlice | None, process: GpuProcess | None
) -> Channel:
    scope, first, device_id = key
    channel = Channel(scope=scope, cluster_id=cluster_id, device_id=device_id)
    if process is not None:
        channel.process_id, channel.node_id = process.pk, process.node_id
        channel.workspace_id = process.workspace_id
    elif hold is not None:
        channel.node_id = hold.node_id
        channel.allocation_id = hold.allocation_id
        channel.task_id = hold.task_id
        channel.job_id = hold.job_id
        channel.workspace_id = hold.workspace_id
        channel.user_id = hold.user_id
    elif scope == Scope.WORKSPACE:
        channel.workspace_id = first
    elif scope != Scope.CLUSTER:
        channel.node_id = first
    return channel


def resolve_channels(
    cluster_id: uuid.UUID,
    keys: Iterable[ChannelKey],
    holds: Mapping[ChannelKey, HeldSlice],
    nodes: Collection[uuid.UUID] | None = None,
    processes: Mapping[uuid.UUID, GpuProcess] | None = None,
) -> dict[ChannelKey, int]:
    """Return the channel id of each key; `holds` gives the owners of slices, `processes` the processes.

    With `nodes`, keys are only of their cards, slices and processes. Safe to run concurrently: two writers
    that create the same channel end with one row, which both use.
    """
    wanted = list(dict.fromkeys(keys))
    if not wanted:
        return {}
    named = [first for scope, first, _ in wanted if scope == Scope.PROCESS]
    slices = any(scope == Scope.SLICE for scope, _, _ in wanted)
    known = _known(cluster_id, nodes, named, slices=slices)
    missing = [key for key in wanted if key not in known]
    if missing and (past := _past(missing)):
        known |= past
        missing = [key for key in missing if key not in past]
    if missing:
        rows = [_new(cluster_id, key, holds.get(key), (processes or {}).get(key[1])) for key in missing]
        Channel.unscoped.bulk_create(rows, ignore_conflicts=True)
        known |= _known(cluster_id, nodes, named, slices=slices) | _past(missing)
    return {key: known[key] for key in wanted if key in known}
