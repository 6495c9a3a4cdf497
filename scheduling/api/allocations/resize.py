"""`/api/v1/workspaces/{ws}/jobs/{job}/resize`: change the GPU memory of a running slice."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core.errors import FieldError, Invalid
from foundation.core.quantities import QuantityError
from foundation.sql.versions import if_match
from scheduling.api.jobs.serializers import ResizeRequestSerializer, ResizeSerializer
from scheduling.job_file.values.memory import read_memory
from scheduling.selectors.allocations.resize import resize_list
from scheduling.selectors.jobs.job import job_get
from scheduling.selectors.jobs.task import task_get
from scheduling.services.resizing.resize import slice_memory_resize
from tenants.access.permissions import Permission
from tenants.api.requests.base import WorkspaceView
from tenants.api.requests.key_scopes import scope_require
from tenants.api.requests.query import NoQuery, read_query
from tenants.api.responses.schema import IF_MATCH_OPTIONAL, problem_responses


class JobResizeView(WorkspaceView):
    """Changes of memory of a job's running tasks."""

    points: ClassVar = {"GET": Permission.JOB_VIEW, "POST": Permission.JOB_STOP_OWN}
    also: ClassVar = (Permission.JOB_STOP_ANY,)

    @extend_schema(
        operation_id="job_resize_list",
        summary="Resizes of GPU memory of a job",
        responses={200: ResizeSerializer(many=True), **problem_responses(400, 404)},
        tags=["jobs"],
    )
    def get(self, request: Request, ws: str, job: str) -> Response:
        """Return the latest hundred, newest first."""
        read_query(request, NoQuery)
        found = job_get(viewer=self.viewer, workspace=self.workspace, ref=job)
        return Response(ResizeSerializer(resize_list(viewer=self.viewer, job=found), many=True).data)

    @extend_schema(
        operation_id="job_resize",
        summary="Resize GPU memory of a running slice",
        description=(
            "Experimental; must be enabled for the cluster. Changing compute requires a "
            "restart. Increases are charged immediately, decreases after confirmation."
        ),
        parameters=[IF_MATCH_OPTIONAL],
        request=ResizeRequestSerializer,
        responses={202: ResizeSerializer, **problem_responses(404, 409, 422)},
        tags=["jobs"],
    )
    def post(self, request: Request, ws: str, job: str) -> Response:
        """Request the resize; its outcome is reported here and in the job's events."""
        read_query(request, NoQuery)
        expected = if_match(request, required=False)
        wanted = ResizeRequestSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        values, user = wanted.validated_data, self.viewer
        found = job_get(viewer=user, workspace=self.workspace, ref=job)
        if found.submitted_by_id != user.pk:
            scope_require(request, Permission.JOB_STOP_ANY)
        made = slice_memory_resize(
            acting_user=user,
            task=task_get(viewer=user, job=found, role=values["role"], index=values["index"]),
            memory_mib=_mib(values["memory"]),
            expected=expected,
        )
        return Response(ResizeSerializer(made).data, status=202)


def _mib(text: str) -> int:
    try:
        return int(read_memory(text))
    except QuantityError as error:
        raise Invalid(errors=[FieldError("memory", "INVALID", str(error))]) from error
