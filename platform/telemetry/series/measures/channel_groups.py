"""The lines of a request for measures: the channels of each group, and its label."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from clusters.models import Device, Node
from telemetry.models import Channel, Scope
from tenants.models import Tenant


@dataclass(slots=True)
class ChannelGroup:
    """One line: the channels whose roll-ups it is made of, and those whose readings follow these."""

    subject: str
    label: str
    rolled: set[int] = field(default_factory=set)
    fine: set[int] = field(default_factory=set)


def group_channels(rows: list[Channel], group_by: str | None, rolled: Scope) -> list[ChannelGroup]:
    """Return the groups in the order of their labels."""
    keyed = _subjects(rows, group_by)
    groups: dict[str, ChannelGroup] = {}
    for row in rows:
        subject, label = keyed(row)
        group = groups.setdefault(subject, ChannelGroup(subject, label))
        if row.scope == rolled:
            group.rolled.add(row.pk)
        if row.scope in (Scope.CARD, Scope.SLICE):
            group.fine.add(row.pk)
    return sorted(groups.values(), key=lambda group: (_natural(group.label), group.subject))


def _natural(label: str) -> list[str | int]:
    """Return a sort key with numbers in text as numbers: GPU 2 before GPU 10."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"([0-9]+)", label))]


def _subjects(rows: Sequence[Channel], group_by: str | None) -> Any:
    """Return the function that gives the subject and label of a channel's group."""
    names: dict[Any, str]
    if group_by in ("node", "pool"):
        column = "name" if group_by == "node" else "flavor__name"
        nodes = Node.unscoped.filter(pk__in={row.node_id for row in rows})
        names = dict(nodes.values_list("pk", column))
        if group_by == "pool":
            pools = dict(nodes.values_list("pk", "flavor_id"))
            return lambda row: (str(pools.get(row.node_id) or ""), names.get(row.node_id) or "?")
        return lambda row: (str(row.node_id), names.get(row.node_id, "?"))
    if group_by == "workspace":
        names = dict(
            Tenant.unscoped.filter(pk__in={row.workspace_id for row in rows}).values_list("pk", "slug")
        )
        return lambda row: (str(row.workspace_id), names.get(row.workspace_id, "?"))
    if group_by == "gpu":
        devices = Device.unscoped.filter(pk__in={row.device_id for row in rows})
        columns = devices.values_list("pk", "node__name", "index")
        names = {pk: f"{node} · GPU {index}" for pk, node, index in columns}
        return lambda row: (str(row.device_id), names.get(row.device_id, "?"))
    if group_by == "job":
        return lambda row: (str(row.job_id), str(row.job_id))
    return lambda row: ("", "")
