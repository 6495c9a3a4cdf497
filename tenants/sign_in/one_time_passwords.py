"""A session that was opened with a one-time password can only choose another password."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from foundation.core.errors import PermissionDenied
from tenants.models import AccessKey, User

if TYPE_CHECKING:
    # Views load their default permissions, this one included, while their own module is being imported.
    from rest_framework.views import APIView


def require_password_chosen(user: object, auth: object) -> None:
    """Check that the session was not opened with a one-time password; access keys are not affected.

    Raises: PermissionDenied with code PASSWORD_CHANGE_REQUIRED.
    """
    if isinstance(user, User) and user.must_change_password and not isinstance(auth, AccessKey):
        raise PermissionDenied(
            _("Change your initial password first: it is valid for one sign-in."),
            code="PASSWORD_CHANGE_REQUIRED",
        )


class PasswordChosen(BasePermission):
    """Closes every view to one-time passwords except those with `open_to_one_time_passwords`."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        if not getattr(view, "open_to_one_time_passwords", False):
            auth: Any = request.auth
            require_password_chosen(request.user, auth)
        return True
