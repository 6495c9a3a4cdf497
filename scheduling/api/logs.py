"""`GET …/jobs/{job}/logs`: what its tasks printed."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.views import JobView
from scheduling.selectors.logs import LogQuery, job_logs
from tenants.api.pages import answer, list_of
from tenants.api.query import QuerySerializer, read_query
from tenants.api.schema import problems

_LINES_MAX = 5000


class LogLineSerializer(serializers.Serializer[Any]):
    task = serializers.CharField(help_text="`<role>-<index>`.")
    at = serializers.DateTimeField(allow_null=True)
    text = serializers.CharField()


class LogsQuery(QuerySerializer):
    task = serializers.CharField(default="", max_length=80, allow_blank=True, help_text="`<role>-<index>`.")
    attempt = serializers.IntegerField(
        required=False, min_value=1, max_value=2**31 - 1, help_text="Default: the latest."
    )
    since = serializers.DateTimeField(required=False, help_text="Only lines after this time.")
    limit = serializers.IntegerField(default=500, min_value=1, max_value=_LINES_MAX)


class JobLogsView(JobView):
    """What a job printed; the cluster is asked, whatever time it takes."""

    reads_together = False

    @extend_schema(
        operation_id="job_logs",
        summary="The last lines that the tasks of a job printed",
        description="To follow, ask again with the `at` of the last line as `since`.",
        parameters=[LogsQuery],
        responses={200: list_of(LogLineSerializer, cursor=True), **problems(400, 404, 409)},
        tags=["jobs"],
    )
    def get(self, request: Request, ws: str, job: str) -> Response:
        """Answer the lines in the order of their times; a pod that was removed has none any more."""
        query = read_query(request, LogsQuery)
        lines = job_logs(viewer=self.viewer, job=self.job, query=LogQuery(**query))
        return Response(answer(LogLineSerializer(lines, many=True).data, None, None))
