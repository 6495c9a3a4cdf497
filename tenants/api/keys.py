"""Access keys: the user's own, and those of a workspace's service accounts.

Keys with scopes can't use these views: they could create keys with more permissions.
"""

from __future__ import annotations

from typing import Any, ClassVar

from django.contrib.auth import update_session_auth_hash
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework.authentication import SessionAuthentication
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core.errors import PermissionDenied
from tenants.api.requests.base import PlatformView, WorkspaceView
from tenants.api.requests.bodies import named_by
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import problem_responses
from tenants.api.serializers import (
    AccessKeyCreatedSerializer,
    AccessKeyCreateSerializer,
    AccessKeySerializer,
    WorkspaceKeyCreateSerializer,
)
from tenants.api.shapes import KeyRotateSerializer, PasswordChangeSerializer
from tenants.api.tenants import body_of
from tenants.models import AccessKey, Tenant, User
from tenants.selectors.access_key import KEY_COLUMNS, access_key_get, access_key_list
from tenants.selectors.account import service_account_get
from tenants.services.access_key import access_key_create, access_key_revoke, access_key_rotate
from tenants.services.account import password_change
from tenants.services.password_attempt import counted_attempt


class AccessKeysQuery(ListQuery):
    columns: ClassVar = KEY_COLUMNS


_LIST = list_of(AccessKeySerializer)


def _make(viewer: User, owner: User, values: dict[str, Any]) -> tuple[AccessKey, str]:
    return access_key_create(
        acting_user=viewer,
        user=owner,
        name=values["name"],
        scopes=tuple(values["scopes"]),
        expires_at=values["expires_at"],
    )


def _created(path: str, key: AccessKey, token: str) -> Response:
    body = {**AccessKeySerializer(key).data, "token": token}
    return Response(body, status=201, headers={"Location": f"{path}/{key.prefix}"})


class AccessKeysView(WorkspaceView):
    """The keys for a workspace: the user's own, and those of service accounts that the user manages."""

    secret_fields = ("token",)

    @extend_schema(
        operation_id="key_list",
        summary="Your access keys and those of the workspace's service accounts",
        parameters=[AccessKeysQuery],
        responses={200: _LIST, **problem_responses(400, 404)},
        tags=["keys"],
    )
    def get(self, request: Request, ws: str) -> Response:
        """Return one page of keys, newest first."""
        rows = access_key_list(viewer=self.viewer, tenant=self.workspace)
        return list_response(request, AccessKeysQuery, rows, AccessKeySerializer)

    @extend_schema(
        operation_id="key_create",
        summary="Create an access key",
        request=WorkspaceKeyCreateSerializer,
        responses={201: AccessKeyCreatedSerializer, **problem_responses(400, 404, 415)},
        tags=["keys"],
    )
    def post(self, request: Request, ws: str) -> Response:
        """Create a key of your own or of a service account. The token is only in this response."""
        read_query(request, NoQuery)
        workspace = self.workspace
        values = body_of(request, WorkspaceKeyCreateSerializer)
        name = values.get("service_account")
        with named_by("service_account"):
            owner = (
                service_account_get(viewer=self.viewer, tenant=workspace, name=name) if name else self.viewer
            )
        return _created(request.path, *_make(self.viewer, owner, values))


class AccessKeyView(WorkspaceView):
    """One access key."""

    @extend_schema(
        operation_id="key_revoke",
        summary="Revoke an access key",
        responses={204: None, **problem_responses(400, 404)},
        tags=["keys"],
    )
    def delete(self, request: Request, ws: str, prefix: str) -> Response:
        """Revoke the key immediately."""
        read_query(request, NoQuery)
        return _revoke(self.viewer, prefix, self.workspace)


class AccessKeyRotateView(WorkspaceView):
    """The rotation of a key."""

    secret_fields = ("token",)

    @extend_schema(
        operation_id="key_rotate",
        summary="Rotate an access key",
        request=KeyRotateSerializer,
        responses={201: AccessKeyCreatedSerializer, **problem_responses(400, 404, 409)},
        tags=["keys"],
    )
    def post(self, request: Request, ws: str, prefix: str) -> Response:
        """Create a new key. The old key stays valid for `grace_s` seconds."""
        read_query(request, NoQuery)
        return _rotate(request, self.viewer, prefix, self.workspace)


class MyKeysView(PlatformView):
    """The user's own keys for all workspaces."""

    secret_fields = ("token",)

    @extend_schema(
        operation_id="my_key_list",
        summary="Your access keys",
        parameters=[AccessKeysQuery],
        responses={200: _LIST, **problem_responses(400)},
        tags=["me"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of keys, newest first."""
        return list_response(
            request, AccessKeysQuery, access_key_list(viewer=self.viewer), AccessKeySerializer
        )

    @extend_schema(
        operation_id="my_key_create",
        summary="Create your own access key",
        request=AccessKeyCreateSerializer,
        responses={201: AccessKeyCreatedSerializer, **problem_responses(400)},
        tags=["me"],
    )
    def post(self, request: Request) -> Response:
        """Create a key. The token is only in this response."""
        read_query(request, NoQuery)
        values = body_of(request, AccessKeyCreateSerializer)
        return _created(request.path, *_make(self.viewer, self.viewer, values))


class MyKeyView(PlatformView):
    """One of the user's own keys."""

    @extend_schema(
        operation_id="my_key_revoke",
        summary="Revoke your own access key",
        responses={204: None, **problem_responses(404)},
        tags=["me"],
    )
    def delete(self, request: Request, prefix: str) -> Response:
        """Revoke the key immediately."""
        read_query(request, NoQuery)
        return _revoke(self.viewer, prefix, None)


class MyKeyRotateView(PlatformView):
    """The rotation of one of the user's own keys."""

    secret_fields = ("token",)

    @extend_schema(
        operation_id="my_key_rotate",
        summary="Rotate your own access key",
        request=KeyRotateSerializer,
        responses={201: AccessKeyCreatedSerializer, **problem_responses(400, 404, 409)},
        tags=["me"],
    )
    def post(self, request: Request, prefix: str) -> Response:
        """Create a new key. The old key stays valid for `grace_s` seconds."""
        read_query(request, NoQuery)
        return _rotate(request, self.viewer, prefix, None)


class MyPasswordView(PlatformView):
    """The user's own password. Only a session may change it, so that a stolen key can't take over the
    account.
    """

    open_to_one_time_passwords = True

    @extend_schema(
        operation_id="my_password_change",
        summary="Change your password",
        description=(
            "Ends all your other sessions. Wrong current passwords count as failed sign-ins. Not "
            "available to access keys."
        ),
        request=PasswordChangeSerializer,
        responses={204: None, **problem_responses(400)},
        tags=["me"],
    )
    def post(self, request: Request) -> Response:
        """Change the password; the old one is required."""
        read_query(request, NoQuery)
        if isinstance(request.auth, AccessKey):
            raise PermissionDenied(_("Sign in to change your password."), code="SESSION_REQUIRED")
        values = body_of(request, PasswordChangeSerializer)
        user = self.viewer
        with counted_attempt(request._request, user):
            password_change(acting_user=user, old_password=values["old"], new_password=values["new"])
        if isinstance(request.successful_authenticator, SessionAuthentication):
            update_session_auth_hash(request._request, user)
        return Response(status=204)


def _revoke(viewer: User, prefix: str, workspace: Tenant | None) -> Response:
    key = access_key_get(viewer=viewer, prefix=prefix, tenant=workspace)
    access_key_revoke(acting_user=viewer, key=key)
    return Response(status=204)


def _rotate(request: Request, viewer: User, prefix: str, workspace: Tenant | None) -> Response:
    key = access_key_get(viewer=viewer, prefix=prefix, tenant=workspace)
    grace_s = body_of(request, KeyRotateSerializer)["grace_s"]
    made, token = access_key_rotate(acting_user=viewer, key=key, grace_s=grace_s)
    return _created(request.path.removesuffix(f"/{prefix}/rotate"), made, token)
