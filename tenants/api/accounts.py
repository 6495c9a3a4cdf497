"""Accounts of users and groups (for operators), and service accounts (for admins of a tenant)."""

from __future__ import annotations

from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.sql.versions import if_match, version_header
from foundation.web.listing import Column
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView
from tenants.api.requests.place import PlaceView
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import IF_MATCH, problem_responses
from tenants.api.shapes import (
    GroupChangeSerializer,
    GroupCreateSerializer,
    GroupSerializer,
    PasswordResetSerializer,
    PasswordSetSerializer,
    PersonSerializer,
    ServiceAccountCreateSerializer,
    ServiceAccountSerializer,
    UserChangeSerializer,
    UserCreateSerializer,
    UserDetailSerializer,
    UserSerializer,
)
from tenants.api.tenants import body_of
from tenants.models import User
from tenants.selectors.account import (
    GROUP_COLUMNS,
    group_get,
    group_list,
    group_people,
    service_account_get,
    service_account_list,
    user_get,
    user_list,
    user_named,
)
from tenants.selectors.user import COLUMNS, user_overviews
from tenants.services.account import password_set, user_create, user_set_active, user_unlock
from tenants.services.group import group_add, group_create, group_delete, group_remove, group_update
from tenants.services.service_account import service_account_close, service_account_create

_EDIT = Permission.MEMBER_EDIT


class UsersQuery(ListQuery):
    columns: ClassVar = COLUMNS


class UsersView(PlatformView):
    """Accounts of people."""

    points: ClassVar = {"GET": _EDIT, "POST": _EDIT}

    @extend_schema(
        operation_id="user_list",
        summary="Accounts",
        parameters=[UsersQuery],
        responses={200: list_of(UserSerializer), **problem_responses(400)},
        tags=["accounts"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of accounts by name."""
        return list_response(request, UsersQuery, user_list(viewer=self.viewer), UserSerializer)

    @extend_schema(
        operation_id="user_create",
        summary="Create an account",
        request=UserCreateSerializer,
        responses={201: UserSerializer, **problem_responses(400, 409)},
        tags=["accounts"],
    )
    def post(self, request: Request) -> Response:
        """Create an account with a one-time password. The response contains its expiry."""
        read_query(request, NoQuery)
        values = body_of(request, UserCreateSerializer)
        user = user_create(acting_user=self.viewer, must_change_password=True, **values)
        headers = {"Location": f"{request.path}/{user.pk}", **version_header(user)}
        return Response(UserSerializer(user).data, status=201, headers=headers)


class UserView(PlatformView):
    """One account."""

    points: ClassVar = {"GET": _EDIT, "PATCH": _EDIT}

    @extend_schema(
        operation_id="user_get", summary="Get an account",
        responses={200: UserDetailSerializer, **problem_responses(400, 404)},
        tags=["accounts"],
    )  # fmt: skip
    def get(self, request: Request, **kwargs: Any) -> Response:
        """Return the account with its state, roles and groups."""
        read_query(request, NoQuery)
        user = user_get(viewer=self.viewer, user_id=kwargs["user"])
        return Response(UserDetailSerializer(_detail(self.viewer, user)).data, headers=version_header(user))

    @extend_schema(
        operation_id="user_update",
        summary="Disable or enable an account",
        parameters=[IF_MATCH],
        request=UserChangeSerializer,
        responses={200: UserSerializer, **problem_responses(400, 404, 409)},
        tags=["accounts"],
    )
    def patch(self, request: Request, **kwargs: Any) -> Response:
        """Enable or disable sign-in. Disabling ends sessions and revokes keys immediately."""
        read_query(request, NoQuery)
        user = user_get(viewer=self.viewer, user_id=kwargs["user"])
        expected = if_match(request)
        active = body_of(request, UserChangeSerializer)["is_active"]
        user = user_set_active(acting_user=self.viewer, user=user, active=active, expected=expected)
        return Response(UserSerializer(user).data, headers=version_header(user))


class UserUnlockView(PlatformView):
    """The reset of an account's failed sign-ins."""

    points: ClassVar = {"POST": _EDIT}

    @extend_schema(
        operation_id="user_unlock",
        summary="Unlock an account",
        request=None,
        responses={204: None, **problem_responses(404)},
        tags=["accounts"],
    )
    def post(self, request: Request, **kwargs: Any) -> Response:
        """Reset the failed sign-ins of this account."""
        read_query(request, NoQuery)
        user_unlock(acting_user=self.viewer, user=user_get(viewer=self.viewer, user_id=kwargs["user"]))
        return Response(status=204)


class UserPasswordView(PlatformView):
    """A one-time password."""

    points: ClassVar = {"POST": _EDIT}

    @extend_schema(
        operation_id="user_password_set",
        summary="Set a one-time password",
        request=PasswordSetSerializer,
        description=(
            "Ends all sessions of the account and revokes its access keys unless `keep_keys` is "
            "true. The password expires after ALLOTMENT_ONE_TIME_PASSWORD_HOURS hours. Change your "
            "own password at me/password."
        ),
        responses={200: PasswordResetSerializer, **problem_responses(400, 404, 409)},
        tags=["accounts"],
    )
    def post(self, request: Request, **kwargs: Any) -> Response:
        """Set the password; the response has its expiry and the number of revoked keys."""
        read_query(request, NoQuery)
        user = user_get(viewer=self.viewer, user_id=kwargs["user"])
        values = body_of(request, PasswordSetSerializer)
        reset = password_set(acting_user=self.viewer, user=user, **values)
        return Response(PasswordResetSerializer(reset).data)


def _detail(viewer: User, user: User) -> dict[str, Any]:
    """Describe one account for its admin."""
    overview = user_overviews(viewer=viewer, users=[user])[0]
    fields = ("id", "username", "email", "is_active", "is_invited", "must_change_password",
              "password_expires_at", "last_login")  # fmt: skip
    return {
        **{name: getattr(user, name) for name in fields},
        "state": overview.state,
        "identity_providers": overview.providers,
        "access_keys": overview.keys,
        "groups": [group.name for group in overview.groups],
        "roles": [
            {
                "role": role.role_name,
                "tenant": role.tenant,
                "group": role.group.name if role.group else "",
            }
            for role in overview.roles
        ],
    }


class GroupsQuery(ListQuery):
    columns: ClassVar = GROUP_COLUMNS


class GroupsView(PlatformView):
    """Groups of people."""

    points: ClassVar = {"GET": _EDIT, "POST": _EDIT}

    @extend_schema(
        operation_id="group_list",
        summary="Groups",
        parameters=[GroupsQuery],
        responses={200: list_of(GroupSerializer), **problem_responses(400)},
        tags=["accounts"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of groups by name."""
        return list_response(request, GroupsQuery, group_list(viewer=self.viewer), GroupSerializer)

    @extend_schema(
        operation_id="group_create",
        summary="Create a group",
        request=GroupCreateSerializer,
        responses={201: GroupSerializer, **problem_responses(400, 409)},
        tags=["accounts"],
    )
    def post(self, request: Request) -> Response:
        """Create a local or identity provider group."""
        read_query(request, NoQuery)
        group = group_create(acting_user=self.viewer, **body_of(request, GroupCreateSerializer))
        headers = {"Location": f"{request.path}/{group.pk}", **version_header(group)}
        return Response(GroupSerializer(group).data, status=201, headers=headers)


class GroupView(PlatformView):
    """One group."""

    points: ClassVar = {"GET": _EDIT, "PATCH": _EDIT, "DELETE": _EDIT}

    @extend_schema(
        operation_id="group_get", summary="Get a group",
        responses={200: GroupSerializer, **problem_responses(400, 404)},
        tags=["accounts"],
    )  # fmt: skip
    def get(self, request: Request, **kwargs: Any) -> Response:
        """Return the group."""
        read_query(request, NoQuery)
        group = group_get(viewer=self.viewer, group_id=kwargs["group"])
        return Response(GroupSerializer(group).data, headers=version_header(group))

    @extend_schema(
        operation_id="group_update",
        summary="Update a group",
        parameters=[IF_MATCH],
        request=GroupChangeSerializer,
        responses={200: GroupSerializer, **problem_responses(400, 404, 409)},
        tags=["accounts"],
    )
    def patch(self, request: Request, **kwargs: Any) -> Response:
        """Update name or claim."""
        read_query(request, NoQuery)
        group = group_get(viewer=self.viewer, group_id=kwargs["group"])
        expected = if_match(request)
        values = body_of(request, GroupChangeSerializer)
        changed = group_update(acting_user=self.viewer, group=group, expected=expected, **values)
        return Response(GroupSerializer(changed).data, headers=version_header(changed))

    @extend_schema(
        operation_id="group_delete",
        summary="Delete a group",
        parameters=[IF_MATCH],
        responses={204: None, **problem_responses(404, 409)},
        tags=["accounts"],
    )
    def delete(self, request: Request, **kwargs: Any) -> Response:
        """Delete the group and the roles granted through it."""
        read_query(request, NoQuery)
        group = group_get(viewer=self.viewer, group_id=kwargs["group"])
        group_delete(acting_user=self.viewer, group=group, expected=if_match(request))
        return Response(status=204)


class PeopleQuery(ListQuery):
    columns: ClassVar = {"username": Column("username")}


class GroupPeopleView(PlatformView):
    """The people in a group."""

    points: ClassVar = {"GET": _EDIT, "POST": _EDIT}

    @extend_schema(
        operation_id="group_people",
        summary="Members of a group",
        parameters=[PeopleQuery],
        responses={200: list_of(PersonSerializer), **problem_responses(400, 404)},
        tags=["accounts"],
    )
    def get(self, request: Request, **kwargs: Any) -> Response:
        """Return one page of people by name."""
        group = group_get(viewer=self.viewer, group_id=kwargs["group"])
        return list_response(
            request, PeopleQuery, group_people(viewer=self.viewer, group=group), PersonSerializer
        )

    @extend_schema(
        operation_id="group_add",
        summary="Add a member to a group",
        request=PersonSerializer,
        responses={201: PersonSerializer, **problem_responses(400, 404, 409)},
        tags=["accounts"],
    )
    def post(self, request: Request, **kwargs: Any) -> Response:
        """Add a member. Existing members are kept."""
        read_query(request, NoQuery)
        group = group_get(viewer=self.viewer, group_id=kwargs["group"])
        user = user_named(body_of(request, PersonSerializer)["username"], "username")
        group_add(acting_user=self.viewer, group=group, user=user)
        return Response(PersonSerializer(user).data, status=201)


class GroupPersonView(PlatformView):
    """One person in a group."""

    points: ClassVar = {"DELETE": _EDIT}

    @extend_schema(
        operation_id="group_remove",
        summary="Remove a member from a group",
        responses={204: None, **problem_responses(404, 409)},
        tags=["accounts"],
    )
    def delete(self, request: Request, **kwargs: Any) -> Response:
        """Remove the member."""
        read_query(request, NoQuery)
        group = group_get(viewer=self.viewer, group_id=kwargs["group"])
        user = user_get(viewer=self.viewer, user_id=kwargs["user"])
        group_remove(acting_user=self.viewer, group=group, user=user)
        return Response(status=204)


class ServiceAccountsView(PlaceView):
    """Service accounts of a tenant. Their keys are listed with those of the workspace."""

    points: ClassVar = {"GET": _EDIT, "POST": _EDIT}

    @extend_schema(
        operation_id="service_account_list",
        summary="Service accounts",
        parameters=[PeopleQuery],
        responses={200: list_of(ServiceAccountSerializer), **problem_responses(400, 404)},
        tags=["accounts"],
    )
    def get(self, request: Request, **kwargs: Any) -> Response:
        """Return one page of accounts by name."""
        accounts = service_account_list(viewer=self.viewer, tenant=self.tenant)
        return list_response(request, PeopleQuery, accounts, ServiceAccountSerializer)

    @extend_schema(
        operation_id="service_account_create",
        summary="Create a service account",
        request=ServiceAccountCreateSerializer,
        responses={201: ServiceAccountSerializer, **problem_responses(400, 404, 409)},
        tags=["accounts"],
    )
    def post(self, request: Request, **kwargs: Any) -> Response:
        """Create the account. Next, assign a role, then create a key."""
        read_query(request, NoQuery)
        tenant = self.tenant
        name = body_of(request, ServiceAccountCreateSerializer)["name"]
        account = service_account_create(acting_user=self.viewer, tenant=tenant, name=name)
        headers = {"Location": f"{request.path}/{account.username}"}
        return Response(ServiceAccountSerializer(account).data, status=201, headers=headers)


class ServiceAccountView(PlaceView):
    """One service account."""

    points: ClassVar = {"DELETE": _EDIT}

    @extend_schema(
        operation_id="service_account_close",
        summary="Delete a service account",
        responses={204: None, **problem_responses(404)},
        tags=["accounts"],
    )
    def delete(self, request: Request, **kwargs: Any) -> Response:
        """Delete the account with its keys and roles. Its jobs are kept."""
        read_query(request, NoQuery)
        account = service_account_get(viewer=self.viewer, tenant=self.tenant, name=kwargs["account"])
        service_account_close(acting_user=self.viewer, account=account)
        return Response(status=204)
