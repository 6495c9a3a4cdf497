"""`POST …/jobs/{job}/{cancel,suspend,resume}`."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from scheduling.api.serializers import JobSerializer
from scheduling.models import Job
from scheduling.selectors.job import job_get
from scheduling.services.job import job_cancel, job_resume, job_suspend
from tenants.api.base import WorkspaceView
from tenants.api.dry_run import rehearse
from tenants.api.query import WriteQuery, read_query
from tenants.api.schema import problems
from tenants.key_scopes import scope_require
from tenants.permissions import Permission

_schema = extend_schema(
    parameters=[WriteQuery],
    request=None,
    responses={202: JobSerializer, **problems(400, 404, 409)},
    tags=["jobs"],
)


class _Action(WorkspaceView):
    """Look the job up, act, answer the job as it is then. A dry run acts and undoes it."""

    points: ClassVar = {"POST": Permission.JOB_STOP_OWN}

    def act(self, request: Request, change: Callable[..., Job]) -> Response:
        dry_run = read_query(request, WriteQuery)["dry_run"]
        user = self.viewer
        job = job_get(viewer=user, workspace=self.workspace, ref=self.kwargs["job"])
        if job.submitted_by_id != user.pk:
            scope_require(request, Permission.JOB_STOP_ANY)
        changed = rehearse(lambda: change(acting_user=user, job=job), keep=not dry_run)
        return Response(JobSerializer(changed).data, status=202)


class JobCancelView(_Action):
    @extend_schema(operation_id="job_cancel", summary="Cancel a job")
    @_schema
    def post(self, request: Request, ws: str, job: str) -> Response:
        """End the job: at once while it waits, otherwise as soon as its pods are gone."""
        return self.act(request, job_cancel)


class JobSuspendView(_Action):
    @extend_schema(operation_id="job_suspend", summary="Suspend a job")
    @_schema
    def post(self, request: Request, ws: str, job: str) -> Response:
        """Take the job out of the race; what it holds is given back."""
        return self.act(request, job_suspend)


class JobResumeView(_Action):
    @extend_schema(operation_id="job_resume", summary="Resume a suspended job")
    @_schema
    def post(self, request: Request, ws: str, job: str) -> Response:
        """Put the job back into its queue."""
        return self.act(request, job_resume)
