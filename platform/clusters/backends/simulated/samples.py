"""Readings of the cards, as the node agent would take them.

There is one row per card and one per pod on it, none for a failed or silent node or an unhealthy card. It
takes three queries, whatever the size of the cluster.
"""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import MappingProxyType
from typing import Final, NamedTuple

from django.db.models import F, Q

from clusters.backends.base import DeviceSample, TaskRef
from clusters.backends.simulated import chance, life
from clusters.backends.simulated.card_values import HOT_C, card_family, card_values
from clusters.backends.simulated.load import (
    HEAT_S,
    POWER_S,
    WHOLE_CARD,
    LoadCurve,
    LoadCurves,
    has_cooled,
)
from clusters.backends.simulated.reports import STRAY_PERCENT
from clusters.backends.simulated.state import ClusterState
from clusters.models import SimulatedDevice, SimulatedPod

DRIVER_MIB: Final = 4
_HOTTEST_RISE_C: Final = 44.0


class Slice(NamedTuple):
    """The present use of one card by one pod; load and heat are shares (0..1) of the whole card.

    `limits`: the allocated and the enforced memory, if it is not a whole card.
    """

    pod: TaskRef
    running: bool
    utilisation: float
    memory_mib: int
    heat: float
    power: float
    limits: Mapping[str, float] = MappingProxyType({})


@dataclass(slots=True)
class _CardLoad:
    """The sum of all slices of a card."""

    slices: list[Slice] = field(default_factory=list)

    def take_sample(self, moment: ClusterState, node: str, card: SimulatedDevice) -> DeviceSample:
        family = card_family(card.model)
        heat = min(1.0, sum(part.heat for part in self.slices))
        power = min(1.0, sum(part.power for part in self.slices))
        running = [part for part in self.slices if part.running]
        stray = STRAY_PERCENT if card.stray_mib else 0.0
        used = min(100.0, 100 * sum(part.utilisation for part in running) + stray)
        memory = DRIVER_MIB + sum(part.memory_mib for part in running) + card.stray_mib
        return DeviceSample(
            at=moment.at,
            node=node,
            device_uuid=card.uuid,
            utilisation_percent=round(used, 2),
            memory_used_mib=min(card.memory_mib, memory),
            temperature_c=HOT_C if card.throttled else temperature_c(card.uuid, heat),
            power_w=round(
                family.idle_w + (family.limit_w - family.idle_w) * min(1.0, power + stray / 100), 1
            ),
            values=card_values(
                card.model, card.memory_mib, used / 100, throttled=card.throttled, xid_code=card.xid_code
            ),
        )


def temperature_c(device_uuid: str, heat: float) -> float:
    """Return the temperature of a card at a share (0..1) of its load; each card is cooled differently."""
    idle_c = chance.random_between(30.0, 35.0, device_uuid, "idle")
    rise_c = chance.random_between(0.85, 1.0, device_uuid, "cooling") * _HOTTEST_RISE_C
    return round(idle_c + rise_c * heat, 1)


def read_samples(cluster_id: uuid.UUID) -> list[DeviceSample]:
    """Read every card that answers, in the order of nodes and card indices."""
    return list(_readings(life.advance_cluster(cluster_id)))


def _readings(moment: ClusterState) -> Iterator[DeviceSample]:
    devices = list(
        SimulatedDevice.unscoped.filter(node__simulation=moment.row, node__failed=False, healthy=True)
        .exclude(node__silent_until__gt=moment.at)
        .annotate(node_name=F("node__name"))
        .order_by("node__name", "index")
    )
    loads = _loads(moment, {card.uuid: card for card in devices})
    for card in devices:
        node, device_uuid = card.node_name, card.uuid
        load = loads.get(device_uuid) or _CardLoad()
        yield load.take_sample(moment, node, card)
        for part in load.slices:
            if part.running:
                yield DeviceSample(
                    moment.at,
                    node,
                    device_uuid,
                    utilisation_percent=round(100 * part.utilisation, 2),
                    memory_used_mib=part.memory_mib,
                    pod=part.pod,
                    values=part.limits,
                )


def _loads(moment: ClusterState, cards: Mapping[str, SimulatedDevice]) -> dict[str, _CardLoad]:
    """Return the present and recent load of each card, by its UUID."""
    timeline, now_s = moment.timeline, moment.at.timestamp()
    since = timeline.sim_at(moment.at - timedelta(minutes=10))
    felt = Q(phase="running") | Q(ended_ms__gte=since)
    pods = SimulatedPod.unscoped.filter(felt, simulation=moment.row).exclude(started_ms=None)
    loads: defaultdict[str, _CardLoad] = defaultdict(_CardLoad)
    columns = ("namespace", "name", "uid", "devices", "utilisation", "started_ms", "ended_ms")
    curves = LoadCurves({uuid for uuid, card in cards.items() if card.unlimited})
    rows = pods.order_by("started_ms", "id").values_list(*columns)
    for namespace, name, uid, devices, mean, started_ms, ended_ms in rows:
        age_s = now_s - timeline.real_at(started_ms).timestamp()
        ended_s = None if ended_ms is None else now_s - timeline.real_at(ended_ms).timestamp()
        if ended_s is not None and has_cooled(ended_s):
            continue
        ref = TaskRef(namespace, name, uid)
        for device_uuid, cores, memory_mib in devices:
            curve = curves.curve_of(name, device_uuid, cores, mean, running=ended_s is None)
            part = _slice(ref, curve, cores, memory_mib, now_s, age_s, ended_s)
            if cores < WHOLE_CARD and device_uuid in cards:
                part = part._replace(limits=_limits(curve, memory_mib, cards[device_uuid]))
            loads[device_uuid].slices.append(part)
    return loads


def _limits(curve: LoadCurve, allocated_mib: int, card: SimulatedDevice) -> dict[str, float]:
    """Return the limits in HAMi's file of the container: without limits, all of the card is allowed."""
    enforced = allocated_mib if curve.is_limited else card.memory_mib
    return {"memory_limit_mib": float(allocated_mib), "memory_enforced_mib": float(enforced)}


def _slice(
    ref: TaskRef,
    curve: LoadCurve,
    cores: int,
    memory_mib: int,
    now_s: float,
    age_s: float,
    ended_s: float | None,
) -> Slice:
    share, running = cores / 100, ended_s is None
    return Slice(
        pod=ref,
        running=running,
        utilisation=share * curve.compute_share(now_s, age_s) if running else 0.0,
        memory_mib=curve.memory_used(memory_mib, age_s) if running else 0,
        heat=share * curve.lagged_share(now_s, age_s, ended_s, HEAT_S),
        power=share * curve.lagged_share(now_s, age_s, ended_s, POWER_S),
    )
