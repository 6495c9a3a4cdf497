"""Members of a tenant or of the platform, their effective permissions, and custom roles."""

from __future__ import annotations

from typing import Any, ClassVar

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core.errors import FieldError, Invalid
from foundation.sql.versions import if_match, version_header
from foundation.web.listing import Column
from tenants.access.permissions import Permission
from tenants.access.rights import EffectiveRights, effective_list
from tenants.api.requests.place import PlaceView
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response, listed_by
from tenants.api.responses.schema import IF_MATCH, problem_responses
from tenants.api.shapes import (
    EffectiveSerializer,
    MemberCreateSerializer,
    MemberRoleSerializer,
    MemberSerializer,
    RoleChangeSerializer,
    RoleCreateSerializer,
    RoleSerializer,
)
from tenants.api.tenants import body_of
from tenants.selectors.account import group_named, user_named
from tenants.selectors.member import MEMBER_COLUMNS, member_get, member_list
from tenants.selectors.role import role_get, role_list, role_named
from tenants.services.member import member_remove, member_set
from tenants.services.role import role_create, role_delete, role_update


class MembersQuery(ListQuery):
    columns: ClassVar = MEMBER_COLUMNS
    inherited = serializers.BooleanField(default=False, help_text="Include inherited roles.")


class MembersView(PlaceView):
    """The roles that were given on this tenant."""

    points: ClassVar = {"GET": Permission.TENANT_VIEW, "POST": Permission.MEMBER_EDIT}

    @extend_schema(
        operation_id="member_list",
        summary="Members",
        parameters=[MembersQuery],
        responses={200: list_of(MemberSerializer), **problem_responses(400, 404)},
        tags=["members"],
    )
    def get(self, request: Request, **kwargs: Any) -> Response:
        """Return one page of roles, from the root downwards."""
        query = read_query(request, MembersQuery)
        rows = member_list(viewer=self.viewer, tenant=self.place, inherited=query["inherited"])
        return listed_by(query, MembersQuery, rows, MemberSerializer)

    @extend_schema(
        operation_id="member_set",
        summary="Add a member",
        request=MemberCreateSerializer,
        responses={201: MemberSerializer, **problem_responses(400, 404, 409)},
        tags=["members"],
    )
    def post(self, request: Request, **kwargs: Any) -> Response:
        """Assign a role to a user or a group; replaces the previous role in this tenant."""
        read_query(request, NoQuery)
        place = self.place
        values = body_of(request, MemberCreateSerializer)
        if ("user" in values) == ("group" in values):
            message = _("Specify either a user or a group.")
            raise Invalid(message, errors=[FieldError("user", "one_of", message)])
        member = member_set(
            acting_user=self.viewer,
            tenant=place,
            role=role_named(viewer=self.viewer, tenant=place, name=values["role"]),
            user=user_named(values["user"]) if "user" in values else None,
            group=group_named(values["group"]) if "group" in values else None,
        )
        headers = {"Location": f"{request.path}/{member.pk}", **version_header(member)}
        return Response(MemberSerializer(member).data, status=201, headers=headers)


class MemberView(PlaceView):
    """One role that was given on this tenant."""

    points: ClassVar = {
        "GET": Permission.TENANT_VIEW,
        "PATCH": Permission.MEMBER_EDIT,
        "DELETE": Permission.MEMBER_EDIT,
    }

    @extend_schema(
        operation_id="member_get",
        summary="Get a member",
        responses={200: MemberSerializer, **problem_responses(400, 404)},
        tags=["members"],
    )
    def get(self, request: Request, **kwargs: Any) -> Response:
        """Return the member."""
        read_query(request, NoQuery)
        member = member_get(viewer=self.viewer, tenant=self.place, member_id=kwargs["member"])
        return Response(MemberSerializer(member).data, headers=version_header(member))

    @extend_schema(
        operation_id="member_update",
        summary="Change a member's role",
        parameters=[IF_MATCH],
        request=MemberRoleSerializer,
        responses={200: MemberSerializer, **problem_responses(400, 404, 409)},
        tags=["members"],
    )
    def patch(self, request: Request, **kwargs: Any) -> Response:
        """Change the role."""
        read_query(request, NoQuery)
        place = self.place
        member = member_get(viewer=self.viewer, tenant=place, member_id=kwargs["member"])
        expected = if_match(request)
        name = body_of(request, MemberRoleSerializer)["role"]
        changed = member_set(
            acting_user=self.viewer,
            tenant=place,
            role=role_named(viewer=self.viewer, tenant=place, name=name),
            user=member.user,
            group=member.group,
            expected=expected,
        )
        return Response(MemberSerializer(changed).data, headers=version_header(changed))

    @extend_schema(
        operation_id="member_remove",
        summary="Remove a role from a member",
        parameters=[IF_MATCH],
        responses={204: None, **problem_responses(404, 409)},
        tags=["members"],
    )
    def delete(self, request: Request, **kwargs: Any) -> Response:
        """Remove the role. Inherited and group roles are kept."""
        read_query(request, NoQuery)
        member = member_get(viewer=self.viewer, tenant=self.place, member_id=kwargs["member"])
        member_remove(acting_user=self.viewer, member=member, expected=if_match(request))
        return Response(status=204)


def _named(*names: str) -> dict[str, Any]:
    """Return the names of the same operations on the platform, in the order of the methods below."""
    methods = ("get", "post") if len(names) == 2 else ("get", "patch", "delete")
    return {m: extend_schema(operation_id=name) for m, name in zip(methods, names, strict=True)}


@extend_schema_view(**_named("platform_member_list", "platform_member_set"))
class PlatformMembersView(MembersView):
    """Roles on the platform."""


@extend_schema_view(**_named("platform_member_get", "platform_member_update", "platform_member_remove"))
class PlatformMemberView(MemberView):
    """One role on the platform."""


class EffectiveQuery(ListQuery):
    columns: ClassVar = {"username": Column("user.username")}


class EffectiveView(PlaceView):
    """The effective rights of each user here, and their sources."""

    points: ClassVar = {"GET": Permission.TENANT_VIEW}

    @extend_schema(
        operation_id="tenant_permissions",
        summary="Effective permissions and their source",
        parameters=[EffectiveQuery],
        responses={200: list_of(EffectiveSerializer), **problem_responses(400, 404)},
        tags=["members"],
    )
    def get(self, request: Request, **kwargs: Any) -> Response:
        """Return one page of people by name."""
        query = read_query(request, EffectiveQuery)
        rows = effective_list(viewer=self.viewer, tenant=self.tenant)
        return listed_by(query, EffectiveQuery, rows, _EffectiveRows)


class _EffectiveRows(EffectiveSerializer):
    def to_representation(self, instance: EffectiveRights) -> dict[str, Any]:
        points = [{"point": p.value, "sources": rights} for p, rights in instance.points.items()]
        user = instance.user
        return super().to_representation(
            {"username": user.username, "service_account": user.is_service, "permissions": points}
        )


class RolesQuery(ListQuery):
    columns: ClassVar = {"name": Column("name")}


class RolesView(PlaceView):
    """Custom roles that may be given on this tenant."""

    points: ClassVar = {"GET": Permission.TENANT_VIEW, "POST": Permission.MEMBER_EDIT}

    @extend_schema(
        operation_id="role_list",
        summary="Custom roles",
        parameters=[RolesQuery],
        responses={200: list_of(RoleSerializer), **problem_responses(400, 404)},
        tags=["members"],
    )
    def get(self, request: Request, **kwargs: Any) -> Response:
        """Return one page of roles, including inherited ones."""
        return list_response(
            request, RolesQuery, role_list(viewer=self.viewer, tenant=self.place), RoleSerializer
        )

    @extend_schema(
        operation_id="role_create",
        summary="Create a custom role",
        request=RoleCreateSerializer,
        responses={201: RoleSerializer, **problem_responses(400, 404, 409)},
        tags=["members"],
    )
    def post(self, request: Request, **kwargs: Any) -> Response:
        """Create a role from permissions that you have."""
        read_query(request, NoQuery)
        place = self.place
        values = _points(body_of(request, RoleCreateSerializer))
        role = role_create(acting_user=self.viewer, tenant=place, **values)
        headers = {"Location": f"{request.path}/{role.pk}", **version_header(role)}
        return Response(RoleSerializer(role).data, status=201, headers=headers)


class RoleView(PlaceView):
    """One custom role of this tenant."""

    points: ClassVar = {
        "GET": Permission.TENANT_VIEW,
        "PATCH": Permission.MEMBER_EDIT,
        "DELETE": Permission.MEMBER_EDIT,
    }

    @extend_schema(
        operation_id="role_get",
        summary="Get a custom role",
        responses={200: RoleSerializer, **problem_responses(400, 404)},
        tags=["members"],
    )
    def get(self, request: Request, **kwargs: Any) -> Response:
        """Return the role."""
        read_query(request, NoQuery)
        role = role_get(viewer=self.viewer, tenant=self.place, role_id=kwargs["role"])
        return Response(RoleSerializer(role).data, headers=version_header(role))

    @extend_schema(
        operation_id="role_update",
        summary="Update a custom role",
        parameters=[IF_MATCH],
        request=RoleChangeSerializer,
        responses={200: RoleSerializer, **problem_responses(400, 404, 409)},
        tags=["members"],
    )
    def patch(self, request: Request, **kwargs: Any) -> Response:
        """Update the role for all its members."""
        read_query(request, NoQuery)
        role = role_get(viewer=self.viewer, tenant=self.place, role_id=kwargs["role"])
        expected = if_match(request)
        values = _points(body_of(request, RoleChangeSerializer))
        changed = role_update(acting_user=self.viewer, role=role, expected=expected, **values)
        return Response(RoleSerializer(changed).data, headers=version_header(changed))

    @extend_schema(
        operation_id="role_delete",
        summary="Delete a custom role",
        parameters=[IF_MATCH],
        responses={204: None, **problem_responses(404, 409)},
        tags=["members"],
    )
    def delete(self, request: Request, **kwargs: Any) -> Response:
        """Delete a role without assignments."""
        read_query(request, NoQuery)
        role = role_get(viewer=self.viewer, tenant=self.place, role_id=kwargs["role"])
        role_delete(acting_user=self.viewer, role=role, expected=if_match(request))
        return Response(status=204)


def _points(values: dict[str, Any]) -> dict[str, Any]:
    if "points" in values:
        values["points"] = [Permission(word) for word in values["points"]]
    return values


@extend_schema_view(**_named("platform_role_list", "platform_role_create"))
class PlatformRolesView(RolesView):
    """Custom roles of the platform."""


@extend_schema_view(**_named("platform_role_get", "platform_role_update", "platform_role_delete"))
class PlatformRoleView(RoleView):
    """One custom role of the platform."""
