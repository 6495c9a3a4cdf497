"""Records every denied request, of the API and of the console, in one place.

A request is denied if it has no sign-in or a wrong key (401), no permission (403), or the address of a tenant
that the caller may not see, which answers like a missing one (404). A page's redirect to the sign-in is no
denial. The record is written after the response is made, so the rollback of a change does not remove it.

Repeated denials of a caller are counted by the minute (`allotment.requests.denial_counts`).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import structlog
from django.db import DatabaseError, InterfaceError
from django.http import HttpRequest, HttpResponse

from allotment.requests.denial_counts import Caller, DenialCounts, Repeated
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import RequestOrigin, SystemActor, origin
from foundation.sql import row_scope
from foundation.web.addresses import address_of
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User

log = structlog.get_logger(__name__)
_ALWAYS: Final = frozenset({401, 403})
_NAMES: Final = ("ws", "workspace", "tenant")
_ENTITY_ID_MAX: Final = 64
ANONYMOUS: Final = SystemActor("anonymous")


@dataclass(frozen=True, slots=True)
class _Known:
    """The user of an earlier request, with the fields that the audit log reads."""

    pk: uuid.UUID
    name: str

    def get_username(self) -> str:
        return self.name


class DenialMiddleware:
    """Records denied requests (see the module); runs below the middleware that sets the request id."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        self._counts = DenialCounts()

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        for repeated in self._counts.take_finished_counts(clock.now()):
            _note_repeated(repeated)
        if response.status_code in _ALWAYS or response.status_code == 404 or is_untried(request):
            self._note(request, response)
        return response

    @row_scope.whole()
    def _note(self, request: HttpRequest, response: HttpResponse) -> None:
        user = getattr(request, "user", None)
        actor = user if isinstance(user, User) else None
        tenant = _tenant(request)
        if response.status_code == 404 and (
            tenant is None
            or actor is None
            or permissions.has_permission(actor, Permission.TENANT_VIEW, tenant)
        ):
            return
        caller = Caller(actor.pk, actor.username) if actor else Caller(address=address_of(request))
        if not self._counts.is_recorded(caller, clock.now()):
            return
        match = request.resolver_match
        audit_log.record_denial(
            actor or ANONYMOUS,
            entity="route",
            entity_id=(match.view_name if match else "")[:_ENTITY_ID_MAX],
            tenant_id=tenant.pk if tenant else None,
            attempt={
                "method": request.method,
                "path": request.path[:300],  # without the query, which may hold anything
                "status": response.status_code,
                "code": _code(response),
            },
        )


def is_untried(request: HttpRequest | None) -> bool:
    """Return whether a sign-in was refused by a lock, before the password was checked."""
    locked = getattr(request, "axes_locked_out", False)
    return bool(locked) and getattr(request, "axes_failures_since_start", None) is None


@row_scope.whole()
def _note_repeated(repeated: Repeated) -> None:
    # The record must not carry the origin of the request that happens to be next.
    caller = repeated.caller
    token = origin.set(RequestOrigin(address=caller.address))
    try:
        audit_log.record_denial(
            _Known(caller.user_id, caller.username) if caller.user_id else ANONYMOUS,
            entity="route",
            entity_id="",
            tenant_id=None,
            attempt={"repeated": repeated.number, "minute": repeated.minute.isoformat()},
        )
    except (DatabaseError, InterfaceError) as error:
        # The next request, a probe for instance, must not fail because of it.
        log.warning("denials are not written", address=caller.address, number=repeated.number, why=str(error))
    finally:
        origin.reset(token)


def _code(response: Any) -> str:
    data = getattr(response, "data", None)
    return str(data.get("code", "")) if isinstance(data, dict) else ""


def _tenant(request: HttpRequest) -> Tenant | None:
    """The tenant that the address names, whether or not the caller may see it."""
    values = request.resolver_match.kwargs if request.resolver_match else {}
    for name in _NAMES:
        if name in values and "\x00" not in str(values[name]):
            return _found(str(values[name]))
    return None


def _found(ref: str) -> Tenant | None:
    try:
        return Tenant.unscoped.filter(pk=uuid.UUID(ref)).first()
    except ValueError:
        return Tenant.unscoped.filter(slug=ref).first()
