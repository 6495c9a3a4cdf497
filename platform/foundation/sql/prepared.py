"""Queries and updates of a fixed shape, compiled to SQL once and run with different values.

For a query of every request or cycle, the ORM takes several times as long to compile the statement as the
database to answer it, and PostgreSQL as long to plan it as to run it: there each connection prepares it, and
keeps the plan. Rows are the same as the queryset's: models with `select_related` and annotations, or tuples
of `values_list`. Prefetching is not supported.
"""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from django.db import connection
from django.db.models import CharField, Lookup, Model, QuerySet, UUIDField
from django.db.models.query import ModelIterable, get_related_populators
from django.db.models.sql import UpdateQuery

from foundation.sql.postgres import preparing_cursor

T = TypeVar("T")
M = TypeVar("M", bound=Model)
if TYPE_CHECKING:
    _Lookup = Lookup[Any]  # Django's class can't be subscripted at run time
else:
    _Lookup = Lookup
Value = str | int | datetime | uuid.UUID | list[uuid.UUID] | list[str]
Parameters = tuple[tuple[int | None, Any], ...]
"""For each parameter the index of the call's value that it takes and its marker; or None and a constant."""


@CharField.register_lookup
@UUIDField.register_lookup
class AnyOf(_Lookup):
    """The lookup `pk__any_of=keys`: a key or a name is in a list that is sent as a single value, so that
    one prepared statement serves lists of every length.
    """

    lookup_name = "any_of"
    prepare_rhs = False

    def as_sql(self, compiler: Any, connection: Any) -> Any:
        key, parameters = self.process_lhs(compiler, connection)
        among = "= ANY (%s)" if connection.vendor == "postgresql" else "IN (SELECT value FROM json_each(%s))"
        return f"{key} {among}", [*parameters, self.rhs]


@dataclass(frozen=True, slots=True)
class _Written:
    """The SQL of a statement, its parameters, and how to read a row."""

    sql: str
    parameters: Parameters
    converters: tuple[tuple[int, Sequence[Callable[..., Any]], Any], ...]
    build: Callable[[list[Any]], list[Any]]


class PreparedQuery(Generic[T]):
    """A query by values that are texts, keys, times or whole numbers, none of them null:
    `PreparedQuery(lambda slug: Tenant.unscoped.filter(slug=slug))`; or by a list of keys, see `for_any`.

    `shape` is called once for each database system and kinds of values; it may not depend on the values.
    """

    def __init__(self, shape: Callable[..., QuerySet[Any, T]]) -> None:
        self._shape = shape
        self._written: dict[tuple[Any, ...], _Written] = {}

    def __call__(self, *values: Value) -> list[T]:
        """Return the rows for these values."""
        kind = (connection.vendor, *map(type, values))
        written = self._written.get(kind)
        if written is None:
            written = self._written[kind] = self._write(values)
        with preparing_cursor() as cursor:
            cursor.execute(written.sql, _given(written.parameters, values))
            rows = cursor.fetchall()
        if written.converters:
            rows = _converted(rows, written.converters)
        return written.build(rows)

    def fetch_first(self, *values: Value) -> T | None:
        """Return the first row for these values; None without any."""
        return next(iter(self(*values)), None)

    def for_any(self, values: Sequence[uuid.UUID] | Sequence[str], *more: Value) -> list[T]:
        """Return the rows for any of `values`, which `shape` looks up by `any_of`; no rows for an empty list.
        `more` are values of the other kinds."""
        return self(cast(Value, list(values)), *more) if values else []

    def _write(self, values: Sequence[Value]) -> _Written:
        marks = [_mark(value) for value in values]
        queryset: Any = self._shape(*marks)
        compiler: Any = queryset.query.get_compiler(connection=connection)
        sql, parameters = compiler.as_sql()
        columns = [column for column, *_ in compiler.select[: compiler.col_count]]
        converters = compiler.get_converters(columns)
        return _Written(
            sql,
            _found(parameters, marks),
            tuple((at, functions, column) for at, (functions, column) in converters.items()),
            _models(compiler, queryset.db) if queryset._iterable_class is ModelIterable else _tuples,
        )


def read_sharing(rows: QuerySet[M]) -> list[M]:
    """Read the models of a queryset in one query. Rows that refer to the same other row share its model, as
    those of a `PreparedQuery` do; nothing is prefetched."""
    compiler: Any = rows.query.get_compiler(using=rows.db)
    found = compiler.execute_sql()
    return _models(compiler, rows.db)(compiler.results_iter(found))


class PreparedUpdate:
    """An update by such values: `rows` selects the rows to write, `fields` gives their new values; both are
    called with the same values."""

    def __init__(
        self, rows: Callable[..., QuerySet[Any, Any]], fields: Callable[..., Mapping[str, Any]]
    ) -> None:
        self._rows, self._fields = rows, fields
        self._written: dict[tuple[Any, ...], tuple[str, Parameters]] = {}

    def __call__(self, *values: Value) -> int:
        """Run the update; return the number of rows."""
        kind = (connection.vendor, *map(type, values))
        written = self._written.get(kind)
        if written is None:
            written = self._written[kind] = self._write(values)
        sql, parameters = written
        with preparing_cursor() as cursor:
            cursor.execute(sql, _given(parameters, values))
            count: int = cursor.rowcount
        return count

    def _write(self, values: Sequence[Value]) -> tuple[str, Parameters]:
        marks = [_mark(value) for value in values]
        query: Any = self._rows(*marks).query.chain(UpdateQuery)
        query.add_update_values(self._fields(*marks))
        sql, parameters = query.get_compiler(connection=connection).as_sql()
        return sql, _found(parameters, marks)


def _mark(value: Value) -> Any:
    """Return a value of the same type that occurs nowhere else in a statement."""
    if isinstance(value, str):
        return uuid.uuid4().hex
    if isinstance(value, int):
        return random.randrange(2**48, 2**62)
    if isinstance(value, datetime):
        return datetime(9000, 1, 1, tzinfo=UTC) + timedelta(microseconds=random.randrange(2**48))
    return uuid.uuid4()


def _found(parameters: Sequence[Any], marks: Sequence[Any]) -> Parameters:
    """Return the parameters of a statement that was compiled with these markers."""
    places = {form: at for at, mark in enumerate(marks) for form in (mark, _stored(mark))}
    return tuple((places.get(each) if _may_mark(each) else None, each) for each in parameters)


def _given(parameters: Parameters, values: Sequence[Value]) -> list[Any]:
    given = [_stored(value) for value in values]
    return [mark if at is None else _like(mark, given[at]) for at, mark in parameters]


def _like(mark: Any, value: Any) -> Any:
    """Return a number in its marker's type, from which PostgreSQL derives how large it may be."""
    return type(mark)(value) if isinstance(mark, int) else value


def _stored(value: Any) -> Any:
    if isinstance(value, datetime):
        return connection.ops.adapt_datetimefield_value(value)
    if connection.vendor == "postgresql" or isinstance(value, str | int):
        return value
    if isinstance(value, uuid.UUID):
        return value.hex
    return json.dumps([key.hex if isinstance(key, uuid.UUID) else key for key in value])


def _may_mark(parameter: Any) -> bool:
    return isinstance(parameter, str | int | datetime | uuid.UUID)


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


def _models(compiler: Any, using: str) -> Callable[[Iterable[Any]], list[Any]]:
    """Return the function that makes models of rows, as Django's `ModelIterable` does; but rows that refer
    to the same related row share its model, of which a queryset would make one for each.
    """
    info, select = compiler.klass_info, compiler.select
    fields = info["select_fields"]
    first, last = fields[0], fields[-1] + 1
    names = [column.target.attname for column, *_ in select[first:last]]
    populators: Any = get_related_populators  # the published types are those of another version
    related = populators(info, select, using)
    annotated = compiler.annotation_col_map or {}

    def build_models(rows: Iterable[Any]) -> list[Any]:
        shared: dict[tuple[int, Any], Any] = {}
        found = []
        for row in rows:
            made = info["model"].from_db(using, names, row[first:last])
            for populator in related:
                key = (populator.cols_start, row[populator.cols_start + populator.pk_idx])
                if key not in shared:
                    shared[key] = _referred(row, populator)
                populator.local_setter(made, shared[key])
            for name, at in annotated.items():
                setattr(made, name, row[at])
            found.append(made)
        return found

    return build_models


def _referred(row: Sequence[Any], populator: Any) -> Any:
    values = row[populator.cols_start : populator.cols_end]
    if values[populator.pk_idx] is None:
        return None
    made = populator.model_cls.from_db(populator.db, populator.init_list, values)
    for further in populator.related_populators:
        further.populate(row, made)
    return made
