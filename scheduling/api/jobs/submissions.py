"""`POST …/job-submissions`: submit many jobs in one request."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core.bounded_parsing import ParseBounds
from foundation.web import problems as problem_bodies
from foundation.web.parsers import BoundedJsonParser
from scheduling.api.jobs.job_file import JobFileSerializer
from scheduling.services.jobs.job_batch import BatchEntry, jobs_submit
from tenants.access.permissions import Permission
from tenants.api.requests.base import WorkspaceView
from tenants.api.requests.bodies import StrictSerializer
from tenants.api.requests.query import NoQuery, read_query
from tenants.api.requests.writes import dry_run_of
from tenants.api.responses.schema import ProblemSerializer, problem_responses

MOST: Final = 500


class SubmissionsParser(BoundedJsonParser):
    """The parser of `application/json` with limits for many job files."""

    bounds: ClassVar[ParseBounds] = ParseBounds(size=2 * 1024 * 1024, nodes=100_000)


class SubmissionsSerializer(StrictSerializer):
    # Each job file is parsed separately, so that an invalid one does not stop the others.
    jobs = serializers.ListField(child=serializers.JSONField(), min_length=1, max_length=MOST)


class SubmissionsFileSerializer(serializers.Serializer[Any]):
    """Several job files to submit."""

    jobs = JobFileSerializer(many=True, help_text=f"1 to {MOST} job files.")


class SubmissionSerializer(serializers.Serializer[Any]):
    """Result of one job: `id` if accepted, otherwise `problem`; neither in a dry run."""

    name = serializers.CharField()
    succeeded = serializers.BooleanField()
    id = serializers.UUIDField(allow_null=True)
    problem = ProblemSerializer(allow_null=True)


class SubmissionsResultSerializer(serializers.Serializer[Any]):
    items = SubmissionSerializer(many=True)
    succeeded = serializers.IntegerField()
    failed = serializers.IntegerField()


class JobSubmissionsView(WorkspaceView):
    """Jobs submitted together, each accepted or refused independently."""

    points: ClassVar = {"POST": Permission.JOB_SUBMIT}
    parser_classes = [SubmissionsParser]
    handles_dry_run = True

    @extend_schema(
        operation_id="job_submissions",
        summary="Submit several jobs",
        description=(
            "For parameter sweeps. Each job is accepted or rejected individually, in the given "
            "order. The URL of an accepted job is the list URL followed by its ID."
        ),
        request=SubmissionsFileSerializer,
        responses={
            200: SubmissionsResultSerializer,
            202: SubmissionsResultSerializer,
            **problem_responses(404, 409),
        },
        tags=["jobs"],
    )
    def post(self, request: Request, ws: str) -> Response:
        """Return the result of each job; with `dry_run`, what the result would be."""
        read_query(request, NoQuery)
        wanted = SubmissionsSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        dry_run = dry_run_of(request)
        entries = jobs_submit(
            acting_user=self.viewer,
            workspace=self.workspace,
            bodies=wanted.validated_data["jobs"],
            dry_run=dry_run,
        )
        failed = sum(entry.error is not None for entry in entries)
        items = [_item(entry) for entry in entries]
        body = {"items": items, "succeeded": len(items) - failed, "failed": failed}
        return Response(body, 200 if dry_run else 202)


def _item(entry: BatchEntry) -> dict[str, Any]:
    return {
        "name": entry.name,
        "succeeded": entry.error is None,
        "id": str(entry.job.pk) if entry.job else None,
        "problem": problem_bodies.of_error(entry.error) if entry.error else None,
    }
