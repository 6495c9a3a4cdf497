"""Answering a repeated request as it was answered the first time.

The row is written in the transaction of the change, so either both exist or neither does: a request that
is refused or fails leaves nothing behind, and may be corrected and sent again under the same key.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import IntegrityError, OperationalError, connection, transaction
from django.utils.translation import gettext as _

from foundation.core.errors import Conflict, FieldError, Invalid, Refused
from foundation.models import IdempotencyKey

RETENTION: Final = timedelta(hours=48)
WAIT_MS: Final = 2000
"""How long a repetition waits for the first to be done, before it is told that it still runs."""
_LOCK_NOT_AVAILABLE: Final = "55P03"
_FIELD: Final = "Idempotency-Key"


class KeyReused(Refused):
    """The key belongs to another request."""

    code = "IDEMPOTENCY_KEY_REUSED"


class KeyInUse(Conflict):
    """The first request with this key is still running."""

    code = "IDEMPOTENCY_KEY_IN_USE"


@dataclass(frozen=True, slots=True)
class Repeatable:
    """The identity of a request: the caller, the route, the caller's key and the hash of its content.

    Keys of different callers never meet, so that nobody learns which ones another uses.
    """

    caller: uuid.UUID
    route: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The stored response: status, headers worth keeping, and the body as JSON can hold it."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


def content_fingerprint(*parts: Any) -> str:
    """Hash parsed content; layout and the order of keys do not matter."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def route_of(method: str, path: str) -> str:
    """Hash method and path: of a path that was cut off, the verb at its end would be lost."""
    return hashlib.sha256(f"{method} {path}".encode()).hexdigest()


def checked_key(value: str) -> str:
    """The caller's key. Raises: Invalid."""
    if not 1 <= len(value) <= 255 or not value.isprintable():
        message = _("Idempotency-Key must be 1 to 255 printable characters.")
        errors = [FieldError(_FIELD, "FORMAT", message)]
        raise Invalid(message, code="IDEMPOTENCY_KEY_INVALID", errors=errors)
    return value


def answer_once(request: Repeatable, make: Callable[[], StoredAnswer]) -> tuple[StoredAnswer, bool]:
    """Return the answer to `request` and whether it had been given before.

    `make` carries the request out; it runs at most once per key. Of two at the same moment the second
    waits for the first and gets its answer, but not for ever.
    Raises: KeyReused; KeyInUse; whatever `make` raises.
    """
    try:
        with transaction.atomic():
            row = _claim(request)
            answer = make()
            row.status, row.body, row.headers = answer.status, answer.body, dict(answer.headers)
            row.save(update_fields=["status", "body", "headers"])
            return answer, False
    except IntegrityError:
        known = _known(request)
        if known is None:  # it was something else that collided
            raise
    if known.fingerprint != request.fingerprint:
        message = _("Idempotency-Key was already used for another request.")
        raise KeyReused(message, errors=[FieldError(_FIELD, "REUSED", message)])
    return StoredAnswer(known.status, known.body, known.headers), True


def _claim(request: Repeatable) -> IdempotencyKey:
    """Insert the row of the key; on PostgreSQL this waits for whoever is inserting the same one."""
    row = IdempotencyKey(
        scope=request.caller, route=request.route, key=request.key, fingerprint=request.fingerprint
    )
    if connection.vendor != "postgresql":
        row.save(force_insert=True)
        return row
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('lock_timeout')")
        before = cursor.fetchone()[0]
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [str(WAIT_MS)])
        try:
            row.save(force_insert=True)
        except OperationalError as error:
            if getattr(error.__cause__, "sqlstate", "") != _LOCK_NOT_AVAILABLE:
                raise
            message = _("A request with this Idempotency-Key is in progress. Try again later.")
            raise KeyInUse(message, errors=[FieldError(_FIELD, "IN_USE", message)]) from error
        cursor.execute("SELECT set_config('lock_timeout', %s, true)", [before])
    return row


def _known(request: Repeatable) -> IdempotencyKey | None:
    rows = IdempotencyKey.unscoped.filter(scope=request.caller, route=request.route, key=request.key)
    return rows.first()


def idempotency_prune(*, before: datetime) -> int:
    """Forget answers older than `before`; returns how many. Keep them for 24 hours at least."""
    return IdempotencyKey.unscoped.filter(created_at__lt=before).delete()[0]
