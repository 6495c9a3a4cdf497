"""`…/workspaces/{ws}/job-templates`: job files that members of a workspace share."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar, Final

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.sql.versions import if_match
from scheduling.job_file import JOB_BOUNDS
from scheduling.selectors.jobs.job_template import JOB_TEMPLATE_COLUMNS, job_template_get, job_template_list
from scheduling.services.jobs.job_template import (
    TEMPLATES_MAX,
    job_template_change,
    job_template_create,
    job_template_delete,
)
from tenants.access.permissions import Permission
from tenants.api.requests.base import WorkspaceView
from tenants.api.requests.bodies import StrictSerializer, answer_row, read_body
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import IF_MATCH, problem_responses

_TEXT: Final = "YAML of a job file, with its comments. May be incomplete."


class JobTemplateSerializer(serializers.Serializer[Any]):
    """A job file that members of the workspace share."""

    id = serializers.UUIDField()
    version = serializers.IntegerField(help_text="Version; equals the ETag.")
    name = serializers.CharField()
    description = serializers.CharField()
    text = serializers.CharField(help_text=_TEXT)
    saved_by = serializers.CharField(source="saved_by.username", default=None, allow_null=True)
    saved_at = serializers.DateTimeField()


class JobTemplateChangeSerializer(StrictSerializer):
    name = serializers.CharField(max_length=63, required=False, help_text="Unique in the workspace.")
    description = serializers.CharField(max_length=200, required=False, allow_blank=True)
    text = serializers.CharField(
        max_length=JOB_BOUNDS.size, required=False, trim_whitespace=False, help_text=_TEXT
    )


class JobTemplateCreateSerializer(StrictSerializer):
    name = serializers.CharField(max_length=63, help_text="Unique in the workspace.")
    description = serializers.CharField(max_length=200, required=False, allow_blank=True, default="")
    text = serializers.CharField(max_length=JOB_BOUNDS.size, trim_whitespace=False, help_text=_TEXT)


class JobTemplatesQuery(ListQuery):
    columns: ClassVar = JOB_TEMPLATE_COLUMNS


class JobTemplatesView(WorkspaceView):
    """Templates of a workspace."""

    points: ClassVar = {"GET": Permission.JOB_VIEW, "POST": Permission.JOB_SUBMIT}

    @extend_schema(
        operation_id="job_template_list",
        summary="Job templates of a workspace",
        parameters=[JobTemplatesQuery],
        responses={200: list_of(JobTemplateSerializer), **problem_responses(400, 404)},
        tags=["job-templates"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Return one page of templates."""
        rows = job_template_list(viewer=self.viewer, workspace=self.workspace)
        return list_response(request, JobTemplatesQuery, rows, JobTemplateSerializer)

    @extend_schema(
        operation_id="job_template_create",
        summary="Create a job template",
        description=f"A workspace has at most {TEMPLATES_MAX} templates.",
        request=JobTemplateCreateSerializer,
        responses={201: JobTemplateSerializer, **problem_responses(400, 404, 409)},
        tags=["job-templates"],
    )
    def post(self, request: Request, ws: str) -> Response:
        """Save a template."""
        read_query(request, NoQuery)
        workspace = self.workspace
        values = read_body(JobTemplateCreateSerializer, request)
        made = job_template_create(acting_user=self.viewer, workspace=workspace, **values)
        return answer_row(JobTemplateSerializer, made, location=f"{request.path}/{made.pk}")


class JobTemplateView(WorkspaceView):
    """One template."""

    points: ClassVar = {
        "GET": Permission.JOB_VIEW,
        "PATCH": Permission.JOB_SUBMIT,
        "DELETE": Permission.JOB_SUBMIT,
    }

    @extend_schema(
        operation_id="job_template_get",
        summary="Get a job template",
        responses={200: JobTemplateSerializer, **problem_responses(400, 404)},
        tags=["job-templates"],
    )
    def get(self, request: Request, ws: str, template: uuid.UUID) -> Response:
        """Return the template."""
        read_query(request, NoQuery)
        found = job_template_get(viewer=self.viewer, workspace=self.workspace, pk=template)
        return answer_row(JobTemplateSerializer, found)

    @extend_schema(
        operation_id="job_template_change",
        summary="Update a job template",
        parameters=[IF_MATCH],
        request=JobTemplateChangeSerializer,
        responses={200: JobTemplateSerializer, **problem_responses(400, 404, 409)},
        tags=["job-templates"],
    )
    def patch(self, request: Request, ws: str, template: uuid.UUID) -> Response:
        """Update the template. Jobs aren't affected."""
        read_query(request, NoQuery)
        found = job_template_get(viewer=self.viewer, workspace=self.workspace, pk=template)
        expected = if_match(request)
        values = read_body(JobTemplateChangeSerializer, request)
        changed = job_template_change(acting_user=self.viewer, template=found, version=expected, **values)
        return answer_row(JobTemplateSerializer, changed)

    @extend_schema(
        operation_id="job_template_delete",
        summary="Delete a job template",
        parameters=[IF_MATCH],
        responses={204: None, **problem_responses(400, 404)},
        tags=["job-templates"],
    )
    def delete(self, request: Request, ws: str, template: uuid.UUID) -> Response:
        """Delete the template. Jobs aren't affected."""
        read_query(request, NoQuery)
        found = job_template_get(viewer=self.viewer, workspace=self.workspace, pk=template)
        job_template_delete(acting_user=self.viewer, template=found, version=if_match(request))
        return Response(status=204)
