"""The authentication of the REST API: `Authorization: Bearer alt_…`, or the session of the console."""

from __future__ import annotations

from copy import copy
from typing import Any

from django.conf import settings
from django.http import QueryDict
from django.utils.translation import gettext_lazy as _
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import (
    BaseAuthentication,
    SessionAuthentication,
    get_authorization_header,
)
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from tenants.access.grants import bind_to_scopes
from tenants.models import AccessKey, User
from tenants.services.access_key import access_key_check


class AccessKeyAuthentication(BaseAuthentication):
    """Sign in by access key. A wrong key is an error, not an anonymous request.

    The scopes of the key bound what its owner may do, until the end of the request.
    """

    def authenticate(self, request: Request) -> tuple[User, AccessKey] | None:
        parts = get_authorization_header(request).decode("latin-1").split()
        if not parts or parts[0].lower() != "bearer":
            return None
        key = access_key_check(parts[1]) if len(parts) == 2 else None
        if key is None:
            raise AuthenticationFailed(_("The access key is invalid, expired or revoked."))
        bind_to_scopes(key.user_id, key.scopes)
        return key.user, key

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class SessionSignIn(SessionAuthentication):
    """Sign in by session, with a CSRF token in the header as in the console's own calls."""

    def enforce_csrf(self, request: Request) -> None:
        """Check the token of the header on a copy of Django's request that has no form.

        Otherwise both requests would read the body to look for a token in it, before the user is
        authenticated, and a form would leave nothing for the parsers, which refuse it.
        """
        formless: Any = copy(getattr(request, "_request", request))
        formless._post = QueryDict()
        super().enforce_csrf(formless)


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The description of the session for the schema."""

    target_class = "tenants.api.requests.authentication.SessionSignIn"
    name = "cookieAuth"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME}


class AccessKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The description of the access key for the schema."""

    target_class = "tenants.api.requests.authentication.AccessKeyAuthentication"
    name = "accessKey"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "alt_<prefix>_<secret>"}
