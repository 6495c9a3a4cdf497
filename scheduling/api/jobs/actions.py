"""`POST …/jobs/{job}/{cancel,suspend,resume,restart,priority,tags,clone}`, and the same for many jobs at
once.

`If-Match` is optional; with it, an action on a job that has changed meanwhile is refused (412).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.audit import audit_log
from foundation.core.errors import AllotmentError, PermissionDenied
from foundation.sql.versions import if_match, version_header
from foundation.web import problems as problem_bodies
from scheduling.api.jobs.serializers import (
    BatchResultSerializer,
    BatchSerializer,
    CloneSerializer,
    ExchangeSerializer,
    JobSerializer,
    PrioritySerializer,
    SubmittedSerializer,
    TagsSerializer,
)
from scheduling.api.jobs.views import accepted_response
from scheduling.job_file import to_mapping
from scheduling.models import Job
from scheduling.selectors.jobs.job import job_get
from scheduling.services.jobs.job import (
    job_cancel,
    job_priority,
    job_restart,
    job_resume,
    job_submit,
    job_suspend,
)
from scheduling.services.jobs.job_exchange import exchange_jobs
from scheduling.services.jobs.job_read import job_read
from scheduling.services.jobs.job_tags import change_job_tags, set_job_tags
from tenants.access.permissions import Permission
from tenants.api.requests.base import WorkspaceView
from tenants.api.requests.key_scopes import scope_require
from tenants.api.requests.query import NoQuery, read_query
from tenants.api.responses.schema import IF_MATCH_OPTIONAL, problem_responses

Change = Callable[..., Job]
_VERBS: Final[dict[str, Change]] = {
    "cancel": job_cancel,
    "suspend": job_suspend,
    "resume": job_resume,
    "restart": job_restart,
    "priority": job_priority,
    "exchange": exchange_jobs,
    "tags": set_job_tags,
    "change_tags": change_job_tags,
}
_schema = extend_schema(
    parameters=[IF_MATCH_OPTIONAL],
    request=None,
    responses={202: JobSerializer, **problem_responses(404, 409)},
    tags=["jobs"],
)


class _Action(WorkspaceView):
    """An action on one job; the answer is the changed job."""

    points: ClassVar = {"POST": Permission.JOB_STOP_OWN}
    also: ClassVar = (Permission.JOB_STOP_ANY,)

    def act_on_job(self, request: Request, verb: str, **values: Any) -> Response:
        read_query(request, NoQuery)
        expected = if_match(request, required=False)
        changed = self.change_job(request, verb, self.kwargs["job"], expected=expected, **values)
        return Response(JobSerializer(changed).data, status=202, headers=version_header(changed))

    def change_job(self, request: Request, verb: str, ref: str, **values: Any) -> Job:
        job = job_get(viewer=self.viewer, workspace=self.workspace, ref=ref)
        if job.submitted_by_id != self.viewer.pk:
            scope_require(request, Permission.JOB_STOP_ANY)
        if verb == "priority":
            scope_require(request, Permission.JOB_SUBMIT)
        return _VERBS[verb](acting_user=self.viewer, job=job, **values)


class JobCancelView(_Action):
    @extend_schema(operation_id="job_cancel", summary="Cancel a job")
    @_schema
    def post(self, request: Request, ws: str, job: str) -> Response:
        """Cancel the job: pending jobs immediately, others when their pods are deleted."""
        return self.act_on_job(request, "cancel")


class JobSuspendView(_Action):
    @extend_schema(operation_id="job_suspend", summary="Suspend a job")
    @_schema
    def post(self, request: Request, ws: str, job: str) -> Response:
        """Suspend the job and release its resources."""
        return self.act_on_job(request, "suspend")


class JobResumeView(_Action):
    @extend_schema(operation_id="job_resume", summary="Resume a suspended job")
    @_schema
    def post(self, request: Request, ws: str, job: str) -> Response:
        """Return the job to its queue."""
        return self.act_on_job(request, "resume")


class JobRestartView(_Action):
    @extend_schema(operation_id="job_restart", summary="Restart a running job")
    @_schema
    def post(self, request: Request, ws: str, job: str) -> Response:
        """Terminate the pods and requeue the job with its submission time; it runs as a new attempt."""
        return self.act_on_job(request, "restart")


class JobPriorityView(_Action):
    @extend_schema(
        operation_id="job_priority",
        summary="Change the priority class of a pending job",
        parameters=[IF_MATCH_OPTIONAL],
        request=PrioritySerializer,
        responses={202: JobSerializer, **problem_responses(404, 409, 422)},
        tags=["jobs"],
    )
    def post(self, request: Request, ws: str, job: str) -> Response:
        """Set another priority class that the workspace can use."""
        wanted = PrioritySerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        return self.act_on_job(request, "priority", **wanted.validated_data)


class JobExchangeView(_Action):
    @extend_schema(
        operation_id="job_exchange",
        summary="Exchange the places of two pending jobs of one user in their queue",
        parameters=[IF_MATCH_OPTIONAL],
        request=ExchangeSerializer,
        responses={202: JobSerializer, **problem_responses(404, 409, 422)},
        tags=["jobs"],
    )
    def post(self, request: Request, ws: str, job: str) -> Response:
        """Exchange the job's place with another job of the same user, queue and priority.

        The places of all other jobs stay.
        """
        wanted = ExchangeSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        ref = wanted.validated_data["other"]
        other = job_get(viewer=self.viewer, workspace=self.workspace, ref=ref)
        return self.act_on_job(request, "exchange", other=other)


class JobTagsView(_Action):
    @extend_schema(
        operation_id="job_tags",
        summary="Change the tags of a job in any state",
        parameters=[IF_MATCH_OPTIONAL],
        request=TagsSerializer,
        responses={202: JobSerializer, **problem_responses(404, 409, 422)},
        tags=["jobs"],
    )
    def post(self, request: Request, ws: str, job: str) -> Response:
        """Replace all tags, or add and remove some. Tags group jobs and don't affect scheduling."""
        wanted = TagsSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        verb = "tags" if "tags" in wanted.validated_data else "change_tags"
        return self.act_on_job(request, verb, **wanted.validated_data)


class JobCloneView(WorkspaceView):
    """A copy of a job."""

    points: ClassVar = {"POST": Permission.JOB_SUBMIT}

    @extend_schema(
        operation_id="job_clone",
        summary="Clone a job",
        request=CloneSerializer,
        responses={202: SubmittedSerializer, **problem_responses(404, 409, 422)},
        tags=["jobs"],
    )
    def post(self, request: Request, ws: str, job: str) -> Response:
        """Submit the job's specification again with another name and the changes of the body."""
        read_query(request, NoQuery)
        wanted = CloneSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        workspace, user = self.workspace, self.viewer
        mapping = to_mapping(job_get(viewer=user, workspace=workspace, ref=job))
        mapping.pop("name", None)
        body = mapping | wanted.validated_data
        reading = job_read(acting_user=user, workspace=workspace, body=body)
        made = job_submit(acting_user=user, workspace=workspace, spec=reading.spec)
        return accepted_response(made, request.path.removesuffix(f"/{job}/clone"), reading)


class JobActionsView(_Action):
    """One action on many independent jobs: a refusal for one job does not stop the others."""

    @extend_schema(
        operation_id="job_actions",
        summary="Run an action on several jobs",
        request=BatchSerializer,
        responses={200: BatchResultSerializer, **problem_responses(404)},
        tags=["jobs"],
    )
    def post(self, request: Request, ws: str) -> Response:
        """Return the result of each job, in the order of the request."""
        read_query(request, NoQuery)
        wanted = BatchSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        values = wanted.validated_data
        action, extra = _act_of(values)
        _ = self.workspace  # an unknown workspace is a 404 for the whole request
        items = [self._one(request, action, ref, extra) for ref in values["jobs"]]
        done = sum(item["succeeded"] for item in items)
        body = {"items": items, "succeeded": done, "failed": len(items) - done}
        return Response(BatchResultSerializer(body).data)

    def _one(self, request: Request, action: str, ref: str, extra: dict[str, Any]) -> dict[str, Any]:
        item: dict[str, Any] = {"ref": ref, "succeeded": False, "job": None, "problem": None}
        try:
            with transaction.atomic():
                changed = self.change_job(request, action, ref, **extra)
        except AllotmentError as error:
            if isinstance(error, PermissionDenied):
                self._note_denied(action, ref, error)
            return item | {"problem": problem_bodies.of_error(error)}
        return item | {"succeeded": True, "job": changed}

    def _note_denied(self, action: str, ref: str, error: PermissionDenied) -> None:
        # The response as a whole is no denial, so the denial of a single job is recorded here.
        job = job_get(viewer=self.viewer, workspace=self.workspace, ref=ref)
        audit_log.record_denial(
            self.viewer,
            entity="job",
            entity_id=job.pk,
            tenant_id=job.workspace_id,
            attempt={"action": action, "code": error.code},
        )


def _act_of(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the action of a batch, and its arguments for each job."""
    if values["action"] in ("add_tags", "remove_tags"):
        return "change_tags", {values["action"].removesuffix("_tags"): values["tags"]}
    extra = {name: values[name] for name in ("priority_class",) if name in values}
    return values["action"], extra
