"""The values of PromQL queries, read from the Prometheus servers that are configured as data sources."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from urllib.parse import urlsplit

import structlog
from django.core.cache import cache

from alerts.metrics.base import MetricReading, MetricUnread, Observation
from alerts.models import RuleError
from clusters.models import Cluster
from telemetry.models import SourceKind, TelemetrySource
from telemetry.sources.collect import make_plan
from telemetry.sources.fetch import SourceFailed, SourceProblem, query_prometheus
from telemetry.sources.prometheus import RangeSeries, read_range

log = structlog.get_logger(__name__)
QUERY_MAX: Final = 1_000
_SERIES_MAX: Final = 1_000
_LABEL_MAX: Final = 300
_NAMES_MAX: Final = 2
"""The most clusters that the label of a series names; its own labels distinguish it from other series."""
_TIMEOUT_S: Final = 5.0
_BOUNDS: Final = {"timeout": "4s", "limit": str(_SERIES_MAX)}
"""The server itself ends a query that takes too long, so only a server that does not answer is paused."""
_REST_S: Final = 30
Past = Sequence[tuple[datetime, float | None]]


def list_servers(cluster_id: uuid.UUID | None) -> list[TelemetrySource]:
    """Return the Prometheus servers of a cluster, or of all: the first by name of each cluster."""
    return [source for source in _list_sources(cluster_id) if source.enabled]


def _list_sources(cluster_id: uuid.UUID | None) -> list[TelemetrySource]:
    """Return the first server of each cluster, a disabled one where none is enabled."""
    rows = TelemetrySource.unscoped.filter(kind=SourceKind.PROMETHEUS)
    if cluster_id is not None:
        rows = rows.filter(cluster_id=cluster_id)
    found: dict[uuid.UUID, TelemetrySource] = {}
    for source in rows.select_related("cluster").order_by("-enabled", "name"):
        found.setdefault(source.cluster_id, source)
    return list(found.values())


def read_query(query: str, cluster_id: uuid.UUID | None, now: datetime) -> MetricReading:
    """Read the value of each series of a query now.

    Series of a cluster without an enabled server count as unread, so their alerts are not resolved.
    Raises: SourceFailed if no server can be read; MetricUnread if none is enabled.
    """
    answer = _ask("query", {"query": query, "time": f"{now.timestamp():.3f}"}, cluster_id)
    observations = [
        _observe(server, of, series.labels, next(iter(series.points.values()), None))
        for server, of, series in answer.series
    ]
    beginnings = [key for server in answer.failed for key in server.list_subject_keys()]
    served = {source.cluster_id for source in list_servers(cluster_id)}
    beginnings += [f"{pk}/" for pk in Cluster.unscoped.exclude(pk__in=served).values_list("pk", flat=True)]
    error = RuleError.PARTLY_UNREADABLE if answer.has_failures else RuleError.PARTLY_WITHOUT_SOURCE
    return MetricReading(observations, answer.unread_clusters, tuple(beginnings), error)


def read_query_past(
    query: str, cluster_id: uuid.UUID | None, start: datetime, end: datetime, *, points: int
) -> tuple[list[Past], Sequence[str]]:
    """Read the values of each series over a time, and the names of clusters whose server cannot be read.

    Raises: SourceFailed if no server can be read.
    """
    step_s = max(1, round((end - start).total_seconds() / points))
    times = [start + timedelta(seconds=step_s * place) for place in range(1, points + 1)]
    parameters = {
        "query": query,
        "start": f"{times[0].timestamp():.3f}",
        "end": f"{times[-1].timestamp():.3f}",
        "step": str(step_s),
    }
    answer = _ask("query_range", parameters, cluster_id)
    past: list[Past] = [
        [(at, series.points.get(round(at.timestamp() * 1000))) for at in times]
        for _server, _of, series in answer.series
    ]
    return past, answer.unread_clusters


@dataclass(frozen=True, slots=True)
class _Server:
    """A Prometheus server, as one credential sees it, and the data sources by which clusters share it.

    It includes disabled data sources, so that the keys of subjects stay as they are.
    """

    sources: list[TelemetrySource]

    @property
    def enabled_source(self) -> TelemetrySource | None:
        """The first enabled data source of the server; None if all are disabled."""
        return next((source for source in self.sources if source.enabled), None)

    @property
    def subject_key(self) -> str:
        """The id of the oldest source: it stays when sources are added, and reveals no credential."""
        return str(min(source.pk for source in self.sources))

    def choose_sources(self, labels: Mapping[str, str]) -> list[TelemetrySource]:
        """Return the sources of the clusters to which a series may belong, by the labels of their matchers.

        A series without these labels, such as a sum, may belong to each of them.
        """
        possible = [
            one
            for one in self.sources
            if all(labels.get(label, value) == value for label, value in one.matchers.items())
        ]
        named = [one for one in possible if one.matchers and one.matchers.items() <= labels.items()]
        return named or possible

    def list_subject_keys(self) -> list[str]:
        """Return the prefixes of the keys of all subjects that this server may have."""
        return [f"{self.subject_key}/", *(f"{source.cluster_id}/" for source in self.sources)]


@dataclass(frozen=True, slots=True)
class _Answer:
    """The series of all servers that answered, each with its possible sources; the servers that failed or
    have no enabled source; and the disabled sources of all servers.
    """

    series: list[tuple[_Server, list[TelemetrySource], RangeSeries]]
    failed: list[_Server]
    disabled: list[TelemetrySource]

    @property
    def has_failures(self) -> bool:
        return any(server.enabled_source for server in self.failed)

    @property
    def unread_clusters(self) -> list[str]:
        unread = [*self.disabled, *(source for server in self.failed for source in server.sources)]
        return sorted({source.cluster.name for source in unread})


def _ask(path: str, parameters: Mapping[str, str], cluster_id: uuid.UUID | None) -> _Answer:
    """Ask each enabled server once.

    Raises: SourceFailed if none of several, or the only one, can be read; MetricUnread if none is enabled.
    """
    sources = _list_sources(cluster_id)
    servers = _group_by_server(sources)
    if not any(server.enabled_source for server in servers):
        raise MetricUnread(RuleError.SOURCE_DISABLED if servers else RuleError.NO_SOURCE)
    answer = _Answer([], [], [source for source in sources if not source.enabled])
    failure: SourceFailed | None = None
    for server in servers:
        if (source := server.enabled_source) is None:
            answer.failed.append(server)
            continue
        try:
            found = read_range(_fetch(source, path, parameters))[:_SERIES_MAX]
        except SourceFailed as failed:
            answer.failed.append(server)
            failure = failed
            log.warning("promql server not read", source=str(source.pk), why=str(failed.problem))
            continue
        for series in found:
            # A series of another cluster at a shared server, known by its labels, is left out, and so is a
            # series of a cluster whose source is disabled.
            of = server.choose_sources(series.labels)
            if any(each.enabled for each in of):
                answer.series.append((server, of, series))
    if failure is not None and len(answer.failed) == len(servers):
        raise failure
    return answer


def _group_by_server(sources: Sequence[TelemetrySource]) -> list[_Server]:
    """Return each server once: sources with the same address and credential have the same series."""
    found: dict[object, _Server] = {}
    for source in sources:
        address = urlsplit(source.address)
        place = (address.scheme, address.netloc.lower(), address.path.rstrip("/"))
        try:
            access = make_plan(source).access
        except SourceFailed:  # raised and reported when the server is asked
            found[source.pk] = _Server([source])
            continue
        credential = (access.token, access.user, access.password)
        found.setdefault((place, credential), _Server([])).sources.append(source)
    return list(found.values())


def _fetch(source: TelemetrySource, path: str, parameters: Mapping[str, str]) -> Any:
    """Ask one server; a server that failed lately is not asked, so that it delays no other rule."""
    resting = f"promql-resting-{source.pk}"
    problem = cache.get(resting)
    if problem is not None:
        raise SourceFailed(SourceProblem(problem))
    plan = make_plan(source)
    try:
        return query_prometheus(
            plan.address, path, {**parameters, **_BOUNDS}, plan.access, timeout_s=_TIMEOUT_S
        )
    except SourceFailed as failed:
        if failed.problem != SourceProblem.QUERY_FAILED:
            cache.set(resting, str(failed.problem), _REST_S)
        raise


def _observe(
    server: _Server, sources: Sequence[TelemetrySource], labels: Mapping[str, str], value: float | None
) -> Observation:
    """Return the observation of one series; its labels are its subject."""
    text = ", ".join(f"{name}={labels[name]}" for name in sorted(labels))
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    cluster_id = sources[0].cluster_id if len(sources) == 1 else None
    names = sorted(source.cluster.name for source in sources)
    # The label is stored and read in any language.
    more = f" +{len(names) - _NAMES_MAX}" if len(names) > _NAMES_MAX else ""
    return Observation(
        subject=f"{cluster_id or server.subject_key}/{digest}",
        label=f"{', '.join(names[:_NAMES_MAX])}{more} {{{text}}}"[:_LABEL_MAX],
        value=value,
        cluster_id=cluster_id,
        path="/ops/sources",
    )
