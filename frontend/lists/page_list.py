"""A declared list for one request, and the response to that request: a page, its rows or a file."""

from __future__ import annotations

import csv
import io
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from django.contrib import messages
from django.core.paginator import Page, Paginator
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _

from foundation.core import clock
from foundation.core.errors import NotFound
from foundation.sql import row_scope
from foundation.web.listing import ColumnCondition, filter_rows, sort_rows
from foundation.web.spreadsheet_cells import text_cell
from frontend.lists.choice import ListChoice, read_choice
from frontend.lists.conditions import (
    PARAMETER,
    ShownCondition,
    add_condition,
    read_conditions,
    refuse_values,
    shown_conditions,
)
from frontend.lists.declaration import SIZES, ListColumn, ListDeclaration

ROWS_MAX: Final = 20_000
"""The maximum number of rows of a file."""
PART, ROWS, DIALOGS = "part", "rows", "dialogs"
"""The parameter of the address with which a page fetches its own rows, or the dialogs of one row."""
ROW: Final = "row"
"""The parameter of the address with the id of the row whose dialogs are fetched."""
FORMAT: Final = "format"
SHOWN: Final = "show"
FORM: Final = "edit"
"""The parameter of the address that opens the form of a row, or of a new one."""
_CHUNK: Final = 500
if TYPE_CHECKING:
    _Pages = Paginator[Any]
else:
    _Pages = Paginator  # the class is not generic at run time
_OWN: Final = (PART, ROW, FORMAT)
Rows = QuerySet[Any] | Sequence[Any]


@dataclass(frozen=True)
class PageList:
    """A list in the state of the address and the reader's choice; `problems` are filters that cannot be
    applied.
    """

    declared: ListDeclaration
    path: str
    query: QueryDict
    choice: ListChoice
    conditions: Sequence[ColumnCondition]
    problems: Sequence[str]
    sort: str

    @cached_property
    def columns(self) -> list[ListColumn]:
        return [column for column in self.declared.columns if column.key in self.choice.columns]

    @cached_property
    def columns_by_key(self) -> dict[str, ListColumn]:
        return {column.key: column for column in self.columns}

    @cached_property
    def all_columns_by_key(self) -> dict[str, ListColumn]:
        return {column.key: column for column in self.declared.columns}

    def needs_columns(self, *keys: str) -> bool:
        """Return whether one of the columns is read: the reader selected it, or the details of a row are
        open.
        """
        return bool(self.shown_id) or not self.columns_by_key.keys().isdisjoint(keys)

    @property
    def size(self) -> int:
        """The rows per page: those of the address, else the reader's choice."""
        asked = self.query.get("pageSize", "")
        return int(asked) if asked in {str(size) for size in SIZES} else self.choice.size

    @property
    def has_filters(self) -> bool:
        """Return whether the address has any filter."""
        asked = [(name, self.query.get(name)) for name in (PARAMETER, *self.declared.parameters)]
        return any(value and (name, value) != self.declared.unfiltered for name, value in asked)

    @cached_property
    def cell_opening_tags(self) -> dict[tuple[str, str], str]:
        """The opening tags of cells by column and classes, because they are the same in all rows."""
        return {}

    @cached_property
    def shown_id(self) -> str:
        """The id of the row whose details are open."""
        return self.query.get(SHOWN, "")

    @property
    def form_of(self) -> str:
        """The id of the row whose form is open; `row_form.NEW` for a new one."""
        return self.query.get(FORM, "")

    def url(self, **changes: str | None) -> str:
        """Return the list's address with some parameters changed, or without those that are None.

        A form is open at that address only if the changes open it.
        """
        query = self.query.copy()
        query.pop(FORM, None)
        for name, value in changes.items():
            query.pop(name, None)
            if value is not None:
                query[name] = value
        text = query.urlencode()
        return f"{self.path}?{text}" if text else self.path

    def details_url(self, item: object) -> str:
        """Return the list's address with the details of a row open."""
        return self._before_details + urlencode({SHOWN: item})

    @cached_property
    def _before_details(self) -> str:
        url = self.url(**{SHOWN: None})
        return f"{url}&" if "?" in url else f"{url}?"

    @property
    def total_order(self) -> tuple[str, str]:
        """The requested order, made total by the primary key in the same direction."""
        return self.sort, "-pk" if self.sort.startswith("-") else "pk"

    def url_with_condition(self, text: str) -> str:
        """Return the list's address with one more condition, at its first page."""
        query = self.query.copy()
        for name in ("page", SHOWN, FORM):
            query.pop(name, None)
        if text not in query.getlist(PARAMETER):
            query.appendlist(PARAMETER, text)
        return f"{self.path}?{query.urlencode()}"

    def arrange_rows(self, rows: Rows) -> Any:
        """Return the rows that meet the conditions, in the requested order, else in their own."""
        found = filter_rows(rows, self.conditions)
        return sort_rows(found, self.sort, self.declared.fields) if self.sort else found

    @property
    def address(self) -> str:
        """The address of the list as it is shown, with its filters, order, page and open details."""
        return self.url()

    @property
    def live_url(self) -> str:
        return self.url(**{PART: ROWS})

    @property
    def csv_url(self) -> str:
        return self.url(**{FORMAT: "csv", "page": None, SHOWN: None})

    @property
    def all_url(self) -> str:
        """The address of the list without its filters."""
        query = self.query.copy()
        for name in (PARAMETER, "page", SHOWN, FORM, *self.declared.parameters):
            query.pop(name, None)
        if self.declared.unfiltered is not None:
            name, value = self.declared.unfiltered
            query[name] = value
        return f"{self.path}?{query.urlencode()}" if query else self.path

    @property
    def shown_conditions(self) -> list[ShownCondition]:
        return shown_conditions(self.query, self.declared)

    @property
    def sort_choices(self) -> list[tuple[str, str, bool]]:
        """Each order with its label and whether it is the present one, for screens without a table head."""
        found = [] if self.declared.default_sort else [("", _("Default order"), not self.sort)]
        for name, column in self.declared.sorts.items():
            for value, word in ((name, _("ascending")), (f"-{name}", _("descending"))):
                found.append((value, f"{column.label}{_(', ')}{word}", value == self.sort))
        return found


def read_list(
    request: HttpRequest, declared: ListDeclaration, accepted: Mapping[str, Iterable[str]] | None = None
) -> PageList:
    """Read a list from the address and the reader's choice.

    `accepted` has the values of parameters that accept no others. Any other value is not applied, nor is an
    unknown order; the page says so.
    """
    query = request.GET.copy()
    for name in list(query):
        if name in _OWN:
            query.pop(name)
        else:
            # PostgreSQL refuses to compare with a text that contains this character.
            query.setlist(name, [value.replace("\x00", "") for value in query.getlist(name)])
    conditions, problems = read_conditions(query, declared)
    sort = query.get("sort", declared.default_sort)
    if sort.removeprefix("-") not in declared.sorts:
        sort = declared.default_sort
    accepted = {**(accepted or {}), "sort": declared.sorts}
    problems += refuse_values(query, accepted)
    return PageList(declared, request.path, query, read_choice(request, declared), conditions, problems, sort)


@dataclass(frozen=True, slots=True)
class EmptyList:
    """The text of a list without rows: the next step, and who can take it."""

    title: str
    hint: str = ""
    url: str = ""
    action: str = ""
    icon: str = "inbox"


Describe = Callable[[Sequence[Any]], Sequence[Any]]
Cut = Callable[[HttpRequest, PageList, Rows], tuple[Sequence[Any], Mapping[str, Any]]]
"""Selects the rows of one page, and returns with them the values that the foot of the list needs."""
ReadRows = Callable[[Sequence[Any]], Iterable[Any]]
"""Reads the rows with some keys, in any order."""


def cut_page(request: HttpRequest, shown: PageList, rows: Rows) -> tuple[Sequence[Any], Mapping[str, Any]]:
    """Return the rows of a counted page; for a page that does not exist any more, those of the last one."""
    page = Paginator(rows, shown.size).get_page(request.GET.get("page"))
    return list(page.object_list), {"page": page}


class _KeyPaginator(_Pages):
    """Pages of a long query whose number of rows is known.

    The keys of a page are read first, from the nearer end: rows before the page are skipped in an index,
    without a join to other tables. `read` reads rows by their keys.
    """

    counted = True

    def __init__(self, rows: QuerySet[Any], size: int, *, read: ReadRows, total: int) -> None:
        super().__init__(rows, size)
        self._read, self._total = read, total
        self._keys = rows.select_related(None).prefetch_related(None).values_list("pk", flat=True)

    @cached_property
    def count(self) -> int:
        return self._total

    def page(self, number: int | str) -> Page[Any]:
        number = self.validate_number(number)
        start = (number - 1) * self.per_page
        stop = min(start + self.per_page, self._total)
        if start > self._total // 2:
            few = list(self._keys.reverse()[self._total - stop : self._total - start])[::-1]
        else:
            few = list(self._keys[start:stop])
        return self._read_page(few, number)

    def _read_page(self, keys: Sequence[Any], number: int) -> Page[Any]:
        found = {row.pk: row for row in self._read(keys)}
        return Page([found[key] for key in keys if key in found], number, self)


class _UncountedPaginator(_KeyPaginator):
    """Pages of a query whose rows are not counted: `count` is the number of rows known so far.

    A page that does not exist is replaced by the first one.
    """

    counted = False

    def __init__(self, rows: QuerySet[Any], size: int, *, read: ReadRows) -> None:
        super().__init__(rows, size, read=read, total=0)

    def get_page(self, number: int | float | str | None) -> Page[Any]:
        asked = max(int(number), 1) if number is not None and str(number).isdecimal() else 1
        start = (asked - 1) * self.per_page
        few = list(self._keys[start : start + self.per_page + 1])
        if not few and asked > 1:
            return self.get_page(1)
        self._total = start + len(few)
        return self._read_page(few[: self.per_page], asked)


def cut_by_keys(
    source: QuerySet[Any] | ReadRows,
    count: Callable[[], int | None],
    *,
    keys: QuerySet[Any] | None = None,
) -> Cut:
    """Return a function that selects pages of a query in a total order by the keys of their rows.

    `source` has the same rows before any filter, or reads rows by their keys. A `count` of None is unknown:
    then a page only shows whether another one follows. `keys` are the rows of the query in its order, without
    the joins that only the rows of a page need.
    """
    read = partial(_read_rows, source) if isinstance(source, QuerySet) else source

    def cut_rows(
        request: HttpRequest, shown: PageList, rows: Rows
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        if not isinstance(rows, QuerySet):
            return cut_page(request, shown, rows)
        ordered = rows if keys is None else keys
        total = count()
        pages = (
            _UncountedPaginator(ordered, shown.size, read=read)
            if total is None
            else _KeyPaginator(ordered, shown.size, read=read, total=total)
        )
        page = pages.get_page(request.GET.get("page"))
        return list(page.object_list), {"page": page}

    return cut_rows


def _read_rows(source: QuerySet[Any], keys: Sequence[Any]) -> Iterable[Any]:
    return source.filter(pk__in=keys).order_by()


@row_scope.read_transaction()
def answer_list(
    request: HttpRequest,
    shown: PageList,
    rows: Rows,
    describe: Describe,
    *,
    template: str,
    body: str = "frontend/lists/body.html",
    dialogs: str = "",
    context: Callable[[], Mapping[str, Any]] = dict,
    cut: Cut = cut_page,
    status: int = 200,
) -> HttpResponse:
    """Respond with the page of `template`, with `body` alone for a refresh, or with a file of all `rows`.

    `describe` turns some of `rows` into lines with an `id`; `context` has the other values that both
    templates need. They get `lines` and `panel` (the line whose details are open). The general body takes
    lines with a `title` and a `url`, the template of a row as `row`, and an `EmptyList` as `empty_list`. The
    dialogs of one row are fetched when one is opened: `dialogs` is their template, which gets the `line`.
    """
    added = add_condition(request.GET, shown.declared)
    if added is not None:
        query, problem = added
        if problem:
            messages.error(request, problem)
        return redirect(f"{shown.path}?{query.urlencode()}" if query else shown.path)
    if request.GET.get(FORMAT) == "csv" and shown.declared.has_file:
        return list_file(shown, rows, describe)
    if dialogs and request.GET.get(PART) == DIALOGS:
        return _row_dialogs(request, shown, rows, describe, dialogs)
    items, foot = cut(request, shown, rows)
    lines = list(describe(items))
    panel = next((line for line in lines if str(line.id) == shown.shown_id), None)
    elsewhere = _lines_by_id(rows, shown.shown_id, describe) if shown.shown_id and panel is None else ()
    found = {
        **context(),
        "listing": shown,
        **foot,
        "lines": lines,
        "panel": panel or next(iter(elsewhere), None),
    }
    alone = request.GET.get(PART) == ROWS
    return render(request, body if alone else template, found, status=status)


def _row_dialogs(
    request: HttpRequest, shown: PageList, rows: Rows, describe: Describe, template: str
) -> HttpResponse:
    """Respond with the dialogs of one row, which return to the list as it is. Raises: NotFound."""
    line = next(iter(_lines_by_id(rows, request.GET.get(ROW, ""), describe)), None)
    if line is None:
        raise NotFound
    return render(request, template, {"listing": shown, "line": line, "back": {"next": shown.address}})


def _lines_by_id(rows: Rows, text: str, describe: Describe) -> Sequence[Any]:
    """Return the line of that id, which may be on another page."""
    if not isinstance(rows, QuerySet):
        return [line for line in describe(rows) if str(line.id) == text]
    try:
        return describe(list(rows.filter(pk=uuid.UUID(text))))
    except ValueError:
        return ()


def list_file(shown: PageList, rows: Rows, describe: Describe) -> HttpResponse:
    """Return all rows as CSV with the reader's columns, at most `ROWS_MAX`."""
    # Rows are written now, because the viewer's row scope ends before the response is sent.
    text = _file_text(shown, rows, describe)
    answer = HttpResponse(text, content_type="text/csv; charset=utf-8")
    name = f"{shown.declared.key}-{clock.now():%Y-%m-%d}.csv"
    answer["Content-Disposition"] = f'attachment; filename="{name}"'
    return answer


def _file_text(shown: PageList, rows: Rows, describe: Describe) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    out.write("\ufeff")  # the byte order mark lets spreadsheets read the text as UTF-8
    writer.writerow([text_cell(str(column.file_label or column.label)) for column in shown.columns])
    for start in range(0, ROWS_MAX, _CHUNK):
        chunk = list(rows[start : start + _CHUNK])
        for line in describe(chunk):
            writer.writerow([_file_cell(column.text(line)) for column in shown.columns])
        if len(chunk) < _CHUNK:
            break
    return out.getvalue()


def _file_cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(round(value, 3))
    if isinstance(value, datetime):
        return value.isoformat(timespec="seconds")
    return text_cell(str(value))
