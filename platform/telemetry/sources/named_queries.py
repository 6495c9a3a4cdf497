"""The queries by which history is read from a Prometheus server; charts send no other query.

Each takes sets of GPUs and pods that the caller has looked up for the viewer, so that the filter of a tenant
is part of the query and not of the display of its answer. One query covers every exporter that has the
measure, best first: PromQL's `or` takes the left side if it has a value, per series and per point. A point at
`t` covers the bucket that ends there: its samples are averaged, and a bucket without a sample has no point.
Without that range Prometheus would repeat the last sample for five minutes into a gap.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final

from clusters.gpu.measures import Level
from telemetry.sources.declarations import EXPORTERS, Exporter, MeasureOrigin, Metric
from telemetry.sources.prometheus import match_any, match_equal

LOOK_BACK_MIN_MS: Final = 60_000
"""Exporters are usually scraped each 30 s; a shorter range would show false gaps."""
_MONITORS: Final = (MeasureOrigin.HAMI_MONITOR,)

PodLabels = tuple[str, str, str]
"""The names of the labels of namespace, pod and container in one way of scraping."""
_POD_LABELS: Final[tuple[PodLabels, ...]] = (
    ("exported_namespace", "exported_pod", "exported_container"),
    ("namespace", "pod", "container"),
)
_LEGACY_POD_LABELS: Final[PodLabels] = ("podnamespace", "podname", "ctrname")


def device_query(
    measure: str, devices: Collection[str], matchers: Mapping[str, str], *, step_ms: int
) -> str | None:
    """Return the query of a measure of GPUs, with the label `device`; None if no exporter has it."""
    parts = []
    for exporter, metric in _declared(measure, Level.DEVICE, EXPORTERS):
        for label in exporter.labels.device:
            own = [match_any(label, devices)]
            # The instances of a GPU in MIG mode have their own series.
            own += [match_equal(name, "") for name in exporter.labels.instance]
            value = _over_time(metric, own, matchers, step_ms)
            parts.append(_scaled(metric, f"avg by (device) ({_renamed(value, device=label)})"))
    return _either(parts)


def slice_query(
    measure: str,
    devices: Collection[str],
    pods: Collection[tuple[str, str]],
    matchers: Mapping[str, str],
    *,
    step_ms: int,
) -> str | None:
    """Return the query of a measure of pods by namespace and name, with labels `device`, `ns` and `name`.

    The containers of a pod add up; replicas of an exporter do not.
    """
    parts = []
    for exporter, metric in _declared(measure, Level.SLICE, _MONITORS):
        legacy = not metric.name.startswith("hami_")
        for namespace, pod, container in (_LEGACY_POD_LABELS,) if legacy else _POD_LABELS:
            device = exporter.labels.device[-1 if legacy else 0]
            own = [
                match_any(device, devices),
                match_any(namespace, {place for place, _ in pods}),
                match_any(pod, {name for _, name in pods}),
            ]
            value = _over_time(metric, own, matchers, step_ms)
            once = f"avg by ({device}, {namespace}, {pod}, {container}) ({value})"
            named = _renamed(once, device=device, ns=namespace, name=pod)
            parts.append(_scaled(metric, f"sum by (device, ns, name) ({named})"))
    return _either(parts)


def _declared(
    measure: str, level: Level, origins: Iterable[MeasureOrigin]
) -> Iterator[tuple[Exporter, Metric]]:
    for origin in origins:
        for metric in EXPORTERS[origin].metrics:
            if metric.measure == measure and metric.level == level and not metric.summed:
                yield EXPORTERS[origin], metric


def _over_time(metric: Metric, own: list[str], matchers: Mapping[str, str], step_ms: int) -> str:
    chosen = own + [match_equal(label, value) for label, value in sorted(matchers.items())]
    return f"avg_over_time({metric.name}{{{', '.join(chosen)}}}[{max(step_ms, LOOK_BACK_MIN_MS)}ms])"


def _renamed(query: str, **labels: str) -> str:
    for new, old in labels.items():
        query = f'label_replace({query}, "{new}", "$1", "{old}", "(.+)")'
    return query


def _scaled(metric: Metric, query: str) -> str:
    if metric.multiply != 1:
        query = f"{query} * {metric.multiply}"
    return f"{query} / {metric.divide}" if metric.divide != 1 else query


def _either(parts: list[str]) -> str | None:
    return " or ".join(f"({part})" for part in parts) if parts else None
