"""Jobs of a workspace: lists, submissions, details and deletion."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.sql import row_scope
from foundation.sql.versions import version_header
from scheduling.api.jobs.job_file import JobFileSerializer
from scheduling.api.jobs.parsers import JOB_PARSERS
from scheduling.api.jobs.queries import AllJobsQuery, EventQuery, JobListQuery, filters_of
from scheduling.api.jobs.serializers import (
    DryRunSerializer,
    EventSerializer,
    FilledSerializer,
    JobDetailSerializer,
    JobSerializer,
    SubmittedSerializer,
    TaskSerializer,
    list_row,
)
from scheduling.job_file import JobSpec
from scheduling.models import Job
from scheduling.selectors.events.event import job_events
from scheduling.selectors.jobs.job import job_get, job_list
from scheduling.selectors.jobs.task import job_tasks
from scheduling.services.jobs.job import job_submit
from scheduling.services.jobs.job_check import Submission, job_check
from scheduling.services.jobs.job_deletion import job_delete
from scheduling.services.jobs.job_read import JobReading, job_read
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView, WorkspaceView
from tenants.api.requests.key_scopes import scope_require
from tenants.api.requests.query import NoQuery, OffsetQuery, read_query
from tenants.api.requests.writes import dry_run_of
from tenants.api.responses.pages import list_of, page_body
from tenants.api.responses.schema import problem_responses
from tenants.models import Tenant, User

_JOB_LIST: Final = list_of(JobSerializer, cursor=True)


def _job_page(viewer: User, workspace: Tenant | None, query: Mapping[str, Any]) -> Response:
    page = job_list(
        viewer=viewer,
        workspace=workspace,
        filters=filters_of(query),
        sort=query["sort"],
        cursor=query.get("cursor"),
        limit=query["limit"],
    )
    return Response(page_body([list_row(row) for row in page.items], None, page.next))


class AllJobsView(PlatformView):
    """Jobs of all workspaces that the caller may view."""

    points = {"GET": Permission.JOB_VIEW}

    @extend_schema(
        operation_id="all_job_list",
        summary="Jobs of all workspaces",
        description=(
            "Needs `job.view` on the platform or on a folder. Lists the jobs of every workspace in which the"
            " caller has that permission."
        ),
        parameters=[AllJobsQuery],
        responses={200: _JOB_LIST, **problem_responses(400)},
        tags=["jobs"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of jobs, newest first unless sorted otherwise."""
        return _job_page(self.viewer, None, read_query(request, AllJobsQuery))


class JobsView(WorkspaceView):
    """Jobs of one workspace."""

    points = {"GET": Permission.JOB_VIEW, "POST": Permission.JOB_SUBMIT}
    parser_classes = JOB_PARSERS
    # The checks of a dry run need no lock; as a rolled-back transaction it would hold one meanwhile.
    handles_dry_run = True

    @extend_schema(
        operation_id="job_list",
        summary="Jobs of a workspace",
        parameters=[JobListQuery],
        responses={200: _JOB_LIST, **problem_responses(400, 404)},
        tags=["jobs"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Return one page of jobs, newest first unless sorted otherwise."""
        query = read_query(request, JobListQuery)
        return _job_page(self.viewer, self.workspace, query)

    @extend_schema(
        operation_id="job_submit",
        summary="Submit a job",
        description=(
            "Accepted jobs are pending until the scheduler admits them. A job file is JSON or "
            "YAML. Omitted fields get the defaults of the workspace's policy, listed in `defaults`."
        ),
        request={"application/json": JobFileSerializer, "application/yaml": JobFileSerializer},
        responses={200: DryRunSerializer, 202: SubmittedSerializer, **problem_responses(422)},
        tags=["jobs"],
    )
    def post(self, request: Request, ws: str) -> Response:
        """Submit the job of the body, or with `dry_run` say what it would ask for."""
        read_query(request, NoQuery)
        with row_scope.read_transaction():
            workspace, user = self.workspace, self.viewer
            reading = job_read(acting_user=user, workspace=workspace, body=request.data)
        asked: dict[str, Any] = {"spec": reading.spec, "policy": reading.policy}
        if dry_run_of(request):
            checked = job_check(acting_user=user, workspace=workspace, **asked)
            return Response(DryRunSerializer(_effect(checked, reading)).data)
        return accepted_response(
            job_submit(acting_user=user, workspace=workspace, **asked), request.path, reading
        )


def accepted_response(job: Job, jobs: str, reading: JobReading) -> Response:
    """Return the response to a submission; `jobs` is the URL of the workspace's list of jobs."""
    headers = {"Location": f"{jobs}/{job.pk}", **version_header(job)}
    defaults = FilledSerializer(reading.filled, many=True).data
    return Response({**JobSerializer(job).data, "defaults": defaults}, status=202, headers=headers)


def _effect(checked: Submission, reading: JobReading) -> dict[str, Any]:
    spec: JobSpec = checked.spec
    return {
        "dry_run": True,
        "name": spec.name,
        "queue": checked.queue.name,
        "priority_class": checked.priority.name,
        "tasks": spec.task_count,
        "min_run_s": checked.min_run_s,
        "demand": spec.total_demand(),
        "defaults": reading.filled,
    }


class JobView(WorkspaceView):
    """One job, by id or name."""

    points: ClassVar = {"GET": Permission.JOB_VIEW}

    @property
    def job(self) -> Job:
        return job_get(viewer=self.viewer, workspace=self.workspace, ref=self.kwargs["job"])

    @extend_schema(
        operation_id="job_get",
        summary="Get a job by ID or name",
        responses={200: JobDetailSerializer, **problem_responses(400, 404)},
        tags=["jobs"],
    )
    def get(self, request: Request, ws: str, job: str) -> Response:
        """Return the job with its queue position and its specification."""
        read_query(request, NoQuery)
        found = self.job
        return Response(JobDetailSerializer(found).data, headers=version_header(found))


class DeletableJobView(JobView):
    """One job, which can be deleted once it has finished."""

    points: ClassVar = {"GET": Permission.JOB_VIEW, "DELETE": Permission.JOB_STOP_OWN}

    @extend_schema(
        operation_id="job_delete",
        summary="Delete a finished job",
        description=(
            "Only finished jobs can be deleted. Their usage, cost, timeline, preemptions and audit records "
            "are kept. Lists and searches omit deleted jobs; a deleted job is found by its ID."
        ),
        responses={204: None, **problem_responses(404, 409)},
        tags=["jobs"],
    )
    def delete(self, request: Request, ws: str, job: str) -> Response:
        """Delete a job that has finished."""
        read_query(request, NoQuery)
        found = self.job
        if found.submitted_by_id != self.viewer.pk:
            scope_require(request, Permission.JOB_STOP_ANY)
        job_delete(acting_user=self.viewer, job=found)
        return Response(status=204)


class JobEventsView(JobView):
    """The events of one job."""

    @extend_schema(
        operation_id="job_events",
        summary="Events of a job, oldest first",
        parameters=[EventQuery],
        responses={200: list_of(EventSerializer, cursor=True), **problem_responses(400, 404)},
        tags=["jobs"],
    )
    def get(self, request: Request, ws: str, job: str) -> Response:
        """Return the events after the cursor."""
        query = read_query(request, EventQuery)
        page = job_events(
            viewer=self.viewer,
            job=self.job,
            after=query["cursor"],
            limit=query["limit"],
            conditions=query["conditions"],
        )
        following = None if page.next is None else str(page.next)
        return Response(page_body(EventSerializer(page.items, many=True).data, None, following))


class JobTasksView(JobView):
    """The tasks of one job."""

    @extend_schema(
        operation_id="job_tasks",
        summary="Tasks of a job, with node and GPUs of the latest attempt",
        parameters=[OffsetQuery],
        responses={200: list_of(TaskSerializer), **problem_responses(400, 404)},
        tags=["jobs"],
    )
    def get(self, request: Request, ws: str, job: str) -> Response:
        """Return one page of tasks by role and index."""
        query = read_query(request, OffsetQuery)
        page = job_tasks(viewer=self.viewer, job=self.job, **query)
        return Response(page_body(TaskSerializer(page.items, many=True).data, page.total, page.next))
