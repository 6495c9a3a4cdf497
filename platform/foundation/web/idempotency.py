"""Answers a repeated request with the response to its first occurrence.

The row is written in the transaction of the change, so either both exist or neither does: a request that is
refused or fails leaves no row, and may be corrected and sent again under the same key.
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
"""How long a repetition waits for the end of the first request, before it gets a `KeyInUse`."""
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

    Callers have separate keys, so that no caller learns which keys another uses.
    """

    caller: uuid.UUID
    route: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The stored response: its status, the headers to keep, and its body as JSON."""

    status: int
    body: Any
    headers: Mapping[str, str] = field(default_factory=dict)


def content_fingerprint(*parts: Any) -> str:
    """Hash parsed content; layout and the order of keys do not matter."""
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def route_of(method: str, path: str) -> str:
    """Return a hash of method and path: a truncated path would lose the verb at its end."""
    return hashlib.sha256(f"{method} {path}".encode()).hexdigest()


def checked_key(value: str) -> str:
    """Return the caller's key if it is valid. Raises: Invalid."""
    if not 1 <= len(value) <= 255 or not value.isprintable():
        message = _("Idempotency-Key must be 1 to 255 printable characters.")
        errors = [FieldError(_FIELD, "FORMAT", message)]
        raise Invalid(message, code="IDEMPOTENCY_KEY_INVALID", errors=errors)
    return value


def answer_once(request: Repeatable, make: Callable[[], StoredAnswer]) -> tuple[StoredAnswer, bool]:
    """Return the answer to `request` and whether it had been given before.

    `make` carries the request out; it runs at most once per key. Of two at the same moment the second waits
    `WAIT_MS` at most for the first and gets its answer.
    Raises: KeyReused; KeyInUse; any exception of `make`.
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
        if known is None:  # the conflict was about another constraint
            raise
    if known.fingerprint != request.fingerprint:
        message = _("Idempotency-Key was already used for another request.")
        raise KeyReused(message, errors=[FieldError(_FIELD, "REUSED", message)])
    return StoredAnswer(known.status, known.body, known.headers), True


def _claim(request: Repeatable) -> IdempotencyKey:
    """Insert the row of the key; on PostgreSQL this waits for another transaction that inserts the same."""
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
    """Delete answers older than `before`; return their number. Keep them for 24 hours at least."""
    return IdempotencyKey.unscoped.filter(created_at__lt=before).delete()[0]
