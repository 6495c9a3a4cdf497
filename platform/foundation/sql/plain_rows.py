"""Rows of large queries as the database driver gives them, without a conversion for each value."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db.models import QuerySet

from foundation.sql.postgres import binary_cursor

_BATCH = 5000


def read_plain(rows: QuerySet[Any, tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `values_list` as the driver gives them: on SQLite an id is a text, a flag 0 or 1."""
    try:
        sql, parameters = rows.query.sql_with_params()
    except EmptyResultSet:
        return  # a condition that no row can meet
    with binary_cursor() as cursor:
        cursor.execute(sql, parameters)
        while batch := cursor.fetchmany(_BATCH):
            yield from batch


def read_id(value: str | uuid.UUID) -> uuid.UUID:
    """Return an id that a driver gave."""
    return value if isinstance(value, uuid.UUID) else _parse_id(value)


@lru_cache(maxsize=65_536)
def _parse_id(text: str) -> uuid.UUID:
    """Most ids of a large query are repeated."""
    return uuid.UUID(text)
