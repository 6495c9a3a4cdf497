"""Invitations of users, and the end of an account's sessions and keys."""

from __future__ import annotations

from typing import Any, ClassVar

from django.conf import settings
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.sql.versions import version_header
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView
from tenants.api.requests.query import NoQuery, read_query
from tenants.api.responses.schema import problem_responses
from tenants.api.shapes import (
    AccessEndedSerializer,
    AccessEndSerializer,
    InvitationCreateSerializer,
    InvitationSerializer,
)
from tenants.api.tenants import body_of
from tenants.selectors.account import user_get
from tenants.services.account import user_end_access
from tenants.services.invitation import invitation_renew, user_invite

_EDIT = Permission.MEMBER_EDIT


def console_address(request: Request) -> str:
    """Return the address of the console for links in emails and other outside texts."""
    return settings.ALLOTMENT_URL.rstrip("/") or request.build_absolute_uri("/").rstrip("/")


class InvitationsView(PlatformView):
    """Accounts without a password yet."""

    points: ClassVar = {"POST": _EDIT}
    secret_fields = ("path",)

    @extend_schema(
        operation_id="user_invite",
        summary="Invite a user",
        request=InvitationCreateSerializer,
        description=(
            "Creates an account without a password. The page at `path` sets the first password, once and "
            "within ALLOTMENT_ONE_TIME_PASSWORD_HOURS hours. With an email address and "
            "ALLOTMENT_SMTP_URL the link is sent too."
        ),
        responses={201: InvitationSerializer, **problem_responses(400, 409)},
        tags=["accounts"],
    )
    def post(self, request: Request) -> Response:
        """Invite a user. The response contains the link's path, once."""
        read_query(request, NoQuery)
        values = body_of(request, InvitationCreateSerializer)
        made = user_invite(acting_user=self.viewer, address=console_address(request), **values)
        headers = {"Location": f"/api/v1/admin/users/{made.user.pk}", **version_header(made.user)}
        return Response(InvitationSerializer(made).data, status=201, headers=headers)


class UserInvitationView(PlatformView):
    """The invitation of one account."""

    points: ClassVar = {"POST": _EDIT}
    secret_fields = ("path",)

    @extend_schema(
        operation_id="user_invitation_renew",
        summary="Renew an invitation",
        request=None,
        responses={200: InvitationSerializer, **problem_responses(404, 409)},
        tags=["accounts"],
    )
    def post(self, request: Request, **kwargs: Any) -> Response:
        """Create a new link for an account without a password. The earlier link becomes invalid."""
        read_query(request, NoQuery)
        user = user_get(viewer=self.viewer, user_id=kwargs["user"])
        made = invitation_renew(acting_user=self.viewer, user=user, address=console_address(request))
        return Response(InvitationSerializer(made).data)


class UserEndAccessView(PlatformView):
    """The sessions and keys of an account."""

    points: ClassVar = {"POST": _EDIT}

    @extend_schema(
        operation_id="user_end_access",
        summary="End sessions and revoke keys",
        request=AccessEndSerializer,
        responses={200: AccessEndedSerializer, **problem_responses(400, 404, 409)},
        tags=["accounts"],
    )
    def post(self, request: Request, **kwargs: Any) -> Response:
        """End the account's sessions, revoke its access keys, or both. The password is kept."""
        read_query(request, NoQuery)
        user = user_get(viewer=self.viewer, user_id=kwargs["user"])
        ended = user_end_access(acting_user=self.viewer, user=user, **body_of(request, AccessEndSerializer))
        return Response(AccessEndedSerializer(ended).data)
