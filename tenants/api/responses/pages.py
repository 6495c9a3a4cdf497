"""Responses of lists, which always have `items`, `total` and `next`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.web.listing import filter_rows, sort_rows
from tenants.api.requests.query import ListQuery, read_query

Shape = serializers.BaseSerializer[Any]


def list_of(item: type[serializers.Serializer[Any]], *, cursor: bool = False) -> Shape:
    """Return the schema of a list of `item`; `next` is a cursor or the next offset."""
    following = (
        serializers.CharField(allow_null=True, help_text="Pass as `cursor` to get the next page.")
        if cursor
        else serializers.IntegerField(allow_null=True, help_text="Pass as `offset` to get the next page.")
    )
    total = (
        serializers.IntegerField(allow_null=True, help_text="null: not counted for this list.")
        if cursor
        else serializers.IntegerField()
    )
    name = item.__name__.removesuffix("Serializer") + "List"
    return inline_serializer(name, fields={"items": item(many=True), "total": total, "next": following})


def page_of(
    rows: QuerySet[Any] | Sequence[Any], *, limit: int, offset: int, by_keys: bool = False
) -> tuple[list[Any], int, int | None]:
    """Return the items of one page, the number of all, and the next offset (None at the end).

    `by_keys` is for lists of thousands of rows with their related rows: the keys of the page are read first,
    so that the database sorts keys alone.
    """
    total = rows.count() if isinstance(rows, QuerySet) else len(rows)
    page = slice(offset, offset + limit)
    items = _read_by_keys(rows, page) if by_keys and isinstance(rows, QuerySet) else list(rows[page])
    following = offset + len(items)
    return items, total, following if items and following < total else None


def _read_by_keys(rows: QuerySet[Any], page: slice) -> list[Any]:
    keys = list(rows.select_related(None).prefetch_related(None).values_list("pk", flat=True)[page])
    found = {row.pk: row for row in rows.filter(pk__in=keys).order_by()}
    return [found[key] for key in keys if key in found]


def format_timestamp(at: datetime | None) -> str | None:
    """Return a time as `DateTimeField` writes it."""
    return at.isoformat().replace("+00:00", "Z") if at else None


def page_body(items: Any, total: int | None, following: Any) -> dict[str, Any]:
    """Return the body of a list; lists with a cursor are not counted and have no total."""
    return {"items": items, "total": total, "next": following}


def list_response(
    request: Request,
    kind: type[ListQuery],
    rows: QuerySet[Any] | Sequence[Any],
    shape: type[serializers.Serializer[Any]],
) -> Response:
    """Return the response of a list with offsets: `rows` filtered, sorted and cut as the query says.

    Without `sort` the rows keep their order. Raises: as `read_query`.
    """
    return listed_by(read_query(request, kind), kind, rows, shape)


def listed_by(
    query: Mapping[str, Any],
    kind: type[ListQuery],
    rows: QuerySet[Any] | Sequence[Any],
    shape: type[serializers.Serializer[Any]],
    *,
    by_keys: bool = False,
) -> Response:
    """Return `list_response` for a query that has been validated already; `by_keys` as in `page_of`."""
    rows = filter_rows(rows, query["conditions"])
    if "sort" in query:
        rows = sort_rows(rows, query["sort"], kind.columns)
    items, total, following = page_of(rows, limit=query["limit"], offset=query["offset"], by_keys=by_keys)
    return Response(page_body(shape(items, many=True).data, total, following))
