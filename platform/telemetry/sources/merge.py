"""Joins the answers of several sources of one cluster, so that nothing is counted twice.

Per GPU or slice and measure one source wins: the first in the order of `MeasureOrigin`. All values of a GPU
in one pass become one sample, at the time of its best source: two samples of one interval would count its
time twice. For the same reason a source of lower rank is ignored for a node while a better one has fresh
values there, even if the better one was not read or failed in this pass. Pure Python.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from clusters.gpu.batches import DeviceEvent, DeviceValues, EventKind, MeasureBatch, SliceValues
from clusters.gpu.measures import BY_NAME, Level
from telemetry.sources.declarations import EXPORTERS, PRECEDENCE, MeasureOrigin, most_of
from telemetry.sources.samples import MeasuredTarget, Readings

FRESH_PERIODS: Final = 3
"""A source is fresh until it missed this many of its periods."""

_LEAST: Final = frozenset({"idle_s"})
"""Measures whose minimum over several containers is that of their pod; other measures add up."""

Said = tuple[Level, str]
"""A measure with its level."""


@dataclass(frozen=True, slots=True)
class PodHold:
    """A part of a GPU that a running pod of the platform holds; `since_ms` is when the pod started.

    `shared`: the slice scheduler of the cluster allocated it, so its monitor knows the pod.
    """

    device: str
    namespace: str
    pod: str
    pod_uid: str
    since_ms: int
    shared: bool


@dataclass(frozen=True, slots=True)
class Directory:
    """The known facts of a cluster: the node of each GPU, the pods that hold one, and uids of pods.

    `counting`: nodes whose GPUs the cluster only counts, so that only an exporter knows the node of a GPU.
    """

    nodes: Mapping[str, str]
    holds: tuple[PodHold, ...] = ()
    uids: Mapping[tuple[str, str], str] = field(default_factory=dict)
    counting: frozenset[str] = frozenset()

    def with_hosts(self, answers: Iterable[Answer]) -> Directory:
        """Return the directory with the GPUs that exporters found on nodes that only count theirs."""
        hosts = {
            device: host
            for answer in answers
            for device, host in answer.readings.hosts.items()
            if host in self.counting
        }
        return replace(self, nodes={**hosts, **self.nodes})

    def namespaces_of(self) -> dict[str, set[str]]:
        """Return the namespaces with a known pod of each name."""
        found: dict[str, set[str]] = defaultdict(set)
        for namespace, pod in self.uids:
            found[pod].add(namespace)
        return found


@dataclass(frozen=True, slots=True)
class Answer:
    """The samples of one source in this pass, as one exporter; `at_ms` is when it was read."""

    source: str
    origin: MeasureOrigin
    readings: Readings
    at_ms: int
    period_ms: int


@dataclass(frozen=True, slots=True)
class Coverage:
    """The fact that a source measured these measures of a node at `at_ms`, in this pass or an earlier one."""

    source: str
    origin: MeasureOrigin
    node: str
    said: frozenset[Said]
    at_ms: int
    period_ms: int

    def has_level(self, level: Level) -> bool:
        """Return whether the source measured any GPUs, or slices."""
        return any(said == level for said, _ in self.said)

    def is_fresh(self, now_ms: int) -> bool:
        return now_ms - self.at_ms <= FRESH_PERIODS * self.period_ms


@dataclass(slots=True)
class NodeAnswer:
    """The samples of one source from one node: for the page of sources, and for `Coverage`."""

    said: dict[MeasureOrigin, set[Said]] = field(default_factory=dict)
    devices: set[str] = field(default_factory=set)
    values: int = 0
    at_ms: int = 0
    xids: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class Merged:
    """Batches to store, the samples of each source by node, and GPUs without a known node."""

    batches: list[MeasureBatch] = field(default_factory=list)
    nodes: dict[str, dict[str, NodeAnswer]] = field(default_factory=dict)
    unknown: dict[str, set[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Value:
    rank: int
    at_ms: int
    number: float
    source: str

    def sort_key(self) -> tuple[int, int, str]:
        """Return the sort key, of which the smallest wins: by rank, newest first, by name of the source."""
        return (self.rank, -self.at_ms, self.source)


def merge_answers(
    answers: Sequence[Answer],
    directory: Directory,
    *,
    covered: Iterable[Coverage] = (),
    known_xids: Mapping[tuple[str, str], Mapping[str, int]] | None = None,
    now_ms: int,
) -> Merged:
    """Join the answers of one pass.

    `covered` are the earlier samples of sources, `known_xids` the last known XID code of GPUs by source and
    node. Times are milliseconds since 1970.
    """
    merged, directory = Merged(), directory.with_hosts(answers)
    chosen: dict[MeasuredTarget, dict[str, _Value]] = defaultdict(dict)
    instances = {key: uuid for answer in answers for key, uuid in answer.readings.instances.items()}
    namespaces = directory.namespaces_of()
    resolved = [(answer, _resolved(answer, directory, instances, namespaces)) for answer in answers]
    reported = {
        (answer.source, directory.nodes.get(target.device))
        for answer, found in resolved
        for target, _, _ in found
    }
    by_node = _fresh_by_node(covered, reported, now_ms)
    for answer, found in resolved:
        rank = PRECEDENCE[answer.origin]
        for target, values, at_ms in found:
            node = directory.nodes.get(target.device)
            if node is None:
                merged.unknown.setdefault(answer.source, set()).add(target.device)
                continue
            said = _note(merged, answer, node, target, values, at_ms)
            said.values += len(values)
            if any(place < rank and entry.has_level(target.level) for place, entry in by_node.get(node, ())):
                continue
            for name, number in values.items():
                value = _Value(rank, at_ms, number, answer.source)
                before = chosen[target].get(name)
                if before is None or value.sort_key() < before.sort_key():
                    chosen[target][name] = value
        _note_xids(merged, answer, directory)
    events = _events(merged, answers, known_xids or {})
    merged.batches = _batches(chosen, events, directory, answers)
    return merged


def _fresh_by_node(
    covered: Iterable[Coverage], reported: set[tuple[str, str | None]], now_ms: int
) -> dict[str, list[tuple[int, Coverage]]]:
    """Return the fresh earlier coverage by node, except for sources that measured it in this pass."""
    found: dict[str, list[tuple[int, Coverage]]] = defaultdict(list)
    for entry in covered:
        if entry.is_fresh(now_ms) and (entry.source, entry.node) not in reported:
            found[entry.node].append((PRECEDENCE[entry.origin], entry))
    return found


def _resolved(
    answer: Answer,
    directory: Directory,
    instances: Mapping[tuple[str, str], str],
    namespaces: Mapping[str, set[str]],
) -> list[tuple[MeasuredTarget, Mapping[str, float], int]]:
    """Return the values by the platform's names: UUIDs of MIG instances, and pods that exist."""
    readings = answer.readings
    found: dict[MeasuredTarget, tuple[dict[str, float], int]] = {}
    for target, values in readings.values.items():
        device = instances.get((target.device, target.instance)) if target.instance else target.device
        if device is None:
            continue  # no source names the instance's UUID
        known = _pod_of(replace(target, device=device, instance=""), directory, namespaces)
        if known is None:
            continue
        at_ms = readings.times.get(target, answer.at_ms)
        before = found.get(known)
        found[known] = (
            (dict(values), at_ms) if before is None else (_combine(before[0], values), max(before[1], at_ms))
        )
    found.update(_idle_holds(answer, directory, found))
    return [(target, values, at_ms) for target, (values, at_ms) in found.items()]


def _combine(one: Mapping[str, float], other: Mapping[str, float]) -> dict[str, float]:
    """Return the values of two containers of one pod on one GPU, combined."""
    both = dict(one)
    for name, number in other.items():
        if name not in both:
            both[name] = number
        elif name in _LEAST:
            both[name] = min(both[name], number)
        else:
            most = most_of(BY_NAME[name])
            both[name] = min(both[name] + number, most)
    return both


def _pod_of(
    target: MeasuredTarget, directory: Directory, namespaces: Mapping[str, set[str]]
) -> MeasuredTarget | None:
    """Return the target with the uid of its pod; None for a slice of an unknown pod."""
    if target.level != Level.SLICE:
        return target
    namespace = target.namespace
    if not namespace:
        possible = namespaces.get(target.pod, set())
        if len(possible) != 1:
            return None
        (namespace,) = possible
    uid = directory.uids.get((namespace, target.pod))
    if uid is None:
        return None
    # One slice per pod and GPU: exporters name its containers differently.
    return replace(target, namespace=namespace, pod_uid=uid, container="")


def _idle_holds(
    answer: Answer, directory: Directory, found: Iterable[MeasuredTarget]
) -> dict[MeasuredTarget, tuple[dict[str, float], int]]:
    """Return holds without a series of a monitor of their GPU: these containers never used CUDA."""
    if not EXPORTERS[answer.origin].idle_until_seen:
        return {}
    seen = {(target.device, target.pod_uid) for target in found if target.level == Level.SLICE}
    monitored, times = answer.readings.monitored, answer.readings.times
    idle = {}
    for hold in directory.holds:
        at_ms = times.get(MeasuredTarget(Level.DEVICE, hold.device), answer.at_ms)
        if hold.shared and hold.device in monitored and (hold.device, hold.pod_uid) not in seen:
            if at_ms < hold.since_ms:
                continue
            target = MeasuredTarget(
                Level.SLICE, hold.device, namespace=hold.namespace, pod=hold.pod, pod_uid=hold.pod_uid
            )
            values = {
                "utilization_percent": 0.0,
                "memory_used_mib": 0.0,
                "idle_s": (at_ms - hold.since_ms) / 1000,
            }
            idle[target] = (values, at_ms)
    return idle


def _note(
    merged: Merged, answer: Answer, node: str, target: MeasuredTarget, values: Mapping[str, float], at_ms: int
) -> NodeAnswer:
    said = merged.nodes.setdefault(answer.source, {}).setdefault(node, NodeAnswer())
    said.said.setdefault(answer.origin, set()).update((target.level, name) for name in values)
    said.devices.add(target.device)
    said.at_ms = max(said.at_ms, at_ms)
    return said


def _note_xids(merged: Merged, answer: Answer, directory: Directory) -> None:
    for device, code in answer.readings.xids.items():
        node = directory.nodes.get(device)
        if node is not None:
            merged.nodes.setdefault(answer.source, {}).setdefault(node, NodeAnswer()).xids[device] = code


def _events(
    merged: Merged, answers: Sequence[Answer], known: Mapping[tuple[str, str], Mapping[str, int]]
) -> dict[str, list[DeviceEvent]]:
    """Return XID errors by node: a code that differs from the last one of this source, and is not 0.

    A source's first answer about a node gives no event, because the time of the error is unknown. A code that
    occurs twice in a row is one event, because exporters report only the last code.
    """
    found: dict[tuple[str, str, int], DeviceEvent] = {}
    reported = {(answer.source, device): answer for answer in answers for device in answer.readings.xids}
    for source, nodes in merged.nodes.items():
        for node, said in nodes.items():
            before = known.get((source, node))
            if before is None:
                continue
            for device, code in said.xids.items():
                if code and code != before.get(device, 0):
                    answer = reported[source, device]
                    at_ms = answer.readings.times.get(MeasuredTarget(Level.DEVICE, device), answer.at_ms)
                    event = DeviceEvent(device, EventKind.XID, at_ms, code)
                    found.setdefault((node, device, code), event)
    by_node: dict[str, list[DeviceEvent]] = defaultdict(list)
    for (node, _device, _code), event in sorted(found.items()):
        by_node[node].append(event)
    return by_node


def _batches(
    chosen: Mapping[MeasuredTarget, Mapping[str, _Value]],
    events: Mapping[str, list[DeviceEvent]],
    directory: Directory,
    answers: Sequence[Answer],
) -> list[MeasureBatch]:
    """Return one batch per node and time."""
    periods = {answer.source: answer.period_ms for answer in answers}
    devices: dict[tuple[str, int], list[DeviceValues]] = defaultdict(list)
    slices: dict[tuple[str, int], list[SliceValues]] = defaultdict(list)
    interval: dict[tuple[str, int], int] = {}
    for target, found in sorted(chosen.items()):
        node = directory.nodes[target.device]
        best = min(found.values(), key=_Value.sort_key)
        key = (node, best.at_ms)
        values = {name: value.number for name, value in found.items()}
        interval[key] = max(interval.get(key, 0), periods[best.source])
        if target.level == Level.DEVICE:
            devices[key].append(DeviceValues(target.device, values))
        else:
            pod = {"pod_uid": target.pod_uid, "namespace": target.namespace, "pod": target.pod}
            slices[key].append(SliceValues(target.device, values, **pod))
    for node, happened in events.items():
        at_ms = max((place[1] for place in interval if place[0] == node), default=happened[0].at_ms)
        interval.setdefault((node, at_ms), max(periods.values()))
    newest = {node: max(place[1] for place in interval if place[0] == node) for node in events}
    return [
        MeasureBatch(
            node,
            at_ms,
            interval[node, at_ms],
            tuple(devices.get((node, at_ms), ())),
            tuple(slices.get((node, at_ms), ())),
            (),
            tuple(events.get(node, ())) if newest.get(node) == at_ms else (),
        )
        for node, at_ms in sorted(interval)
    ]
