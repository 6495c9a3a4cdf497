"""Lists always answer `items`, `total` and `next`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.models import Model, QuerySet
from drf_spectacular.utils import inline_serializer
from rest_framework import serializers

Shape = serializers.BaseSerializer[Any]


def list_of(item: type[serializers.Serializer[Any]], *, cursor: bool = False) -> Shape:
    """The schema of a list of `item`; `next` is a cursor or the next offset."""
    following = (
        serializers.CharField(allow_null=True, help_text="Pass it as `cursor` to continue.")
        if cursor
        else serializers.IntegerField(allow_null=True, help_text="Pass it as `offset` to continue.")
    )
    name = item.__name__.removesuffix("Serializer") + "List"
    return inline_serializer(
        name, fields={"items": item(many=True), "total": serializers.IntegerField(), "next": following}
    )


def page_of(
    rows: QuerySet[Any] | Sequence[Any], *, limit: int, offset: int
) -> tuple[list[Any], int, int | None]:
    """Items of one page, how many there are in all, and the next offset (None at the end)."""
    total = rows.count() if isinstance(rows, QuerySet) else len(rows)
    items: list[Model] = list(rows[offset : offset + limit])
    following = offset + len(items)
    return items, total, following if items and following < total else None


def answer(items: Any, total: int, following: Any) -> dict[str, Any]:
    """The body of a list."""
    return {"items": items, "total": total, "next": following}
