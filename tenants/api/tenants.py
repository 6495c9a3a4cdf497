"""The tenant tree: list, create, rename, move, archive, restore."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.sql.versions import if_match, version_header
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView
from tenants.api.requests.bodies import named_by
from tenants.api.requests.place import PlaceView
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, listed_by
from tenants.api.responses.schema import IF_MATCH, problem_responses
from tenants.api.shapes import (
    ArchivedSerializer,
    MoveSerializer,
    TenantCreateSerializer,
    TenantMoveSerializer,
    TenantRenameSerializer,
    TenantSerializer,
)
from tenants.models import Tenant, TenantKind
from tenants.selectors.tenant import tenant_archive_preview, tenant_get, tenant_list
from tenants.selectors.tenant_move import tenant_move_preview
from tenants.selectors.tenant_tree import TENANT_COLUMNS
from tenants.services.tenant import tenant_archive, tenant_create, tenant_rename, tenant_restore
from tenants.services.tenant_move import tenant_move


class TenantsQuery(ListQuery):
    columns: ClassVar = TENANT_COLUMNS
    archived = serializers.BooleanField(default=False, help_text="Include archived tenants.")


def body_of(request: Request, kind: type[serializers.Serializer[Any]]) -> dict[str, Any]:
    """Return the checked body. Raises: rest_framework.exceptions.ValidationError."""
    body = kind(data=request.data)
    body.is_valid(raise_exception=True)
    return dict(body.validated_data)


class TenantsView(PlatformView):
    """Folders and workspaces in sight."""

    points: ClassVar = {"GET": Permission.TENANT_VIEW, "POST": Permission.TENANT_EDIT}

    @extend_schema(
        operation_id="tenant_list",
        summary="Folders and workspaces that you can view",
        parameters=[TenantsQuery],
        responses={200: list_of(TenantSerializer), **problem_responses(400)},
        tags=["tenants"],
    )
    def get(self, request: Request) -> Response:
        """Return the tree, parents before children."""
        query = read_query(request, TenantsQuery)
        rows = tenant_list(viewer=self.viewer, archived=query["archived"])
        return listed_by(query, TenantsQuery, rows, TenantSerializer)

    @extend_schema(
        operation_id="tenant_create",
        summary="Create a folder or workspace",
        request=TenantCreateSerializer,
        responses={201: TenantSerializer, **problem_responses(400, 404, 409)},
        tags=["tenants"],
    )
    def post(self, request: Request) -> Response:
        """Create a tenant in a folder."""
        read_query(request, NoQuery)
        values = body_of(request, TenantCreateSerializer)
        with named_by("parent"):
            parent = tenant_get(viewer=self.viewer, tenant_id=values["parent"])
        made = tenant_create(
            acting_user=self.viewer,
            parent=parent,
            kind=TenantKind(values["kind"]),
            slug=values["slug"],
            name=values["name"],
        )
        headers = {"Location": f"{request.path}/{made.pk}", **version_header(made)}
        return Response(TenantSerializer(made).data, status=201, headers=headers)


class TenantView(PlaceView):
    """One folder or workspace."""

    points: ClassVar = {"GET": Permission.TENANT_VIEW, "PATCH": Permission.TENANT_EDIT}

    @extend_schema(
        operation_id="tenant_get",
        summary="Get a folder or workspace",
        responses={200: TenantSerializer, **problem_responses(400, 404)},
        tags=["tenants"],
    )
    def get(self, request: Request, **kwargs: Any) -> Response:
        """Return the tenant."""
        read_query(request, NoQuery)
        return Response(TenantSerializer(self.tenant).data, headers=version_header(self.tenant))

    @extend_schema(
        operation_id="tenant_rename",
        summary="Rename a folder or workspace",
        parameters=[IF_MATCH],
        request=TenantRenameSerializer,
        responses={200: TenantSerializer, **problem_responses(400, 404, 409)},
        tags=["tenants"],
    )
    def patch(self, request: Request, **kwargs: Any) -> Response:
        """Change the display name. The slug is kept."""
        read_query(request, NoQuery)
        tenant, expected = self.tenant, if_match(request)
        name = body_of(request, TenantRenameSerializer)["name"]
        renamed = tenant_rename(acting_user=self.viewer, tenant=tenant, name=name, expected=expected)
        return Response(TenantSerializer(renamed).data, headers=version_header(renamed))


class TenantMoveView(PlaceView):
    """The move of a tenant below another folder."""

    points: ClassVar = {"POST": Permission.TENANT_EDIT}

    @extend_schema(
        operation_id="tenant_move",
        summary="Move a folder or workspace",
        description=("With `dry_run`, returns a preview: access changes, and the impact on quotas and jobs."),
        parameters=[IF_MATCH],
        request=TenantMoveSerializer,
        responses={200: MoveSerializer, **problem_responses(400, 404, 409)},
        tags=["tenants"],
    )
    def post(self, request: Request, **kwargs: Any) -> Response:
        """Move the tenant with all below it; the response has the effects."""
        read_query(request, NoQuery)
        tenant, expected = self.tenant, if_match(request)
        wanted = body_of(request, TenantMoveSerializer)["parent"]
        with named_by("parent"):
            parent = tenant_get(viewer=self.viewer, tenant_id=wanted)
        preview = tenant_move_preview(viewer=self.viewer, tenant=tenant, parent=parent)
        moved = tenant_move(acting_user=self.viewer, tenant=tenant, parent=parent, expected=expected)
        body = {"tenant": moved, "along": preview.along, "access": preview.access, "effects": preview.effects}
        return Response(MoveSerializer(body).data, headers=version_header(moved))


class _Closing(PlaceView):
    points: ClassVar = {"POST": Permission.TENANT_EDIT}

    def act_on_tenant(self, request: Request, change: Callable[..., Tenant]) -> Tenant:
        read_query(request, NoQuery)
        tenant = self.tenant
        return change(acting_user=self.viewer, tenant=tenant, expected=if_match(request))


class TenantArchiveView(_Closing):
    """The archiving of a tenant."""

    @extend_schema(
        operation_id="tenant_archive",
        summary="Archive a folder or workspace",
        description=(
            "The tenant and its children accept no new jobs and are hidden from lists; "
            "`effects` lists what continues."
        ),
        parameters=[IF_MATCH],
        request=None,
        responses={200: ArchivedSerializer, **problem_responses(404, 409)},
        tags=["tenants"],
    )
    def post(self, request: Request, **kwargs: Any) -> Response:
        """Archive the tenant; the response lists what continues there."""
        effects = tenant_archive_preview(viewer=self.viewer, tenant=self.tenant)
        archived = self.act_on_tenant(request, tenant_archive)
        return Response(
            ArchivedSerializer({"tenant": archived, "effects": effects}).data,
            headers=version_header(archived),
        )


class TenantRestoreView(_Closing):
    """The restoring of a tenant."""

    @extend_schema(
        operation_id="tenant_restore",
        summary="Restore a folder or workspace",
        parameters=[IF_MATCH],
        request=None,
        responses={200: TenantSerializer, **problem_responses(404, 409)},
        tags=["tenants"],
    )
    def post(self, request: Request, **kwargs: Any) -> Response:
        """Restore the tenant and the children archived with it."""
        restored = self.act_on_tenant(request, tenant_restore)
        return Response(TenantSerializer(restored).data, headers=version_header(restored))
