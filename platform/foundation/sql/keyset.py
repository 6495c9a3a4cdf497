"""Paging by key instead of by number: rows inserted between pages neither repeat nor hide others."""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any, Final, TypeVar

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.utils.translation import gettext as _

from foundation.core.errors import FieldError, Invalid

M = TypeVar("M", bound=Model)
_NEAR: Final = 5_000


def _bad_cursor() -> Invalid:
    message = _("Invalid cursor.")
    return Invalid(message, code="CURSOR_INVALID", errors=[FieldError("cursor", "INVALID", message)])


def encode_cursor(row: Model, field: str) -> str:
    """Return the cursor that continues after `row` in the order of `field` and id."""
    value = getattr(row, field)
    shown = value.isoformat() if hasattr(value, "isoformat") else value
    return base64.urlsafe_b64encode(json.dumps([field, shown, str(row.pk)]).encode()).decode().rstrip("=")


def _decode(cursor: str, field: str) -> tuple[Any, str]:
    try:
        padded = cursor + "=" * (-len(cursor) % 4)
        name, value, pk = json.loads(base64.urlsafe_b64decode(padded.encode("ascii")))
    except (binascii.Error, UnicodeError, ValueError, TypeError) as error:
        raise _bad_cursor() from error
    # A value that no database could store cannot come from this list, and some drivers fail on it.
    sane = (isinstance(value, str) and "\x00" not in value) or (isinstance(value, int) and abs(value) < 2**63)
    if name != field or not sane or not isinstance(pk, str):
        raise _bad_cursor()
    return value, pk


def read_page(
    rows: QuerySet[M], *, sort: str, cursor: str | None, limit: int, source: QuerySet[M] | None = None
) -> tuple[list[M], str | None]:
    """Return the next `limit` rows in the order of `sort` (`field` or `-field`), and the cursor after them.

    Ties are broken by id in the same direction. `source` are the rows before any filter: if it is given, the
    page is first searched among the next of them, because a database without an estimate of how many rows
    meet a condition reads and sorts them all. Raises: Invalid for a cursor of another order.
    """
    field, descending = sort.lstrip("-"), sort.startswith("-")
    sign, operator = ("-", "lt") if descending else ("", "gt")
    after = _rows_after(cursor, field, operator) if cursor else Q()
    try:
        ordered = rows.filter(after).order_by(f"{sign}{field}", f"{sign}pk")
        near = None if source is None else source.filter(after).order_by(*ordered.query.order_by)
    except (ValueError, TypeError, ValidationError) as error:
        raise _bad_cursor() from error
    found: list[M] = []
    last = None if near is None else near.values_list(field, flat=True)[_NEAR:].first()
    if last is not None:
        nearer = "gt" if descending else "lt"
        found = list(ordered.filter(**{f"{field}__{nearer}e": last})[: limit + 1])
    if len(found) <= limit:
        found = list(ordered[: limit + 1])
    more = len(found) > limit
    found = found[:limit]
    return found, encode_cursor(found[-1], field) if more else None


def _rows_after(cursor: str, field: str, operator: str) -> Q:
    value, pk = _decode(cursor, field)
    after = Q(**{f"{field}__{operator}": value}) | Q(**{field: value, f"pk__{operator}": pk})
    # Follows from the line above, and lets the database begin in the middle of its index.
    return after & Q(**{f"{field}__{operator}e": value})
