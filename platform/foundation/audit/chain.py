"""A chain of keyed hashes over the audit log, which shows records that are changed, removed or inserted
later.

A record is written in the transaction of its change, which does not touch the chain: a single head that all
writers locked would serialize them, and could deadlock with the cell's lock. Instead a sweep, one at a time,
links newly committed records into the chain, in the order in which it finds them. Each seal hashes the seal
before it, its own number and the whole record, with a key that is not in the database (HMAC-SHA-256, RFC
2104): write access to the database alone is not enough to recompute the chain. Records are sealed within
seconds.

If the end of the chain was cut off together with its records, only a head stored elsewhere shows it: see
`foundation.audit.chain_heads`.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef

from foundation.models import AuditRecord, AuditSeal
from foundation.sql.postgres import transactions_in_turn

_LOCK: Final = 0x616C6C6F
"""The key of the advisory lock that sealers take, one at a time."""
_LATEST: Final = timedelta(hours=1)
"""No transaction lasts longer, so records older than this before the last seal have been sealed."""
_CHUNK: Final = 500


@dataclass(frozen=True, slots=True)
class Break:
    """The first place where the chain is broken.

    `why` is MISSING_SEAL, MISSING_RECORD, CHANGED, or UNKNOWN_KEY: keyed with a secret that is not configured
    here, because it was rotated or the seal is forged.
    """

    number: int
    record_id: str
    why: str


@dataclass(frozen=True, slots=True)
class ChainVerdict:
    """The number of valid seals, the first invalid one, the last valid one, and the number of unsealed
    records.
    """

    sealed: int
    broken: Break | None
    head: str
    unsealed: int


def signing_keys() -> dict[str, bytes]:
    """Return the configured keys by id, the sealing one first."""
    found = (secret.encode() for secret in settings.ALLOTMENT_AUDIT_KEYS)
    return {hashlib.sha256(b"audit key id" + key).hexdigest()[:8]: key for key in found}


def seal_digest(key: bytes, before: str, number: int, record: AuditRecord) -> str:
    """Return the hex hash of one seal over the seal before it, its number and the record."""
    text = json.dumps([before, number, _content(record)], sort_keys=True, separators=(",", ":")).encode()
    return hmac.new(key, text, hashlib.sha256).hexdigest()


def _content(record: AuditRecord) -> dict[str, Any]:
    fields = {field.attname: getattr(record, field.attname) for field in AuditRecord._meta.concrete_fields}
    at = record.created_at.astimezone(UTC).isoformat(timespec="microseconds")
    structured = {"before", "after"}
    plain = {
        name: value if name in structured or value is None else str(value) for name, value in fields.items()
    }
    return plain | {"created_at": at}


@transaction.atomic
def seal_records(limit: int = 5000) -> int:
    """Link at most `limit` committed records into the chain; return how many. Safe to repeat at any time."""
    transactions_in_turn(_LOCK)
    last = find_last_seal()
    number, before = (last.number, last.hash) if last else (0, "")
    seals: list[AuditSeal] = []
    key_id, key = next(iter(signing_keys().items()))
    for record in _unsealed(last)[:limit]:
        number += 1
        before = seal_digest(key, before, number, record)
        seals.append(AuditSeal(number=number, record_id=record.pk, hash=before, key_id=key_id))
    AuditSeal.unscoped.bulk_create(seals, batch_size=_CHUNK)
    return len(seals)


def find_last_seal() -> AuditSeal | None:
    """Return the newest seal of the chain, None before the first record is sealed."""
    return AuditSeal.unscoped.order_by("-number").first()


def _unsealed(last: AuditSeal | None) -> Any:
    sealed = AuditSeal.unscoped.filter(record_id=OuterRef("pk"))
    records = AuditRecord.unscoped.filter(~Exists(sealed)).order_by("created_at", "pk")
    newest = AuditRecord.unscoped.filter(pk=last.record_id).first() if last else None
    return records.filter(created_at__gte=newest.created_at - _LATEST) if newest else records


def verify_chain(expect: tuple[int, str] | None = None) -> ChainVerdict:
    """Check the chain from its beginning; `expect` is a seal stored elsewhere, as (number, hash)."""
    number, before, known = 0, "", signing_keys()
    for seals in _chunks():
        records = AuditRecord.unscoped.in_bulk([row.record_id for row in seals])
        for row in seals:
            why = _fault(row, number + 1, before, records.get(row.record_id), known.get(row.key_id))
            if not why and expect is not None and row.number == expect[0] and row.hash != expect[1]:
                why = "CHANGED"
            if why:
                at = number + 1 if why == "MISSING_SEAL" else row.number
                record_id = "" if why == "MISSING_SEAL" else str(row.record_id)
                return ChainVerdict(number, Break(at, record_id, why), f"{number}:{before}", _waiting())
            number, before = row.number, row.hash
    cut_off = expect is not None and number < expect[0]
    broken = Break(number + 1, "", "MISSING_SEAL") if cut_off else None
    return ChainVerdict(number, broken, f"{number}:{before}", _waiting())


def _fault(row: AuditSeal, number: int, before: str, record: AuditRecord | None, key: bytes | None) -> str:
    if row.number != number:
        return "MISSING_SEAL"
    if record is None:
        return "MISSING_RECORD"
    if key is None:
        return "UNKNOWN_KEY"
    return "" if hmac.compare_digest(seal_digest(key, before, number, record), row.hash) else "CHANGED"


def _chunks() -> Iterator[Sequence[AuditSeal]]:
    after = 0
    while seals := list(AuditSeal.unscoped.filter(number__gt=after).order_by("number")[:_CHUNK]):
        yield seals
        after = seals[-1].number


def _waiting() -> int:
    sealed = AuditSeal.unscoped.filter(record_id=OuterRef("pk"))
    return AuditRecord.unscoped.filter(~Exists(sealed)).count()
