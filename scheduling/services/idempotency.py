"""Answering a repeated request as it was answered the first time.

The row is written in the transaction of the change, so either both exist or neither does; a request
that is refused leaves nothing behind and may be corrected under the same key.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from foundation.errors import Refused
from scheduling.models import IdempotencyKey
from tenants.models import Tenant

KEPT: Final = timedelta(hours=48)


class KeyReused(Refused):
    """The key belongs to another request."""

    code = "IDEMPOTENCY_KEY_REUSED"


@dataclass(frozen=True, slots=True)
class Repeatable:
    """What identifies a request: its route, the caller's key and the hash of its body."""

    route: str
    key: str
    fingerprint: str


def fingerprint(body: Any) -> str:
    """Hash a parsed body; layout and the order of keys do not matter."""
    text = json.dumps(body, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def answer_once(
    *, workspace: Tenant, request: Repeatable, make: Callable[[], dict[str, Any]]
) -> tuple[dict[str, Any], bool]:
    """Return the answer to `request` and whether it had been given before.

    `make` carries the request out and returns its answer as JSON; it runs at most once per key. Of two
    at the same moment the second waits for the first, and gets its answer.
    Raises: KeyReused; whatever `make` raises.
    """
    try:
        with transaction.atomic():
            row = IdempotencyKey.unscoped.create(
                workspace=workspace, route=request.route, key=request.key, fingerprint=request.fingerprint
            )
            row.answer = make()
            row.save(update_fields=["answer"])
            return row.answer, False
    except IntegrityError:
        known = IdempotencyKey.unscoped.filter(
            workspace=workspace, route=request.route, key=request.key
        ).first()
        if known is None:  # it was something else that collided
            raise
    if known.fingerprint != request.fingerprint:
        raise KeyReused(_("This Idempotency-Key was used for another request."))
    return known.answer, True


def idempotency_prune(*, before: datetime) -> int:
    """Forget answers older than `before`; returns how many. Keep them for 24 hours at least."""
    return IdempotencyKey.unscoped.filter(created_at__lt=before).delete()[0]
