"""`me` and workspaces."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.web.listing import Column
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView, WorkspaceView
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import problem_responses
from tenants.api.serializers import (
    MeSerializer,
    WorkspaceDetailSerializer,
    WorkspaceSerializer,
)
from tenants.selectors.member import membership_list
from tenants.selectors.tenant import workspace_list


class MeView(PlatformView):
    """The caller's own account."""

    open_to_one_time_passwords = True
    points = {"GET": Permission.TENANT_VIEW}

    @extend_schema(
        operation_id="me",
        summary="Your account and roles",
        responses={200: MeSerializer, **problem_responses(400)},
        tags=["me"],
    )
    def get(self, request: Request) -> Response:
        """Return the signed-in user with memberships."""
        read_query(request, NoQuery)
        user = self.viewer
        body = {
            "id": user.pk,
            "username": user.username,
            "must_change_password": user.must_change_password,
            "password_expires_at": user.password_expires_at,
            "platform_permissions": sorted(permissions.permissions_on(user)),
            "memberships": membership_list(viewer=user),
        }
        return Response(MeSerializer(body).data)


class WorkspacesQuery(ListQuery):
    columns: ClassVar = {"slug": Column("slug"), "name": Column("name"), "folder": Column("parent.slug")}


class WorkspacesView(PlatformView):
    """Workspaces in sight."""

    points = {"GET": Permission.TENANT_VIEW}

    @extend_schema(
        operation_id="workspace_list",
        summary="Workspaces that you can view",
        parameters=[WorkspacesQuery],
        responses={200: list_of(WorkspaceSerializer), **problem_responses(400)},
        tags=["workspaces"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of workspaces by name."""
        return list_response(
            request, WorkspacesQuery, workspace_list(viewer=self.viewer), WorkspaceSerializer
        )


class WorkspaceDetailView(WorkspaceView):
    """One workspace."""

    points = {"GET": Permission.TENANT_VIEW}

    @extend_schema(
        operation_id="workspace_get",
        summary="Get a workspace and your permissions",
        responses={200: WorkspaceDetailSerializer, **problem_responses(400, 404)},
        tags=["workspaces"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Return the workspace with the viewer's permissions."""
        read_query(request, NoQuery)
        workspace = self.workspace
        allowed = sorted(permissions.permissions_on(self.viewer, workspace))
        body = {**WorkspaceSerializer(workspace).data, "permissions": allowed}
        return Response(WorkspaceDetailSerializer(body | {"parent": workspace.parent}).data)
