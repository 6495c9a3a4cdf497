"""`me`, workspaces and access keys."""

from __future__ import annotations

from typing import ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.listing import Column, Kind
from tenants import permissions
from tenants.api.base import PlatformView, WorkspaceView
from tenants.api.pages import list_of, listed
from tenants.api.query import ListQuery, NoQuery, read_query
from tenants.api.schema import problems
from tenants.api.serializers import (
    AccessKeyCreatedSerializer,
    AccessKeyCreateSerializer,
    AccessKeySerializer,
    MeSerializer,
    WorkspaceDetailSerializer,
    WorkspaceSerializer,
)
from tenants.permissions import Permission
from tenants.selectors.access_key import access_key_get, access_key_list
from tenants.selectors.member import membership_list
from tenants.selectors.tenant import workspace_list
from tenants.services.access_key import access_key_create, access_key_revoke


class MeView(PlatformView):
    """Who I am."""

    points = {"GET": Permission.TENANT_VIEW}

    @extend_schema(
        operation_id="me",
        summary="Who I am and where I belong",
        responses={200: MeSerializer, **problems(400)},
        tags=["me"],
    )
    def get(self, request: Request) -> Response:
        """Answer the signed-in user with memberships."""
        read_query(request, NoQuery)
        user = self.viewer
        body = {
            "id": user.pk,
            "username": user.username,
            "must_change_password": user.must_change_password,
            "platform_permissions": sorted(permissions.granted(user)),
            "memberships": membership_list(viewer=user),
        }
        return Response(MeSerializer(body).data)


class WorkspacesQuery(ListQuery):
    columns: ClassVar = {"slug": Column("slug"), "name": Column("name"), "folder": Column("parent.slug")}


class AccessKeysQuery(ListQuery):
    columns: ClassVar = {
        "prefix": Column("prefix"),
        "name": Column("name"),
        "created_at": Column("created_at", Kind.TIME),
        "expires_at": Column("expires_at", Kind.TIME),
        "last_used_at": Column("last_used_at", Kind.TIME),
    }


class WorkspacesView(PlatformView):
    """Workspaces in sight."""

    points = {"GET": Permission.TENANT_VIEW}

    @extend_schema(
        operation_id="workspace_list",
        summary="Workspaces you may see",
        parameters=[WorkspacesQuery],
        responses={200: list_of(WorkspaceSerializer), **problems(400)},
        tags=["workspaces"],
    )
    def get(self, request: Request) -> Response:
        """Answer one page of workspaces by name."""
        return listed(request, WorkspacesQuery, workspace_list(viewer=self.viewer), WorkspaceSerializer)


class WorkspaceDetailView(WorkspaceView):
    """One workspace."""

    points = {"GET": Permission.TENANT_VIEW}

    @extend_schema(
        operation_id="workspace_get",
        summary="One workspace and what you may do there",
        responses={200: WorkspaceDetailSerializer, **problems(400, 404)},
        tags=["workspaces"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Answer the workspace with the viewer's permissions."""
        read_query(request, NoQuery)
        workspace = self.workspace
        granted = sorted(permissions.granted(self.viewer, workspace))
        body = {**WorkspaceSerializer(workspace).data, "permissions": granted}
        return Response(WorkspaceDetailSerializer(body | {"parent": workspace.parent}).data)


class AccessKeysView(WorkspaceView):
    """One's own access keys. Closed to keys with scopes: they could make themselves better ones."""

    secret_fields = ("token",)

    @extend_schema(
        operation_id="key_list",
        summary="Your access keys",
        parameters=[AccessKeysQuery],
        responses={200: list_of(AccessKeySerializer), **problems(400, 404)},
        tags=["keys"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Answer one page of the viewer's keys, newest first."""
        _ = self.workspace  # 404 before anything else
        return listed(request, AccessKeysQuery, access_key_list(viewer=self.viewer), AccessKeySerializer)

    @extend_schema(
        operation_id="key_create",
        summary="Make an access key",
        request=AccessKeyCreateSerializer,
        responses={201: AccessKeyCreatedSerializer, **problems(400, 404, 415)},
        tags=["keys"],
    )
    def post(self, request: Request, ws: str) -> Response:
        """Make a key; its token is in this answer only."""
        read_query(request, NoQuery)
        _ = self.workspace
        wanted = AccessKeyCreateSerializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        values = wanted.validated_data
        key, token = access_key_create(
            acting_user=self.viewer,
            user=self.viewer,
            name=values["name"],
            scopes=tuple(values["scopes"]),
            expires_at=values["expires_at"],
        )
        body = {**AccessKeySerializer(key).data, "token": token}
        return Response(body, status=201, headers={"Location": f"{request.path}/{key.prefix}"})


class AccessKeyView(WorkspaceView):
    """One access key."""

    @extend_schema(
        operation_id="key_revoke",
        summary="Revoke an access key",
        responses={204: None, **problems(400, 404)},
        tags=["keys"],
    )
    def delete(self, request: Request, ws: str, prefix: str) -> Response:
        """End the key at once."""
        read_query(request, NoQuery)
        _ = self.workspace
        key = access_key_get(viewer=self.viewer, prefix=prefix)
        access_key_revoke(acting_user=self.viewer, key=key)
        return Response(status=204)
