"""Converts the samples of an exporter to the names and units of the catalogue.

Pure Python, and total: any sample becomes a value or is counted as refused. Undeclared metrics are ignored.
Samples that several replicas of an exporter, or of Prometheus, repeat count once.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from clusters.gpu.measures import Level
from telemetry.sources.declarations import (
    EXPORTERS,
    Exporter,
    ExporterLabels,
    MeasureOrigin,
    Metric,
    is_whole,
    measure_of,
    metric_names,
    most_of,
)
from telemetry.sources.samples import MeasuredTarget, RawSample, Readings

_DEVICE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,79}")
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9.-]{0,252}")
_UID: Final = re.compile(r"[A-Za-z0-9-]{1,64}")
_NUMBER: Final = re.compile(r"[0-9]{1,4}")
_XID_MAX: Final = 2**16

Found = dict[MeasuredTarget, dict[str, RawSample]]
"""The samples of each target by the name of their metric."""


class _Refused(ValueError):
    """A label or value is invalid."""


def read_samples(origin: MeasureOrigin, samples: Iterable[RawSample]) -> Readings:
    """Return the values in the samples of one exporter; those of other exporters are ignored."""
    exporter = EXPORTERS[origin]
    declared = {metric.name: metric for metric in exporter.metrics}
    readings, found = Readings(), _Samples(exporter)
    for sample in samples:
        try:
            if sample.name == exporter.xid:
                _add_xid(readings, exporter.labels, sample)
            elif sample.name in exporter.instances:
                _add_instance(readings, exporter.labels, sample)
            elif sample.name in declared:
                found.add_sample(declared[sample.name], sample)
                _note_host(readings, exporter.labels, sample)
        except _Refused:
            readings.refused += 1
    for target, by_name in found.settle_samples().items():
        _add_values(readings, exporter, target, by_name)
    for device, code in readings.xids.items():
        if code:
            readings.values.setdefault(MeasuredTarget(Level.DEVICE, device), {})["xid"] = float(code)
            readings.used += 1
    readings.monitored = {target.device for target in readings.values if target.level == Level.DEVICE}
    return readings


def names_of(origins: Iterable[MeasureOrigin]) -> tuple[str, ...]:
    """Return every metric that is read from these exporters, once."""
    return tuple(dict.fromkeys(name for origin in origins for name in metric_names(EXPORTERS[origin])))


def _label(sample: RawSample, names: tuple[str, ...], pattern: re.Pattern[str]) -> str:
    """Return the first of these labels that is not empty, or "". Raises: _Refused for an invalid one."""
    for name in names:
        text = sample.labels.get(name, "")
        if text:
            if not isinstance(text, str) or not pattern.fullmatch(text):
                raise _Refused(name)
            return text
    return ""


def _device(sample: RawSample, labels: ExporterLabels) -> str:
    device = _label(sample, labels.device, _DEVICE)
    if not device:
        raise _Refused("device")
    return device


def _finite(sample: RawSample) -> float:
    """Return the value as a number. Raises: _Refused for any other value, and for one out of range."""
    value = sample.value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _Refused("value")
    try:
        number = float(value)
    except OverflowError as error:
        raise _Refused("value") from error
    if not math.isfinite(number) or number < 0:
        raise _Refused("value")
    return abs(number)  # of -0.0


def _note_host(readings: Readings, labels: ExporterLabels, sample: RawSample) -> None:
    """Record the node of a GPU; an invalid node name is ignored and does not affect the value."""
    named = (sample.labels.get(name, "") for name in labels.node)
    host = next((text for text in named if isinstance(text, str) and _NAME.fullmatch(text)), "")
    if host:
        readings.hosts[_device(sample, labels)] = host


def _add_xid(readings: Readings, labels: ExporterLabels, sample: RawSample) -> None:
    device, code = _device(sample, labels), _finite(sample)
    if not code.is_integer() or code > _XID_MAX:
        raise _Refused("xid")
    # Repeated by replicas: one with an error has newer information.
    readings.xids[device] = max(int(code), readings.xids.get(device, 0))


def _add_instance(readings: Readings, labels: ExporterLabels, sample: RawSample) -> None:
    device = _device(sample, labels)
    instance = _label(sample, ("gpu_instance_id", "instanceid"), _NUMBER)
    uuid = _label(sample, ("mig_uuid", "miguuid"), _DEVICE)
    if instance and uuid:
        readings.instances[device, instance] = uuid


def _target(sample: RawSample, level: Level, labels: ExporterLabels, *, with_pod: bool) -> MeasuredTarget:
    target = MeasuredTarget(level, _device(sample, labels), _label(sample, labels.instance, _NUMBER))
    if not with_pod:
        return target
    pod = _label(sample, labels.pod, _NAME)
    if not pod:
        return target
    number = _label(sample, labels.container_index, _NUMBER)
    return replace(
        target,
        namespace=_label(sample, labels.namespace, _NAME),
        pod=pod,
        pod_uid=_label(sample, labels.pod_uid, _UID),
        container=f"#{number}" if number else _label(sample, labels.container, _NAME),
    )


@dataclass(slots=True)
class _Samples:
    """The samples of one answer by target, each once."""

    exporter: Exporter
    found: Found

    def __init__(self, exporter: Exporter) -> None:
        self.exporter = exporter
        self.found = defaultdict(dict)

    def add_sample(self, metric: Metric, sample: RawSample) -> None:
        """Store a sample for its target; of several the newest, then the greatest. Raises: _Refused."""
        number = _finite(sample)
        if number in self.exporter.blanks:
            return
        held = metric.level == Level.DEVICE and self.exporter.pods_of_devices
        target = _target(
            sample, metric.level, self.exporter.labels, with_pod=held or metric.level == Level.SLICE
        )
        if metric.level == Level.SLICE and not target.pod:
            raise _Refused("pod")
        by_name = self.found[target]
        before = by_name.get(metric.name)
        if before is None or (before.at_ms or 0, before.value) < (sample.at_ms or 0, number):
            by_name[metric.name] = replace(sample, value=number)

    def settle_samples(self) -> Found:
        """Return the samples by target; those of a GPU that name its pod become the GPU's or the pod's."""
        return _split_pods(self.exporter, self.found) if self.exporter.pods_of_devices else self.found


def _split_pods(exporter: Exporter, found: Found) -> Found:
    """Return the values of GPUs with a pod label: the GPU's own, and the pod's if it has the GPU to itself.

    With time-slicing the exporter repeats each value for every pod of the GPU. If it knows processes, it
    reports use and memory of each pod instead: then the values differ, on some GPU at least, and the values
    of these metrics for the GPU as a whole are unknown.
    """
    per_process = {metric.name for metric in exporter.metrics if metric.per_process}
    by_pod: dict[MeasuredTarget, dict[str, dict[MeasuredTarget, RawSample]]] = defaultdict(
        lambda: defaultdict(dict)
    )
    for target, by_name in found.items():
        whole = MeasuredTarget(Level.DEVICE, target.device, target.instance)
        for name, sample in by_name.items():
            by_pod[whole][name][target] = sample
    differ = any(
        name in per_process and len({sample.value for target, sample in held.items() if target.pod}) > 1
        for by_name_ in by_pod.values()
        for name, held in by_name_.items()
    )
    settled: Found = defaultdict(dict)
    for whole, by_metric in by_pod.items():
        for name, held in by_metric.items():
            pods = {target: sample for target, sample in held.items() if target.pod}
            alone = next((sample for target, sample in held.items() if not target.pod), None)
            shared = len({(target.namespace, target.pod) for target in pods}) > 1
            split = shared and differ and name in per_process
            if alone is None and not split:
                alone = max(pods.values(), key=lambda sample: (sample.at_ms or 0, sample.value))
            if alone is not None:
                settled[whole][name] = alone
            if name in per_process and (split or not shared or _all_zero(pods)):
                for target, sample in pods.items():
                    # Repeated for each container of the pod.
                    own = settled[replace(target, level=Level.SLICE, container="")]
                    if name not in own or own[name].value < sample.value:
                        own[name] = sample
    return settled


def _all_zero(pods: Mapping[MeasuredTarget, RawSample]) -> bool:
    """Return whether no pod used anything, which looks the same in both ways of reporting."""
    return all(sample.value == 0 for sample in pods.values())


def _add_values(
    readings: Readings, exporter: Exporter, target: MeasuredTarget, by_name: Mapping[str, RawSample]
) -> None:
    values: dict[str, float] = {}
    parts: dict[str, list[Metric]] = defaultdict(list)
    for metric in exporter.metrics:
        if metric.summed:
            parts[metric.measure].append(metric)
        elif metric.name in by_name and metric.measure not in values:
            _add_value(readings, values, metric, [by_name[metric.name].value])
    for metrics in parts.values():
        # A sum without one of its parts would be too small.
        if all(metric.name in by_name for metric in metrics):
            _add_value(readings, values, metrics[0], [by_name[metric.name].value for metric in metrics])
    if target.instance and "graphics_active_percent" in values:
        # Exporters report no other utilization of an instance.
        values.setdefault("utilization_percent", values["graphics_active_percent"])
    if values:
        readings.values[target] = values
        times = [sample.at_ms for sample in by_name.values() if sample.at_ms is not None]
        if times:
            readings.times[target] = max(times)


def _add_value(readings: Readings, values: dict[str, float], metric: Metric, raw: list[float]) -> None:
    measure = measure_of(metric)
    value = sum(raw) * metric.multiply / metric.divide
    most = most_of(measure)
    if metric.zero_is_absent and value == 0:
        return
    if metric.adds_up and most < value <= most * most:
        value = most
    if value > most or (is_whole(measure) and not value.is_integer()):
        readings.refused += 1
        return
    values[metric.measure] = value
    readings.used += len(raw)
