"""`GET /metrics/series`: the series of a cluster, a node or a job."""

from __future__ import annotations

import uuid
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.models import Cluster, Node
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from scheduling.models import Job
from telemetry.api.serializers import SeriesQuerySerializer, SeriesSetSerializer
from telemetry.series import (
    MeasuredThing,
    SeriesSet,
    cluster_series,
    job_series,
    measure_series,
    node_series,
    workspace_series,
)
from telemetry.series.window import POINTS
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.api.base import PlatformView
from tenants.api.query import read_query
from tenants.api.schema import problem_responses

_DEFAULT_RANGE: Final = timedelta(hours=1)


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


def _cluster(pk: uuid.UUID) -> Cluster:
    cluster = Cluster.unscoped.filter(pk=pk).first()
    if cluster is None:
        raise NotFound(_("Cluster not found."))
    return cluster


def _read(viewer: Actor, query: dict[str, Any], start: datetime, end: datetime) -> SeriesSet:
    step: int | None = query.get("step")
    points: int = query.get("numberOfSamples", POINTS)
    if "measure" in query:
        return measure_series(
            viewer, MeasuredThing(query["level"], query.get("id")), query["measure"], start, end, step,
            statistic=query.get("statistic"), group_by=query.get("groupBy"), points=points,
        )  # fmt: skip
    if query["level"] == "workspace":
        return workspace_series(viewer, query["id"], start, end, step, points=points)
    if query["level"] == "job":
        return job_series(viewer, _job(query["id"]), start, end, step, points=points)
    # Before anything is looked up: whether a node exists is not for everyone to know.
    permissions.require_permission(viewer, Permission.CLUSTER_VIEW)
    if query["level"] == "node":
        return node_series(viewer, _node(query["id"]), start, end, step, points=points)
    cluster = _cluster(query["id"]) if "id" in query else None
    return cluster_series(viewer, cluster, start, end, step, points=points)


def _body(found: SeriesSet) -> dict[str, Any]:
    # The times are the same in each line and are sent once.
    times = [at for at, _ in found.series[0].points] if found.series else []
    return {
        "start": found.start,
        "end": found.end,
        "step": found.step_s,
        "times": times,
        "series": [
            {
                "key": line.key,
                "measure": line.measure,
                "subject": line.subject,
                "label": line.label,
                "unit": line.unit,
                "values": [value for _, value in line.points],
            }
            for line in found.series
        ],
        "gaps": found.gaps,
        "omitted": found.omitted,
    }


class SeriesView(PlatformView):
    """Read-only; what may be seen is decided by the selectors. A store may be another server."""

    reads_together = False

    @extend_schema(
        operation_id="metrics_series",
        summary="Metrics of a cluster, node, GPU, workspace or job",
        description=(
            "Allocation and utilization are separate lines. null is a gap; `gaps` gives the cause. "
            "Maximum: 400 days and 1000 points. Clusters, nodes and GPUs require `cluster.view`. "
            "Returns 404 for jobs and workspaces that you can't view."
        ),
        parameters=[SeriesQuerySerializer],
        responses={
            200: SeriesSetSerializer,
            **problem_responses(404),
        },
        tags=["metrics"],
    )
    def get(self, request: Request) -> Response:
        """Return the series that the query asks for."""
        query = read_query(request, SeriesQuerySerializer)
        end = query.get("end", clock.now())
        start = query.get("start", end - _DEFAULT_RANGE)
        found = _read(self.viewer, query, start, end)
        return Response(SeriesSetSerializer(_body(found)).data)
