"""Priority classes, and grants of classes above 0 to tenants."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.sql.versions import if_match
from quotas.selectors.tables.quota_table import tenant_get
from scheduling.selectors.policies.priority_grant import (
    CLASS_COLUMNS,
    GRANT_COLUMNS,
    priority_class_all,
    priority_class_get,
    priority_grant_get,
    priority_grant_list,
)
from scheduling.services.policies.priority_class import (
    VALUE_MAX,
    priority_class_create,
    priority_class_update,
)
from scheduling.services.policies.priority_grant import priority_grant, priority_revoke
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView
from tenants.api.requests.bodies import StrictSerializer, answer_row, named_by, read_body
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import IF_MATCH, problem_responses


class PriorityClassSerializer(serializers.Serializer[Any]):
    name = serializers.CharField()
    value = serializers.IntegerField(help_text="Values above 0 require a grant.")
    description = serializers.CharField()
    retired_at = serializers.DateTimeField(
        allow_null=True, help_text="Time since when new jobs can't use it."
    )


class PriorityClassCreateSerializer(StrictSerializer):
    name = serializers.CharField(max_length=63)
    value = serializers.IntegerField(min_value=-VALUE_MAX, max_value=VALUE_MAX)
    description = serializers.CharField(max_length=200, default="", allow_blank=True)


class PriorityClassChangeSerializer(StrictSerializer):
    value = serializers.IntegerField(min_value=-VALUE_MAX, max_value=VALUE_MAX, required=False)
    description = serializers.CharField(max_length=200, required=False, allow_blank=True)
    retired = serializers.BooleanField(required=False)


class GrantSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    tenant = serializers.CharField(source="tenant.slug", help_text="Applies to the tenant and its children.")
    priority_class = serializers.CharField(source="priority_class.name")
    created_at = serializers.DateTimeField()


class GrantCreateSerializer(StrictSerializer):
    tenant = serializers.SlugField(max_length=63)
    priority_class = serializers.SlugField(max_length=63)


class ClassesQuery(ListQuery):
    columns: ClassVar = CLASS_COLUMNS


class GrantsQuery(ListQuery):
    columns: ClassVar = GRANT_COLUMNS


class PriorityClassesView(PlatformView):
    """All priority classes."""

    points = {"GET": Permission.TENANT_VIEW, "POST": Permission.QUEUE_EDIT}

    @extend_schema(
        operation_id="priority_class_list",
        summary="Priority classes, highest first",
        parameters=[ClassesQuery],
        responses={200: list_of(PriorityClassSerializer), **problem_responses(400)},
        tags=["priorities"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of classes."""
        return list_response(request, ClassesQuery, priority_class_all(), PriorityClassSerializer)

    @extend_schema(
        operation_id="priority_class_create",
        summary="Create a priority class",
        request=PriorityClassCreateSerializer,
        responses={201: PriorityClassSerializer, **problem_responses(400, 409)},
        tags=["priorities"],
    )
    def post(self, request: Request) -> Response:
        """Create the class. Values above 0 require a grant."""
        read_query(request, NoQuery)
        wanted = read_body(PriorityClassCreateSerializer, request)
        made = priority_class_create(acting_user=self.viewer, **wanted)
        return answer_row(PriorityClassSerializer, made, location=f"{request.path}/{made.name}")


class PriorityClassView(PlatformView):
    """One priority class, by name."""

    points = {"GET": Permission.TENANT_VIEW, "PATCH": Permission.QUEUE_EDIT}

    @extend_schema(
        operation_id="priority_class_get",
        summary="Get a priority class",
        responses={200: PriorityClassSerializer, **problem_responses(400, 404)},
        tags=["priorities"],
    )
    def get(self, request: Request, name: str) -> Response:
        """Return the class."""
        read_query(request, NoQuery)
        return answer_row(PriorityClassSerializer, priority_class_get(name))

    @extend_schema(
        operation_id="priority_class_update",
        summary="Update, disable or enable a priority class",
        description="Existing jobs aren't affected.",
        parameters=[IF_MATCH],
        request=PriorityClassChangeSerializer,
        responses={200: PriorityClassSerializer, **problem_responses(400, 404, 409)},
        tags=["priorities"],
    )
    def patch(self, request: Request, name: str) -> Response:
        """Change the fields in the body."""
        read_query(request, NoQuery)
        found, expected = priority_class_get(name), if_match(request)
        wanted = read_body(PriorityClassChangeSerializer, request)
        changed = priority_class_update(
            acting_user=self.viewer, priority_class=found, expected=expected, **wanted
        )
        return answer_row(PriorityClassSerializer, changed)


class PriorityGrantsView(PlatformView):
    """The grants of priority classes above 0 to tenants."""

    points = {"GET": Permission.TENANT_VIEW, "POST": Permission.QUEUE_EDIT}

    def may_see_again(self) -> None:
        """Check that the caller may still view the tenant of the grant, before a stored response is
        repeated."""
        body = self.request.data
        tenant_get(self.viewer, str(body.get("tenant", "")) if isinstance(body, dict) else "")

    @extend_schema(
        operation_id="priority_grant_list",
        summary="Priority grants of tenants that you can view",
        parameters=[GrantsQuery],
        responses={200: list_of(GrantSerializer), **problem_responses(400)},
        tags=["priorities"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of grants by tenant."""
        return list_response(request, GrantsQuery, priority_grant_list(viewer=self.viewer), GrantSerializer)

    @extend_schema(
        operation_id="priority_grant_create",
        summary="Grant a priority class to a tenant and its children",
        request=GrantCreateSerializer,
        responses={201: GrantSerializer, **problem_responses(400, 404)},
        tags=["priorities"],
    )
    def post(self, request: Request) -> Response:
        """Grant a class. Repeating the request returns the existing grant."""
        read_query(request, NoQuery)
        wanted = read_body(GrantCreateSerializer, request)
        with named_by("tenant"):
            tenant = tenant_get(self.viewer, wanted["tenant"])
        with named_by("priority_class"):
            found = priority_class_get(wanted["priority_class"])
        grant = priority_grant(acting_user=self.viewer, tenant=tenant, priority_class=found)
        headers = {"Location": f"{request.path}/{grant.pk}"}
        return Response(GrantSerializer(grant).data, status=201, headers=headers)


class PriorityGrantView(PlatformView):
    """One grant."""

    points = {"DELETE": Permission.QUEUE_EDIT}

    @extend_schema(
        operation_id="priority_grant_delete",
        summary="Revoke a priority grant",
        responses={204: None, **problem_responses(400, 404)},
        tags=["priorities"],
    )
    def delete(self, request: Request, grant: uuid.UUID) -> Response:
        """Revoke the grant. Existing jobs keep their priority."""
        read_query(request, NoQuery)
        found = priority_grant_get(viewer=self.viewer, pk=grant)
        priority_revoke(acting_user=self.viewer, grant=found)
        return Response(status=204)
