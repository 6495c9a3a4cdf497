"""The resources of foreign pods on nodes and cards, as sums on their rows.

The card of such a pod is known only if cards are known by uuid. Otherwise the node chooses, so only the
number of cards counts: they are attributed to cards without an allocation of the platform. If there are too
few, because both were allocated at the same moment, the rest is stored on the node and attributed to the next
card that becomes free.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from clusters.gpu.named import counted_profile
from clusters.models import Device, ForeignPod, Node

_BATCH: Final = 500  # SQLite bounds the parameters of a statement
_OF_NODE: Final = (
    *("cpu_foreign", "memory_foreign", "pods_foreign", "cards_unplaced"),
    *("cpu_standing", "memory_standing", "pods_standing"),
)
_OF_CARD: Final = ("cores_foreign", "memory_foreign", "foreign_holders")
_MOST: Final = 2**31 - 1  # the range of a column; a pod may request more than any node has


def foreign_settle(*, cluster_id: uuid.UUID, names: Collection[str]) -> bool:
    """Add up what pods of other owners hold on those nodes of a cluster; return whether a sum changed.

    Must run inside the transaction of the change that caused it, under the lock of the cell or of these
    nodes.
    """
    changed = False
    ordered = sorted(names)
    for start in range(0, len(ordered), _BATCH):
        changed |= _settle(cluster_id, ordered[start : start + _BATCH])
    return changed


def unplaced_settle(devices: Iterable[uuid.UUID]) -> None:
    """Attribute other owners' cards that had no place to cards that just became free."""
    short = Node.unscoped.filter(devices__in=list(devices), cards_unplaced__gt=0).distinct()
    by_cluster: defaultdict[uuid.UUID, list[str]] = defaultdict(list)
    for cluster_id, name in short.values_list("cluster_id", "name"):
        by_cluster[cluster_id].append(name)
    for cluster_id, names in sorted(by_cluster.items()):
        foreign_settle(cluster_id=cluster_id, names=names)


def _settle(cluster_id: uuid.UUID, names: Sequence[str]) -> bool:
    nodes = list(
        Node.unscoped.select_for_update(no_key=True).filter(cluster=cluster_id, name__in=names).order_by("pk")
    )
    devices: defaultdict[uuid.UUID, list[Device]] = defaultdict(list)
    rows = Device.unscoped.select_for_update(no_key=True).filter(node__in=nodes)
    for device in rows.order_by("pk"):
        devices[device.node_id].append(device)
    pods: defaultdict[str, list[ForeignPod]] = defaultdict(list)
    here = ForeignPod.unscoped.filter(cluster=cluster_id, node_name__in=names)
    for pod in here.order_by("namespace", "name", "uid"):
        pods[pod.node_name].append(pod)
    changed: list[Node] = []
    cards: list[Device] = []
    for node in nodes:
        spread, unplaced = _spread(devices[node.pk], pods[node.name])
        cards += spread
        if _sum_node(node, pods[node.name], unplaced):
            changed.append(node)
    Node.unscoped.bulk_update(changed, _OF_NODE, batch_size=_BATCH)
    Device.unscoped.bulk_update(cards, _OF_CARD, batch_size=_BATCH)
    return bool(changed or cards)


def _sum_node(node: Node, pods: Iterable[ForeignPod], unplaced: int) -> bool:
    sums: Counter[str] = Counter(cards_unplaced=unplaced)
    for pod in pods:
        held = {"cpu": pod.cpu_millicores, "memory": pod.memory_mib, "pods": 1}
        for kind in ("foreign", "standing") if pod.standing else ("foreign",):
            sums.update({f"{name}_{kind}": amount for name, amount in held.items()})
    return _assign(node, {name: min(sums[name], _MOST) for name in _OF_NODE})


def _spread(devices: Sequence[Device], pods: Iterable[ForeignPod]) -> tuple[list[Device], int]:
    """Attribute what pods hold to the cards of one node; return the cards whose sums changed, and how many
    cards had no place."""
    known = {device.uuid: device for device in devices}
    held: defaultdict[uuid.UUID, Counter[str]] = defaultdict(Counter)
    wanted: Counter[str] = Counter()
    for pod in pods:
        wanted.update(pod.cards)
        for card, cores, memory in pod.shares:
            if card in known:
                part = held[known[card].pk]
                part.update(cores_foreign=cores, memory_foreign=memory, foreign_holders=1)
    unplaced = 0
    for profile, count in sorted(wanted.items()):
        free = [
            device
            for device in sorted(devices, key=_stays)
            if counted_profile(device.uuid) == profile and not device.holders and device.pk not in held
        ]
        for device in free[:count]:
            held[device.pk].update(
                cores_foreign=device.cores_capacity, memory_foreign=device.memory_capacity, foreign_holders=1
            )
        unplaced += max(count - len(free), 0)
    changed = [
        device
        for device in devices
        if _assign(device, {name: min(held[device.pk][name], _MOST) for name in _OF_CARD})
    ]
    return changed, unplaced


def _stays(device: Device) -> tuple[object, ...]:
    """Return the order of cards for foreign pods: present foreign ones, then those that we allocate last."""
    return (not device.foreign_holders, not device.healthy, -device.index, device.pk)


def _assign(row: Node | Device, values: Mapping[str, int]) -> bool:
    differs = any(getattr(row, name) != value for name, value in values.items())
    for name, value in values.items():
        setattr(row, name, value)
    return differs
