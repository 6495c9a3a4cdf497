"""Bodies of requests: declared fields of the declared types only; rows that they name must be in sight."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from django.utils.translation import gettext as _
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core.errors import FieldError, NotFound
from foundation.sql.versions import version_header

_TEXT: Final = (
    serializers.CharField,
    serializers.ChoiceField,
    serializers.UUIDField,
    serializers.DateTimeField,
    serializers.DateField,
)


class StrictSerializer(serializers.Serializer[Any]):
    """Request body; unknown fields are rejected."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, Mapping):
            unknown = sorted(set(data) - set(self.fields), key=str)
            if unknown:
                message = _("Unknown field. Valid: %(known)s")
                problem = message % {"known": ", ".join(self.fields)}
                raise serializers.ValidationError(dict.fromkeys(unknown, problem), code="unknown")
            # DRF would accept text as a number and a number as text; the schema allows neither.
            wrong = {
                name: message
                for name, field in self.fields.items()
                if name in data and (message := _wrong_type(field, data[name]))
            }
            if wrong:
                raise serializers.ValidationError(wrong, code="type")
        return super().to_internal_value(data)


def _wrong_type(field: Any, value: Any) -> Any:
    """Return the type errors of a value, by index for a list; None for a valid one."""
    if value is None:
        return None  # the field itself decides whether it is required
    if isinstance(field, _TEXT):
        return None if isinstance(value, str) else _("Must be a string.")
    if isinstance(field, serializers.BooleanField):
        return None if isinstance(value, bool) else _("Must be true or false.")
    if isinstance(field, serializers.IntegerField):
        # 12.0 is an integer in JSON, too.
        whole = isinstance(value, int | float) and not isinstance(value, bool)
        return None if whole else _("Must be a whole number.")
    if isinstance(field, serializers.ListField) and isinstance(value, list):
        found = {index: _wrong_type(field.child, item) for index, item in enumerate(value)}
        return {index: message for index, message in found.items() if message} or None
    if isinstance(field, serializers.DictField) and isinstance(value, Mapping):
        within = {key: _wrong_type(field.child, item) for key, item in value.items()}
        return {key: message for key, message in within.items() if message} or None
    return None


@contextmanager
def named_by(field: str) -> Iterator[None]:
    """Report a row that is not found within the block as an error of `field` of the body.

    Raises: NotFound.
    """
    try:
        yield
    except NotFound as error:
        problem = error.errors or [FieldError(field, "UNKNOWN", error.detail)]
        raise NotFound(error.detail, errors=problem) from error


def read_body(kind: type[serializers.Serializer[Any]], request: Request) -> dict[str, Any]:
    """Return the checked body of a request. Raises: rest_framework.exceptions.ValidationError."""
    body = kind(data=request.data)
    body.is_valid(raise_exception=True)
    return dict(body.validated_data)


def answer_row(kind: type[serializers.Serializer[Any]], row: Any, *, location: str = "") -> Response:
    """Return a versioned row with its entity tag; with the address of a new row, the status is 201."""
    headers = version_header(row) | ({"Location": location} if location else {})
    return Response(kind(row).data, status=201 if location else 200, headers=headers)
