"""Queries whose shape never changes, written into SQL once and run with other values.

For what every request asks, the ORM takes several times as long to write the statement as the database to
answer it, and PostgreSQL as long to plan it as to run it: there each connection prepares it, and keeps the
plan. Rows come out as the queryset would give them: as models with what `select_related` names, or as tuples
of `values_list`. Prefetching is left out.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from django.db import connection
from django.db.models import Lookup, QuerySet, UUIDField
from django.db.models.query import ModelIterable, get_related_populators

from foundation.postgres import preparing_cursor

T = TypeVar("T")
if TYPE_CHECKING:
    _Lookup = Lookup[Any]  # Django does not let it be told of what outside of type checks
else:
    _Lookup = Lookup
Value = str | uuid.UUID | list[uuid.UUID]


@UUIDField.register_lookup
class AnyOf(_Lookup):
    """Whether a key is one of a list that is told as a single value, so that one statement serves lists of
    every length: `pk__any_of=keys`, in queries that are kept."""

    lookup_name = "any_of"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        key, parameters = self.process_lhs(compiler, connection)
        among = "= ANY (%s)" if connection.vendor == "postgresql" else "IN (SELECT value FROM json_each(%s))"
        return f"{key} {among}", [*parameters, self.rhs]


@dataclass(frozen=True, slots=True)
class _Written:
    """SQL, its parameters (which value of a call, or else a constant), and how to read a row."""

    sql: str
    parameters: tuple[tuple[int | None, Any], ...]
    converters: tuple[tuple[int, Sequence[Callable[..., Any]], Any], ...]
    build: Callable[[list[Any]], list[Any]]


class Kept(Generic[T]):
    """A query by values that are texts or keys: `Kept(lambda slug: Tenant.unscoped.filter(slug=slug))`; or by
    a list of keys, see `for_any`.

    `shape` is asked once for each database system and number of values; it may not look at the values.
    """

    def __init__(self, shape: Callable[..., QuerySet[Any, T]]) -> None:
        self._shape = shape
        self._written: dict[tuple[Any, ...], _Written] = {}

    def __call__(self, *values: Value) -> list[T]:
        """The rows for these values."""
        kind = (connection.vendor, *map(type, values))
        written = self._written.get(kind)
        if written is None:
            written = self._written[kind] = self._write(values)
        given = [_stored(value) for value in values]
        with preparing_cursor() as cursor:
            cursor.execute(
                written.sql,
                [constant if at is None else given[at] for at, constant in written.parameters],
            )
            rows = cursor.fetchall()
        if written.converters:
            rows = _converted(rows, written.converters)
        return written.build(rows)

    def first(self, *values: Value) -> T | None:
        """The first row for these values, None without any."""
        return next(iter(self(*values)), None)

    def for_any(self, values: Sequence[uuid.UUID]) -> list[T]:
        """The rows for any of these, which `shape` looks up by `any_of`; none for none."""
        return self(list(values)) if values else []

    def _write(self, values: Sequence[Value]) -> _Written:
        marks = [uuid.uuid4().hex if isinstance(value, str) else uuid.uuid4() for value in values]
        places = {form: at for at, mark in enumerate(marks) for form in (mark, _stored(mark))}
        queryset: Any = self._shape(*marks)
        compiler: Any = queryset.query.get_compiler(connection=connection)
        sql, parameters = compiler.as_sql()
        columns = [column for column, *_ in compiler.select[: compiler.col_count]]
        converters = compiler.get_converters(columns)
        return _Written(
            sql,
            tuple((places.get(each) if _may_mark(each) else None, each) for each in parameters),
            tuple((at, functions, column) for at, (functions, column) in converters.items()),
            _models(compiler, queryset.db) if queryset._iterable_class is ModelIterable else _tuples,
        )


def _stored(value: Any) -> Any:
    if connection.vendor == "postgresql" or isinstance(value, str):
        return value
    return value.hex if isinstance(value, uuid.UUID) else json.dumps([key.hex for key in value])


def _may_mark(parameter: Any) -> bool:
    return isinstance(parameter, str | uuid.UUID)


def _converted(
    rows: Sequence[Sequence[Any]], converters: Sequence[tuple[int, Sequence[Callable[..., Any]], Any]]
) -> list[Any]:
    found = [list(row) for row in rows]
    for at, functions, column in converters:
        for convert in functions:
            for values in found:
                values[at] = convert(values[at], column, connection)
    return found


def _tuples(rows: list[Any]) -> list[Any]:
    return [tuple(row) for row in rows]


def _models(compiler: Any, using: str) -> Callable[[list[Any]], list[Any]]:
    """How Django makes models of rows, as in its `ModelIterable`; but rows that refer to the same other row
    share its model, of which a list would make one for each."""
    info, select = compiler.klass_info, compiler.select
    fields = info["select_fields"]
    first, last = fields[0], fields[-1] + 1
    names = [column.target.attname for column, *_ in select[first:last]]
    populators: Any = get_related_populators  # the published types are those of another version
    related = populators(info, select, using)

    def build(rows: list[Any]) -> list[Any]:
        shared: dict[tuple[int, Any], Any] = {}
        found = []
        for row in rows:
            made = info["model"].from_db(using, names, row[first:last])
            for populator in related:
                key = (populator.cols_start, row[populator.cols_start + populator.pk_idx])
                if key not in shared:
                    shared[key] = _referred(row, populator)
                populator.local_setter(made, shared[key])
            found.append(made)
        return found

    return build


def _referred(row: Sequence[Any], populator: Any) -> Any:
    values = row[populator.cols_start : populator.cols_end]
    if values[populator.pk_idx] is None:
        return None
    made = populator.model_cls.from_db(populator.db, populator.init_list, values)
    for further in populator.related_populators:
        further.populate(row, made)
    return made
