"""Heads of the audit chain, stored outside the database.

A chain cannot show that its end was cut off together with its records. So the process that seals records
stores the head, about once a minute, in a file (`ALLOTMENT_AUDIT_HEADS`) and in the log. A head in the file
that the chain no longer has means that records were removed, or that an older database was restored. Sealing
continues then, but no later head is stored until an operator accepts the chain as it is (`allotment
audit-verify --accept`), so that the alarm lasts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import structlog
from django.conf import settings

from foundation.core import clock
from foundation.models import AuditSeal

log = structlog.get_logger(__name__)
EVERY: Final = timedelta(minutes=1)
_HEAD: Final = re.compile(r"(?<![0-9a-f])(\d{1,18}):([0-9a-f]{64})(?![0-9a-f])")
_TAIL_BYTES: Final = 4096
"""The last lines of the file are within this many bytes of its end."""


@dataclass(frozen=True, slots=True)
class Head:
    """A seal of the chain by its number and hash."""

    number: int
    hash: str

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"


def current_head() -> Head | None:
    """Return the last seal in the database."""
    last = AuditSeal.unscoped.order_by("-number").first()
    return Head(last.number, last.hash) if last else None


def noted_head() -> Head | None:
    """Return the last stored head; None if this process has no file of heads. Raises: OSError."""
    try:
        with heads_file().open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _TAIL_BYTES))
            found = list(read_heads(file.read().decode("ascii", "replace")))
    except FileNotFoundError:
        return None
    return found[-1] if found else None


def read_heads(text: str) -> Iterator[Head]:
    """Yield every `NUMBER:HASH` in a text, such as a log."""
    for number, seal in _HEAD.findall(text):
        yield Head(int(number), seal)


def is_in_chain(head: Head) -> bool:
    """Return whether the database still has this seal."""
    return AuditSeal.unscoped.filter(number=head.number, hash=head.hash).exists()


def heads_file() -> Path:
    """Return the path of the file of heads, which no account with database access may be able to write."""
    return Path(settings.ALLOTMENT_AUDIT_HEADS)


def note_head() -> Head | None:
    """Append the current head if the last one is older than `EVERY`; return the appended head.

    No head is appended while the chain lacks the last stored head: that is logged as an error each time.
    """
    head, before = current_head(), noted_head()
    if before is not None and not is_in_chain(before):
        log.error("the audit chain lacks a head that was noted", noted=str(before), head=str(head or ""))
        return None
    if head is None or head == before or (before is not None and clock.now() - _noted_at() < EVERY):
        return None
    accept_head(head)
    return head


def accept_head(head: Head) -> None:
    """Append a head to the file and write it to the log. Raises: OSError."""
    file = heads_file()
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with file.open("a", encoding="ascii") as out:
        out.write(f"{clock.now().isoformat(timespec='seconds')} {head}\n")
    log.info("audit head", head=str(head))


def _noted_at() -> datetime:
    modified = heads_file().stat().st_mtime
    return datetime.fromtimestamp(modified, tz=clock.now().tzinfo)
