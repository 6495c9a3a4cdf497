"""The single entry point for series requests: of the REST API, of charts and of exports."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from django.utils.translation import gettext as _

from clusters.models import Cluster, Device, Node
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from scheduling.models import Job
from telemetry.series.levels.cluster import TOTAL_LINES, cluster_series
from telemetry.series.levels.distribution import SHARE_LINES, share_series
from telemetry.series.levels.gpu import gpu_series
from telemetry.series.levels.job import LINE_NAMES, job_series
from telemetry.series.levels.node import CARD_LINES, node_series
from telemetry.series.levels.workspace import workspace_series
from telemetry.series.measures.measures import measure_series
from telemetry.series.readings.sight import MeasuredThing
from telemetry.series.windows.types import SeriesSet
from telemetry.series.windows.window import POINTS
from tenants.access import permissions
from tenants.access.permissions import Permission

_TOTALS: Final = tuple(measure for measure, _label, _unit in TOTAL_LINES)
_SHARES: Final = tuple(measure for measure, _label in SHARE_LINES)
_CARDS: Final = tuple(line[0] for line in CARD_LINES)
LINES: Final = {
    "cluster": (*_TOTALS, *_SHARES),
    "node": (*_TOTALS, *_CARDS),
    "gpu": _CARDS,
    "workspace": _TOTALS,
    "job": LINE_NAMES,
}
"""The lines of a level in addition to the measures of the catalogue; shares only if requested by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesQuery:
    """A request for series of one subject; a cluster without an id is all of them.

    With `measures` a line per measure of the catalogue and group; otherwise the named `lines` of the level,
    or all. `step` in seconds; None picks one that gives about `points`. `gpu`: one GPU of a job.
    """

    level: str
    pk: uuid.UUID | None = None
    start: datetime
    end: datetime
    step: int | None = None
    points: int = POINTS
    measures: tuple[str, ...] = ()
    statistic: str | None = None
    group_by: str | None = None
    lines: tuple[str, ...] = ()
    gpu: uuid.UUID | None = None


def read_series(viewer: Actor, query: SeriesQuery) -> SeriesSet:
    """Return the series of a query as far as the viewer may see them.

    Raises: PermissionDenied without `cluster.view` for clusters, nodes and GPUs; NotFound for a missing
    subject, and for jobs and workspaces that the viewer may not see; Invalid for a bad range or statistic.
    """
    if query.measures:
        return measure_series(
            viewer, MeasuredThing(query.level, query.pk), query.measures, query.start, query.end, query.step,
            statistic=query.statistic, group_by=query.group_by, gpu=query.gpu, points=query.points,
        )  # fmt: skip
    found = _read_level(viewer, query)
    if not query.lines:
        return found
    return replace(found, series=tuple(line for line in found.series if line.measure in query.lines))


def _read_level(viewer: Actor, query: SeriesQuery) -> SeriesSet:
    start, end, step, points = query.start, query.end, query.step, query.points
    pk = query.pk or uuid.UUID(int=0)
    if query.level == "workspace":
        return workspace_series(viewer, pk, start, end, step, points=points)
    if query.level == "job":
        return job_series(viewer, _job(pk), start, end, step, gpu=query.gpu, points=points)
    # Checked before any look-up, so that a caller without the permission can't find out whether a node
    # exists.
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    if query.level == "node":
        return node_series(viewer, _node(pk), start, end, step, points=points)
    if query.level == "gpu":
        return gpu_series(viewer, _device(pk), start, end, step, points=points)
    cluster = _cluster(pk) if query.pk is not None else None
    if query.lines and set(query.lines) <= set(_SHARES):
        return share_series(viewer, cluster, start, end, step, points=points)
    found = cluster_series(viewer, cluster, start, end, step, points=points)
    if set(query.lines).isdisjoint(_SHARES):
        return found
    shares = share_series(viewer, cluster, start, end, found.step_s, points=points)
    return replace(found, series=found.series + shares.series)


def _job(pk: uuid.UUID) -> Job:
    job = Job.unscoped.select_related("workspace").filter(pk=pk).first()
    if job is None:
        raise NotFound(_("Job not found."))
    return job


def _node(pk: uuid.UUID) -> Node:
    node = Node.unscoped.filter(pk=pk).first()
    if node is None:
        raise NotFound(_("Node not found."))
    return node


def _device(pk: uuid.UUID) -> Device:
    device = Device.unscoped.select_related("node").filter(pk=pk).first()
    if device is None:
        raise NotFound(_("GPU not found."))
    return device


def _cluster(pk: uuid.UUID) -> Cluster:
    cluster = Cluster.unscoped.filter(pk=pk).first()
    if cluster is None:
        raise NotFound(_("Cluster not found."))
    return cluster
