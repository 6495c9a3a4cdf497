"""`GET …/jobs/{job}/logs`: the output of a job's tasks."""

from __future__ import annotations

from typing import Any

from django.http import StreamingHttpResponse
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.jobs.views import JobView
from scheduling.api.pods import log_stream
from scheduling.selectors.pods.logs import LogQuery, job_logs
from tenants.api.requests.query import QuerySerializer, read_query
from tenants.api.responses.pages import list_of, page_body
from tenants.api.responses.schema import problem_responses
from tenants.api.responses.streams import AnyAccept

_LINES_MAX = 5000


class LogLineSerializer(serializers.Serializer[Any]):
    task = serializers.CharField(help_text="`<role>-<index>`.")
    at = serializers.DateTimeField(allow_null=True)
    text = serializers.CharField()


class LogsQuery(QuerySerializer):
    task = serializers.CharField(default="", max_length=80, allow_blank=True, help_text="`<role>-<index>`.")
    attempt = serializers.IntegerField(
        required=False, min_value=1, max_value=2**31 - 1, help_text="Default: latest."
    )
    since = serializers.DateTimeField(required=False, help_text="Only lines after this time.")
    previous = serializers.BooleanField(default=False, help_text="Logs of the attempt before the latest.")
    follow = serializers.BooleanField(default=False, help_text="Follow, as server-sent events.")
    limit = serializers.IntegerField(default=500, min_value=1, max_value=_LINES_MAX)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        if attrs["previous"] and "attempt" in attrs:
            message = _("Specify either attempt or previous.")
            raise serializers.ValidationError({"previous": message}, code="mixed")
        return attrs


class JobLogsView(JobView):
    """The output of a job. No transaction stays open while the cluster is read."""

    reads_together = False
    content_negotiation_class = AnyAccept

    @extend_schema(
        operation_id="job_logs",
        summary="Logs of a job",
        description=(
            "With `follow=true` the response is a stream of server-sent events: `line`, each with "
            "a line as JSON, starting with the last `limit` lines of each task. A comment every 15 "
            "s keeps the connection alive. The event `end` gives the cause: `ENDED` after the last "
            "pod of the attempt, `RECONNECT` after an hour, `ACCESS_LOST`, or a problem code with "
            "its `detail`. To reconnect, send the `at` of the last line as `since`. Logs of "
            "deleted pods aren't available."
        ),
        parameters=[LogsQuery],
        responses={
            (200, "application/json"): list_of(LogLineSerializer, cursor=True),
            (200, "text/event-stream"): OpenApiResponse(OpenApiTypes.STR, description="Stream of log lines."),
            **problem_responses(400, 404, 409),
        },
        tags=["jobs"],
    )
    def get(  # type: ignore[override]  # a stream is no Response
        self, request: Request, ws: str, job: str
    ) -> Response | StreamingHttpResponse:
        """Return the lines in the order of their times, or begin a stream of them."""
        query = read_query(request, LogsQuery)
        if query.pop("follow"):
            return log_stream.follow_log(request, self.viewer, self.job, LogQuery(**query))
        lines = job_logs(viewer=self.viewer, job=self.job, query=LogQuery(**query))
        return Response(page_body(LogLineSerializer(lines, many=True).data, None, None))
