"""The base of streaming responses: they ignore `Accept`, proxies must not buffer them, and the reader of a
long stream is authenticated again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from importlib import import_module
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest, StreamingHttpResponse
from django.utils.translation import gettext as _
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request

from foundation.core import clock
from foundation.core.errors import PermissionDenied
from foundation.sql import row_scope
from tenants.access.grants import bind_to_scopes
from tenants.models import AccessKey, User
from tenants.sign_in.one_time_passwords import require_password_chosen


class AnyAccept(BaseContentNegotiation):
    """A content negotiation that accepts any `Accept`; errors are JSON whatever was requested."""

    def select_parser(self, request: Request, parsers: Iterable[BaseParser]) -> BaseParser | None:
        return next(iter(parsers), None)

    def select_renderer(
        self, request: Request, renderers: Iterable[BaseRenderer], format_suffix: str | None = None
    ) -> tuple[BaseRenderer, str]:
        renderer = next(iter(renderers))
        return renderer, renderer.media_type


def streaming_response(
    content: AsyncIterator[str], content_type: str, **headers: str
) -> StreamingHttpResponse:
    """Return a response that sends each piece at once; `_` in the names of headers becomes a hyphen."""
    response = StreamingHttpResponse(content, content_type=content_type)
    response["X-Accel-Buffering"] = "no"
    response["Cache-Control"] = "no-store"
    for name, value in headers.items():
        response[name.replace("_", "-")] = value
    return response


@row_scope.whole()
def session_user_still(request: HttpRequest) -> User:
    """Return the user of a console request, read again. Raises: PermissionDenied."""
    user = _by_session(request)
    if user is None or not user.is_active:
        raise PermissionDenied(_("Your access has been removed."), code="ACCESS_LOST")
    return user


@row_scope.whole()
def signed_in_still(request: Request) -> User:
    """Return the user of this request, read again, while the key or session is still valid.

    In the context of the caller the scopes of the key bound what its owner may do. Raises: PermissionDenied
    with code ACCESS_LOST or PASSWORD_CHANGE_REQUIRED.
    """
    user = _by_key(request.auth) if isinstance(request.auth, AccessKey) else _by_session(request)
    if user is None or not user.is_active:
        raise PermissionDenied(_("Your access has been removed."), code="ACCESS_LOST")
    require_password_chosen(user, request.auth)
    return user


def _by_key(known: AccessKey) -> User | None:
    key = AccessKey.unscoped.select_related("user").filter(pk=known.pk, revoked_at__isnull=True).first()
    if key is None or (key.expires_at is not None and key.expires_at <= clock.now()):
        return None
    bind_to_scopes(key.user_id, key.scopes)
    return key.user


def _by_session(request: Request | HttpRequest) -> User | None:
    """Return the user of the session as stored now; None after sign-out or a change of password."""
    session_key = getattr(getattr(request, "session", None), "session_key", None)
    if session_key is None:
        return None
    fresh: Any = HttpRequest()
    fresh.session = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    user = get_user(fresh)
    return user if isinstance(user, User) else None
