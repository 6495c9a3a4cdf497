"""Query parameters: declared ones only, so that a misspelt filter is an error and not silence."""

from __future__ import annotations

from typing import Any, Final, TypeVar

from django.utils.translation import gettext as _
from rest_framework import serializers
from rest_framework.request import Request

PAGE: Final = 50
PAGE_MAX: Final = 500
NUMBER_MAX: Final = 2**63 - 1
"""The largest number that a database takes."""


class QuerySerializer(serializers.Serializer[Any]):
    """Base of all query parameters."""

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        unknown = sorted(set(self.initial_data) - set(self.fields))
        if unknown:
            message = _("There is no such parameter; there are: %(known)s") % {
                "known": ", ".join(self.fields)
            }
            raise serializers.ValidationError(dict.fromkeys(unknown, message), code="unknown")
        return attrs


class NoQuery(QuerySerializer):
    """No parameters at all."""


class WriteQuery(QuerySerializer):
    """Parameters of every write."""

    dry_run = serializers.BooleanField(default=False, help_text="Check and answer the effect; write nothing.")


class OffsetQuery(QuerySerializer):
    """Paging by number, for lists that people page through."""

    limit = serializers.IntegerField(default=PAGE, min_value=1, max_value=PAGE_MAX)
    offset = serializers.IntegerField(default=0, min_value=0, max_value=2**31 - 1)


class WordsField(serializers.CharField):
    """Several words of a closed set, separated by commas or by repeating the parameter."""

    def __init__(self, *, words: tuple[str, ...], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.words = words

    def to_internal_value(self, data: Any) -> Any:
        found = tuple(word.strip() for word in super().to_internal_value(data).split(",") if word.strip())
        for word in found:
            if word not in self.words:
                message = _("%(word)s is not one of: %(words)s")
                raise serializers.ValidationError(message % {"word": word, "words": ", ".join(self.words)})
        return found


Q = TypeVar("Q", bound=QuerySerializer)


def read_query(request: Request, kind: type[Q]) -> dict[str, Any]:
    """Validate the query string; repeated parameters are joined by commas.

    Raises: rest_framework.exceptions.ValidationError.
    """
    query = kind(data={name: ",".join(values) for name, values in request.query_params.lists()})
    query.is_valid(raise_exception=True)
    return dict(query.validated_data)
