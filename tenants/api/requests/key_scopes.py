"""The scopes of access keys, checked for every view of the REST API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from django.utils.translation import gettext as _
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from foundation.core.errors import PermissionDenied
from tenants.access.permissions import Permission
from tenants.models import AccessKey

if TYPE_CHECKING:
    # Views load their default permissions, this one included, while their own module is being imported.
    from rest_framework.views import APIView


def scope_require(request: Request, point: Permission | None) -> None:
    """Refuse a key whose scopes do not include `point`; None is a permission that no scope covers.

    Raises: PermissionDenied with code SCOPE_MISSING.
    """
    key = request.auth
    if not isinstance(key, AccessKey) or not key.scopes:
        return
    if point is None or point.value not in key.scopes:
        raise PermissionDenied(_("The access key doesn't have the required scope."), code="SCOPE_MISSING")


class KeyScopes(BasePermission):
    """The limits of a key with scopes: the view's `points`, and no more.

    A view or method that names no permission is closed to such a key, so that a new one is not open by
    oversight. The services and selectors still decide what the user may do.
    """

    def has_permission(self, request: Request, view: APIView) -> bool:
        points: Mapping[str, Permission] = getattr(view, "points", {})
        if request.method != "OPTIONS":
            scope_require(request, points.get("GET" if request.method == "HEAD" else request.method or ""))
        return True
