"""Rows of large queries as the database driver returns them, without converting each value."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection
from django.db.models import Aggregate, QuerySet

from foundation.sql.postgres import binary_cursor

_BATCH = 5000


def read_plain(rows: QuerySet[Any, tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of `values_list` as the driver returns them: on SQLite ids are text, flags 0 or 1."""
    try:
        sql, parameters = rows.query.sql_with_params()
    except EmptyResultSet:
        return  # the condition matches no row
    with binary_cursor() as cursor:
        cursor.execute(sql, parameters)
        while batch := cursor.fetchmany(_BATCH):
            yield from batch


class _Column(Aggregate):
    """The values of a column in all rows of a group."""

    function = "ARRAY_AGG"

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, function="JSON_GROUP_ARRAY", **context)


def read_columns(
    rows: QuerySet[Any], by: Sequence[str], columns: Sequence[str]
) -> Iterator[tuple[tuple[Any, ...], Sequence[Sequence[Any]]]]:
    """Yield for each group of rows with the same values of `by` these values, and the other columns as lists
    in the same order, all in the form of `read_plain`. A list is read several times as fast as values in
    rows.
    """
    lists: dict[str, Any] = {f"all_{name}": _Column(name) for name in columns}
    for row in read_plain(rows.order_by().values_list(*by).annotate(**lists)):
        found = row[len(by) :]
        yield row[: len(by)], found if connection.vendor == "postgresql" else [*map(json.loads, found)]


def read_id(value: str | uuid.UUID) -> uuid.UUID:
    """Return an id that a driver returned."""
    return value if isinstance(value, uuid.UUID) else _parse_id(value)


def read_ids(values: Sequence[Any]) -> Sequence[uuid.UUID]:
    """Return the ids of a column that a driver returned."""
    return values if values and isinstance(values[0], uuid.UUID) else [*map(_parse_id, values)]


@lru_cache(maxsize=65_536)
def _parse_id(text: str) -> uuid.UUID:
    """Parse an id; cached, because most ids of a large query are repeated."""
    return uuid.UUID(text)
