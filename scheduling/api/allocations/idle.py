"""`POST …/jobs/{job}/extend`: extend the time before the idle policy's action on a job."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.sql.versions import if_match, version_header
from scheduling.api.jobs.serializers import ExtensionRequestSerializer, IdleSerializer
from scheduling.selectors.jobs.job import job_get
from scheduling.services.jobs.idle_extension import extend_idle_job
from tenants.access.permissions import Permission
from tenants.api.requests.base import WorkspaceView
from tenants.api.requests.key_scopes import scope_require
from tenants.api.requests.query import NoQuery, read_query
from tenants.api.responses.schema import IF_MATCH_OPTIONAL, problem_responses


class JobExtendView(WorkspaceView):
    """The idle rule of one job."""

    points: ClassVar = {"POST": Permission.JOB_STOP_OWN}
    also: ClassVar = (Permission.JOB_STOP_ANY,)

    @extend_schema(
        operation_id="job_extend",
        summary="Put off what the idle policy announced for a job",
        description=(
            "By at most the idle timeout again; by all of it without `seconds`. Repeating the request for "
            "the same warning changes nothing. 409 `NOT_WARNED` when nothing is announced."
        ),
        parameters=[IF_MATCH_OPTIONAL],
        request=ExtensionRequestSerializer,
        responses={200: IdleSerializer, **problem_responses(404, 409, 422)},
        tags=["jobs"],
    )
    def post(self, request: Request, ws: str, job: str) -> Response:
        """Extend, and return the idle rule with its new time."""
        read_query(request, NoQuery)
        expected = if_match(request, required=False)
        wanted = ExtensionRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        found = job_get(viewer=self.viewer, workspace=self.workspace, ref=job)
        if found.submitted_by_id != self.viewer.pk:
            scope_require(request, Permission.JOB_STOP_ANY)
        stretch = extend_idle_job(
            acting_user=self.viewer, job=found, seconds=wanted.validated_data["seconds"], expected=expected
        )
        return Response(IdleSerializer(stretch).data, headers=version_header(found))
