"""Identifiers: UUIDv7, so that primary keys sort by creation, and names Kubernetes accepts."""

from __future__ import annotations

import re
import uuid
from datetime import datetime
from typing import Final

import uuid6

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NOT_ALLOWED: Final = re.compile(r"[^a-z0-9]+")


def new_id() -> uuid.UUID:
    """Return a fresh UUIDv7."""
    return uuid.UUID(int=uuid6.uuid7().int)


def first_id_at(at: datetime) -> uuid.UUID:
    """Return the lowest key that a row created at that time can have; keys of earlier rows are below it."""
    return uuid.UUID(int=int(at.timestamp() * 1000) << 80)


def is_dns_label(text: str) -> bool:
    """Return whether `text` may name a pod, a namespace or a job."""
    return _DNS_LABEL.fullmatch(text) is not None


def dns_label(text: str, limit: int = 63) -> str:
    """Turn any text into a valid DNS label of at most `limit` characters; empty input gives `x`."""
    label = _NOT_ALLOWED.sub("-", text.lower()).strip("-")[:limit].strip("-")
    return label or "x"
