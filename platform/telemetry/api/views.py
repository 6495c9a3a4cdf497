"""`GET /metrics/series`: the series of a cluster, node, GPU, workspace or job, as JSON and as CSV."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any, Final

from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core import clock
from foundation.core.actor import Actor
from telemetry.api.serializers import SeriesQuerySerializer, SeriesSetSerializer
from telemetry.series import SeriesQuery, SeriesSet, read_series
from telemetry.series.csv_text import csv_pieces
from telemetry.series.windows.window import POINTS
from tenants.api.requests.base import PlatformView
from tenants.api.requests.query import read_query
from tenants.api.responses.schema import problem_responses
from tenants.api.responses.streams import AnyAccept, streaming_response

_DEFAULT_RANGE: Final = timedelta(hours=1)


def _read(viewer: Actor, query: dict[str, Any]) -> SeriesSet:
    end = query.get("end", clock.now())
    return read_series(
        viewer,
        SeriesQuery(
            level=query["level"],
            pk=query.get("id"),
            start=query.get("start", end - _DEFAULT_RANGE),
            end=end,
            step=query.get("step"),
            points=query.get("numberOfSamples", POINTS),
            measures=tuple(query.get("measure", ())),
            statistic=query.get("statistic"),
            group_by=query.get("groupBy"),
            lines=tuple(query.get("lines", ())),
            gpu=query.get("gpu"),
        ),
    )


def _body(found: SeriesSet) -> dict[str, Any]:
    # All lines have the same times, which are sent once.
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
                "estimated": line.estimated,
                "values": [value for _, value in line.points],
            }
            for line in found.series
        ],
        "gaps": found.gaps,
        "omitted": found.omitted,
    }


class SeriesView(PlatformView):
    """Read-only; the selectors check permissions. A store may be another server."""

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
        found = _read(self.viewer, read_query(request, SeriesQuerySerializer))
        return Response(SeriesSetSerializer(_body(found)).data)


class SeriesFileView(PlatformView):
    """The same series as a file."""

    reads_together = False
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="metrics_series_export",
        summary="Metrics of a cluster, node, GPU, workspace or job as CSV",
        description=(
            "Takes the parameters of `metrics/series` and returns its values: one row per time (UTC), one "
            "column per line with the unit in its head. An empty cell is a gap."
        ),
        parameters=[SeriesQuerySerializer],
        responses={(200, "text/csv"): OpenApiTypes.STR, **problem_responses(400, 404)},
        tags=["metrics"],
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """Return the file, written piece by piece."""
        query = read_query(request, SeriesQuerySerializer)
        found = _read(self.viewer, query)
        name = f"{query['level']}-{found.start:%Y%m%dT%H%M%SZ}-{found.end:%Y%m%dT%H%M%SZ}.csv"
        return streaming_response(
            _pieces(found), "text/csv; charset=utf-8", Content_Disposition=f'attachment; filename="{name}"'
        )


async def _pieces(found: SeriesSet) -> AsyncIterator[str]:
    for piece in csv_pieces(found):
        yield piece
