"""Authenticates agents at the API, and parses and counts their requests."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from typing import IO, Any, ClassVar, Final

from django.contrib.auth.models import AnonymousUser
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from foundation.core.bounded_parsing import ParseBounds
from foundation.core.errors import FieldError, Invalid, TooLarge
from foundation.web.parsers import BoundedJsonParser
from foundation.web.rate_limit import RateUsage, counter
from telemetry.models import AgentKey
from telemetry.services.agent_keys import agent_key_check

REPORT_BOUNDS: Final = ParseBounds(size=4 * 2**20, nodes=250_000)


def bearer_token(request: Request) -> str:
    """Return the token of the header `Authorization`; "" without one."""
    parts = get_authorization_header(request).decode("latin-1").split()
    return parts[1] if len(parts) == 2 and parts[0].lower() == "bearer" else ""


class AgentKeyAuthentication(BaseAuthentication):
    """Sign in by the key of a node's agent; there is no user, and `request.auth` is the key."""

    def authenticate(self, request: Request) -> tuple[AnonymousUser, AgentKey]:
        key = agent_key_check(bearer_token(request))
        if key is None:
            raise AuthenticationFailed(gettext_lazy("The agent key is invalid, expired or revoked."))
        return AnonymousUser(), key

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class AgentKeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """Describes node keys in the OpenAPI schema."""

    target_class = "telemetry.api.agent_access.AgentKeyAuthentication"
    name = "agentKey"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "aga_<prefix>_<secret>"}


class HasAgentKey(BasePermission):
    """Permits only requests with the key of an agent."""

    def has_permission(self, request: Request, view: object) -> bool:
        return isinstance(request.auth, AgentKey)


class AgentRate(BaseThrottle):
    """Counts the reports of each node, with any of its keys."""

    usage: RateUsage | None = None

    def allow_request(self, request: Request, view: object) -> bool:
        node = getattr(request.auth, "node_id", "")
        self.usage = counter.count_requests("agent", f"node:{node}", 1)
        request._request.rate_usage = self.usage  # type: ignore[attr-defined]
        return self.usage is None or not self.usage.exceeded

    def wait(self) -> float | None:
        return self.usage.reset_s if self.usage else None


class AgentReportParser(BoundedJsonParser):
    """JSON, compressed with gzip if the request says so; the unpacked size is limited like any body."""

    bounds: ClassVar[ParseBounds] = REPORT_BOUNDS

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the values of the body. Raises: TooLarge, Invalid."""
        request = (parser_context or {}).get("request")
        coding = str(request.META.get("HTTP_CONTENT_ENCODING", "")) if request is not None else ""
        if coding.lower() in ("", "identity"):
            return super().parse(stream, media_type, parser_context)
        packed = stream.read(self.bounds.size + 1)
        if coding.lower() != "gzip":
            raise _unreadable()
        return self.read_body(_unpacked(packed, self.bounds.size))


def _unreadable() -> Invalid:
    message = _("The request body is not readable as gzip.")
    return Invalid(message, code="ENCODING_INVALID", errors=[FieldError("", "ENCODING_INVALID", message)])


def _unpacked(packed: bytes, largest: int) -> bytes:
    """Return the unpacked body. Raises: TooLarge for more than `largest` bytes before or after; Invalid."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        body = unpacker.decompress(packed, largest + 1) if len(packed) <= largest else b""
    except zlib.error as error:
        raise _unreadable() from error
    if len(packed) > largest or len(body) > largest:
        message = _("The request body exceeds %(limit)s KiB.") % {"limit": largest // 1024}
        raise TooLarge(
            message, numbers={"limit_bytes": largest}, errors=[FieldError("", "TOO_LARGE", message)]
        )
    if not unpacker.eof or unpacker.unused_data:
        raise _unreadable()
    return body
