"""Limits of users in a workspace."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core.quantities import Resource
from foundation.sql.versions import if_match
from foundation.web.listing import Column, ColumnKind
from quotas.selectors.tenants.user_limit import user_limit_get, user_limit_list
from quotas.services.quota_plan import AMOUNT_MAX
from quotas.services.user_limit import user_limit_change, user_limit_create, user_limit_delete
from tenants.access.permissions import Permission
from tenants.api.requests.base import WorkspaceView
from tenants.api.requests.bodies import StrictSerializer, answer_row, read_body
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import IF_MATCH, problem_responses

_RESOURCES = [resource.value for resource in Resource]


class UserLimitSerializer(serializers.Serializer[Any]):
    """Maximum resources that a user's jobs can use at a time, in the resource's unit."""

    id = serializers.UUIDField()
    version = serializers.IntegerField(help_text="Version; equals the ETag.")
    user = serializers.CharField(
        source="user.username",
        default=None,
        allow_null=True,
        help_text="null: users without their own limit.",
    )
    resource = serializers.ChoiceField(choices=_RESOURCES)
    amount = serializers.IntegerField(allow_null=True, help_text="null: unlimited.")


class UserLimitChangeSerializer(StrictSerializer):
    amount = serializers.IntegerField(
        allow_null=True,
        min_value=0,
        max_value=AMOUNT_MAX,
        help_text="null: unlimited, for a single user only.",
    )


class UserLimitCreateSerializer(UserLimitChangeSerializer):
    user = serializers.CharField(
        required=False, allow_null=True, default=None, max_length=150, help_text="null: all users."
    )
    resource = serializers.ChoiceField(choices=_RESOURCES)


class UserLimitsQuery(ListQuery):
    columns: ClassVar = {
        "user": Column("user.username"),
        "resource": Column("resource"),
        "amount": Column("amount", ColumnKind.NUMBER),
    }


class UserLimitsView(WorkspaceView):
    """Limits of a workspace's users."""

    points = {"GET": Permission.QUOTA_VIEW, "POST": Permission.QUOTA_EDIT}

    @extend_schema(
        operation_id="user_limit_list",
        summary="User limits of a workspace, those for all users first",
        parameters=[UserLimitsQuery],
        responses={200: list_of(UserLimitSerializer), **problem_responses(400, 404)},
        tags=["user-limits"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Return one page of limits."""
        rows = user_limit_list(self.viewer, self.workspace)
        return list_response(request, UserLimitsQuery, rows, UserLimitSerializer)

    @extend_schema(
        operation_id="user_limit_create",
        summary="Create a user limit",
        description=(
            "A user's own limit overrides the limit for all users. Jobs above the limit stay pending."
        ),
        request=UserLimitCreateSerializer,
        responses={201: UserLimitSerializer, **problem_responses(400, 404, 409)},
        tags=["user-limits"],
    )
    def post(self, request: Request, ws: str) -> Response:
        """Set the limit; jobs that already use more continue."""
        read_query(request, NoQuery)
        workspace = self.workspace
        values = read_body(UserLimitCreateSerializer, request)
        made = user_limit_create(
            acting_user=self.viewer,
            workspace=workspace,
            username=values["user"] or "",
            resource=Resource(values["resource"]),
            amount=values["amount"],
        )
        return answer_row(UserLimitSerializer, made, location=f"{request.path}/{made.pk}")


class UserLimitView(WorkspaceView):
    """One limit."""

    points = {
        "GET": Permission.QUOTA_VIEW,
        "PATCH": Permission.QUOTA_EDIT,
        "DELETE": Permission.QUOTA_EDIT,
    }

    @extend_schema(
        operation_id="user_limit_get",
        summary="Get a user limit",
        responses={200: UserLimitSerializer, **problem_responses(400, 404)},
        tags=["user-limits"],
    )
    def get(self, request: Request, ws: str, limit: uuid.UUID) -> Response:
        """Return the limit."""
        read_query(request, NoQuery)
        return answer_row(UserLimitSerializer, user_limit_get(self.viewer, self.workspace, limit))

    @extend_schema(
        operation_id="user_limit_change",
        summary="Update a user limit",
        parameters=[IF_MATCH],
        request=UserLimitChangeSerializer,
        responses={200: UserLimitSerializer, **problem_responses(400, 404)},
        tags=["user-limits"],
    )
    def patch(self, request: Request, ws: str, limit: uuid.UUID) -> Response:
        """Update the limit. Running jobs aren't affected; new jobs start when they fit."""
        read_query(request, NoQuery)
        found = user_limit_get(self.viewer, self.workspace, limit)
        expected = if_match(request)
        body = read_body(UserLimitChangeSerializer, request)
        amount = body["amount"]
        changed = user_limit_change(acting_user=self.viewer, limit=found, amount=amount, version=expected)
        return answer_row(UserLimitSerializer, changed)

    @extend_schema(
        operation_id="user_limit_delete",
        summary="Delete a user limit",
        parameters=[IF_MATCH],
        responses={204: None, **problem_responses(400, 404)},
        tags=["user-limits"],
    )
    def delete(self, request: Request, ws: str, limit: uuid.UUID) -> Response:
        """Delete the limit. Blocked jobs can start."""
        read_query(request, NoQuery)
        found = user_limit_get(self.viewer, self.workspace, limit)
        user_limit_delete(acting_user=self.viewer, limit=found, version=if_match(request))
        return Response(status=204)
