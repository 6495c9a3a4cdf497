"""Query parameters: only declared ones, so that a misspelt filter is an error and is not ignored."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, Final, TypeVar

from django.utils.translation import gettext as _
from rest_framework import serializers
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request

from foundation.web.listing import Column, ColumnKind, parse_condition

PAGE: Final = 50
PAGE_MAX: Final = 500
_OFFSET_MAX: Final = 2**31 - 1
GENERAL: Final = {True: frozenset({"fields"}), False: frozenset({"dry_run"})}
"""The parameters that every read (`fields`) and every write (`dry_run`) accepts, whatever the view declares.

See `tenants.api.requests.base`.
"""
NUMBER_MAX: Final = 2**63 - 1
"""The largest integer that the database stores."""


class QuerySerializer(serializers.Serializer[Any]):
    """The base of all query parameters.

    With `cached`, its fields are built once, because building them takes longer than reading with them. Such
    fields keep the language of their first error message, so errors are produced by fields built anew.
    """

    def __init__(self, *, cached: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if cached:
            self.__dict__["fields"] = _fields(type(self))

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        unknown = sorted(set(self.initial_data) - set(self.fields))
        if unknown:
            message = _("Unknown parameter. No parameters are accepted.")
            if self.fields:
                known = ", ".join(self.fields)
                message = _("Unknown parameter. Valid: %(known)s") % {"known": known}
            raise serializers.ValidationError(dict.fromkeys(unknown, message), code="unknown")
        return attrs


class NoQuery(QuerySerializer):
    """No parameters at all."""


class WriteQuery(QuerySerializer):
    """Parameters of every write."""

    dry_run = serializers.BooleanField(
        default=False, help_text="Validate and return the impact without saving."
    )


class OffsetQuery(QuerySerializer):
    """Paging by number: `offset` and `limit`, or `page` and `pageSize`.

    The validated data has `limit` and `offset`, whichever pair was sent.
    """

    limit = serializers.IntegerField(default=PAGE, min_value=1, max_value=PAGE_MAX)
    offset = serializers.IntegerField(default=0, min_value=0, max_value=_OFFSET_MAX)
    page = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=_OFFSET_MAX // PAGE_MAX,
        help_text="Page number from 1, instead of offset.",
    )
    pageSize = serializers.IntegerField(  # noqa: N815 (the wire's name)
        required=False, min_value=1, max_value=PAGE_MAX, help_text="Instead of limit."
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        page, size = attrs.pop("page", None), attrs.pop("pageSize", None)
        if page is None and size is None:
            return attrs
        mixed = {"limit", "offset"} & set(self.initial_data)
        if mixed:
            message = _("Use either page and pageSize, or offset and limit.")
            raise serializers.ValidationError(dict.fromkeys(sorted(mixed), message), code="mixed")
        attrs["limit"] = size or PAGE
        attrs["offset"] = ((page or 1) - 1) * attrs["limit"]
        return attrs


class FilterQuery(QuerySerializer):
    """Conditions on the declared `columns`: each as a parameter of its own, and by `filterBy`.

    The validated data has them all as `conditions`.
    """

    columns: ClassVar[Mapping[str, Column]] = {}

    filterBy = serializers.ListField(  # noqa: N815 (the wire's name)
        child=serializers.CharField(max_length=300, trim_whitespace=False),
        required=False,
        max_length=20,
        help_text="`<field><operator><value>` with `== != <= >= =@ !@ =^ =$`; repeatable.",
    )

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Return the declared parameters, and one for each column that has none of its own."""
        fields = super().get_fields()
        for name, column in self.columns.items():
            if name not in fields:
                text = "One or more, comma-separated." if column.kind is ColumnKind.LIST else "Exact match."
                fields[name] = serializers.CharField(required=False, max_length=300, help_text=text)
        return fields

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        attrs = super().validate(attrs)
        own = set(self._declared_fields)
        conditions = [parse_condition(text, self.columns) for text in attrs.pop("filterBy", [])]
        for name in self.columns:
            if name in attrs and name not in own:
                conditions.append(parse_condition(f"{name}=={attrs.pop(name)}", self.columns))
        return attrs | {"conditions": conditions}


class ListQuery(FilterQuery, OffsetQuery):
    """Parameters of a list with declared `columns`: paging, conditions and the order."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        fields = super().get_fields()
        names = [name for name, column in self.columns.items() if column.sortable]
        fields["sort"] = serializers.ChoiceField(
            choices=[*names, *(f"-{name}" for name in names)],
            required=False,
            help_text="Prefix with a minus for descending order.",
        )
        return fields


class WordsField(serializers.CharField):
    """A field of several words of a closed set, separated by commas or by repeating the parameter."""

    def __init__(self, *, words: tuple[str, ...], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.words = words

    def to_internal_value(self, data: Any) -> Any:
        found = tuple(word.strip() for word in super().to_internal_value(data).split(",") if word.strip())
        for word in found:
            if word not in self.words:
                message = _("Invalid value %(word)s. Valid: %(words)s")
                raise serializers.ValidationError(message % {"word": word, "words": ", ".join(self.words)})
        return found


Q = TypeVar("Q", bound=QuerySerializer)


def read_query(request: Request, kind: type[Q]) -> dict[str, Any]:
    """Validate the query string; repeated parameters are joined by commas, except conditions.

    Raises: rest_framework.exceptions.ValidationError; Invalid for a bad condition.
    """
    own, lists = _parameters(kind)
    general = GENERAL[request.method in SAFE_METHODS] - own
    data: dict[str, Any] = {
        name: values if name in lists else ",".join(values)
        for name, values in request.query_params.lists()
        if name not in general
    }
    query = kind(data=data, cached=True)
    if not query.is_valid():
        query = kind(data=data)
        query.is_valid(raise_exception=True)
    return dict(query.validated_data)


@cache
def _fields(kind: type[QuerySerializer]) -> Any:
    return kind().fields


@cache
def _parameters(kind: type[QuerySerializer]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the names of all parameters, and of those that may be repeated."""
    fields = _fields(kind)
    lists = (name for name, field in fields.items() if isinstance(field, serializers.ListField))
    return frozenset(fields), frozenset(lists)
