"""Filters and sorts lists by declared columns, either rows of a query or objects in memory.

`filterBy=<column><operator><value>` has Run:ai's operators: `==` equal, `!=` not equal, `<=`, `>=`, `=@`
contains, `!@` does not contain, `=^` begins with, `=$` ends with; text is compared case-insensitively except
by `==` and `!=`. For a list of texts one entry has to be equal or to contain the text, and no entry for `!=`
and `!@`; its `==` and `!=` take several texts, separated by commas.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, TypeVar

from django.db.models import Q, QuerySet
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from foundation.core.errors import FieldError, Invalid

_NUMBER_MAX: Final = 2**63 - 1
_CONDITION: Final = re.compile(r"([a-zA-Z_.]+)(==|!=|<=|>=|=@|!@|=\^|=\$)(.*)", re.DOTALL)
_LOOKUPS: Final = {
    "==": ("exact", False),
    "!=": ("exact", True),
    "<=": ("lte", False),
    ">=": ("gte", False),
    "=@": ("icontains", False),
    "!@": ("icontains", True),
    "=^": ("istartswith", False),
    "=$": ("iendswith", False),
}
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "exact": lambda have, want: bool(have == want),
    "lte": lambda have, want: bool(have is not None and have <= want),
    "gte": lambda have, want: bool(have is not None and have >= want),
    "icontains": lambda have, want: want.lower() in str(have or "").lower(),
    "istartswith": lambda have, want: str(have or "").lower().startswith(want.lower()),
    "iendswith": lambda have, want: str(have or "").lower().endswith(want.lower()),
}


class ColumnKind(StrEnum):
    """The type of a column's values."""

    TEXT = "text"
    NUMBER = "number"
    FLAG = "flag"
    TIME = "time"
    ID = "id"
    LIST = "list"


OPERATORS: Final = {
    ColumnKind.TEXT: frozenset({"==", "!=", "=@", "!@", "=^", "=$"}),
    ColumnKind.NUMBER: frozenset({"==", "!=", "<=", ">="}),
    ColumnKind.FLAG: frozenset({"==", "!="}),
    ColumnKind.TIME: frozenset({"==", "!=", "<=", ">="}),
    ColumnKind.ID: frozenset({"==", "!="}),
    ColumnKind.LIST: frozenset({"==", "!=", "=@", "!@", "=^", "=$"}),
}
"""The operators by which values of a kind can be compared."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a list: the dotted path from a row to its value, and the kind of the value.

    `shown`: the query look-up of the text that readers see for the value; conditions compare this text too.
    """

    path: str
    kind: ColumnKind = ColumnKind.TEXT
    sortable: bool = True
    shown: str = ""

    @property
    def lookup(self) -> str:
        return self.path.replace(".", "__")


Columns = Mapping[str, Column]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ColumnCondition:
    """One condition on one column; `value` is of the column's kind."""

    column: Column
    operator: str
    value: Any

    def as_query(self) -> Q:
        """Return the condition for the database. A row without a value is unequal to every value. A column
        with a list has its own table, see `as_entry_query`."""
        lookup, negated = _LOOKUPS[self.operator]
        query = Q(**{f"{self.column.lookup}__{lookup}": self.value})
        if self.column.shown:
            query |= Q(**{f"{self.column.shown}__{lookup}": self.value})
        return ~query if negated else query

    def as_entry_query(self, name: str) -> tuple[Q, bool]:
        """Return the condition on a list for the table with a row for each entry, in its column `name`: the
        condition on an entry, and whether rows with such an entry are excluded."""
        lookup, negated = _LOOKUPS[self.operator]
        if lookup == "exact":
            return Q(**{f"{name}__in": self.entries}), negated
        return Q(**{f"{name}__{lookup}": self.value}), negated

    @property
    def entries(self) -> list[str]:
        """The entries that the value of a condition on a list names."""
        return [entry for part in str(self.value).split(",") if (entry := part.strip())]

    def matches_row(self, row: Any) -> bool:
        """Return whether an object in memory meets the condition."""
        lookup, negated = _LOOKUPS[self.operator]
        if self.column.kind is ColumnKind.LIST:
            wanted = self.entries if lookup == "exact" else [self.value]
            have = value_of(row, self.column) or ()
            return any(_COMPARE[lookup](entry, want) for entry in have for want in wanted) != negated
        return _COMPARE[lookup](value_of(row, self.column), self.value) != negated


def value_of(row: Any, column: Column) -> Any:
    """Return the column's value; None if an object on the path is None."""
    value = row
    for name in column.path.split("."):
        if value is None:
            return None
        value = value[name] if isinstance(value, Mapping) else attrgetter(name)(value)
    return value


def split_condition(text: str) -> tuple[str, str, str] | None:
    """Return column, operator and value of a condition as written; None for an invalid one."""
    found = _CONDITION.fullmatch(text)
    if found is None:
        return None
    name, operator, value = found.groups()
    return name, operator, value


def parse_condition(text: str, columns: Columns) -> ColumnCondition:
    """Read `<column><operator><value>`. Raises: Invalid, naming `filterBy`."""
    parts = split_condition(text)
    if parts is None:
        raise _invalid("FORMAT", _("Use <field><operator><value>, for example name=@train."))
    name, operator, value = parts
    column = columns.get(name)
    if column is None:
        message = _("Can't filter by %(name)s. Valid fields: %(known)s")
        raise _invalid("UNKNOWN", message % {"name": name, "known": ", ".join(columns)})
    if operator not in OPERATORS[column.kind]:
        message = _("Operator %(operator)s isn't supported for %(name)s.")
        raise _invalid("OPERATOR", message % {"name": name, "operator": operator})
    try:
        return ColumnCondition(column, operator, _READERS[column.kind](value))
    except ValueError as error:
        message = _("%(value)s isn't a valid value for %(name)s.")
        raise _invalid("VALUE", message % {"value": value[:80], "name": name}) from error


def filter_rows(rows: QuerySet[Any] | Sequence[T], conditions: Iterable[ColumnCondition]) -> Any:
    """Return the rows that meet every condition."""
    wanted = list(conditions)
    if isinstance(rows, QuerySet):
        for condition in wanted:
            rows = rows.filter(condition.as_query())
        return rows
    return (
        [row for row in rows if all(condition.matches_row(row) for condition in wanted)] if wanted else rows
    )


def sort_rows(rows: QuerySet[Any] | Sequence[T], sort: str, columns: Columns) -> Any:
    """Return the rows in the order of `sort` (`column` or `-column`), ties in their former order or by key.

    Rows without a value come last in ascending order, and first in descending order.
    """
    column, descending = columns[sort.removeprefix("-")], sort.startswith("-")
    if isinstance(rows, QuerySet):
        sign = "-" if descending else ""
        return rows.order_by(f"{sign}{column.lookup}", f"{sign}pk")

    def key(row: T) -> tuple[bool, Any]:
        value = value_of(row, column)
        return (value is None, "" if value is None else value)

    return sorted(rows, key=key, reverse=descending)


def _invalid(code: str, message: str) -> Invalid:
    return Invalid(message, code="FILTER_INVALID", errors=[FieldError("filterBy", code, message)])


def _text(value: str) -> str:
    if "\x00" in value:
        raise ValueError(value)
    return value


def _number(value: str) -> int:
    number = int(value)
    if abs(number) > _NUMBER_MAX:
        raise ValueError(value)
    return number


def _flag(value: str) -> bool:
    if value not in ("true", "false"):
        raise ValueError(value)
    return value == "true"


def _time(value: str) -> datetime:
    # A plus sign in a query string is decoded as a space.
    found = parse_datetime(value.replace(" ", "+"))
    if found is None:
        raise ValueError(value)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


_READERS: Final[dict[ColumnKind, Callable[[str], Any]]] = {
    ColumnKind.TEXT: _text,
    ColumnKind.NUMBER: _number,
    ColumnKind.FLAG: _flag,
    ColumnKind.TIME: _time,
    ColumnKind.ID: uuid.UUID,
    ColumnKind.LIST: _text,
}
