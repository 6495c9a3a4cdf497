"""`GET …/jobs/{job}/pod-events`: the cluster's events about a job's pods."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.jobs.views import JobView
from scheduling.selectors.pods.pod_events import job_pod_events
from tenants.api.requests.query import QuerySerializer, read_query
from tenants.api.responses.pages import list_of, page_body
from tenants.api.responses.schema import problem_responses


class PodEventSerializer(serializers.Serializer[Any]):
    task = serializers.CharField(help_text="`<role>-<index>`.")
    pod = serializers.CharField()
    at = serializers.DateTimeField(help_text="Last occurrence.")
    reason = serializers.CharField(help_text="Kubernetes reason, for example `FailedMount`.")
    message = serializers.CharField()
    warning = serializers.BooleanField()
    count = serializers.IntegerField(help_text="Number of occurrences.")


class PodEventsQuery(QuerySerializer):
    task = serializers.CharField(default="", max_length=80, allow_blank=True, help_text="`<role>-<index>`.")
    attempt = serializers.IntegerField(
        required=False, min_value=1, max_value=2**31 - 1, help_text="Default: latest."
    )


class JobPodEventsView(JobView):
    """The events of a job's pods. No transaction stays open while the cluster is read."""

    reads_together = False

    @extend_schema(
        operation_id="job_pod_events",
        summary="Kubernetes events of a job's pods, newest first",
        description=("Events as recorded by the cluster. Kubernetes keeps events for one hour by default."),
        parameters=[PodEventsQuery],
        responses={200: list_of(PodEventSerializer, cursor=True), **problem_responses(400, 404, 409)},
        tags=["jobs"],
    )
    def get(self, request: Request, ws: str, job: str) -> Response:
        """Return the events of the job's pods from the clusters where they are or were."""
        query = read_query(request, PodEventsQuery)
        events = job_pod_events(viewer=self.viewer, job=self.job, **query)
        return Response(page_body(PodEventSerializer(events, many=True).data, None, None))
