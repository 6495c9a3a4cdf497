"""Pieces of the OpenAPI schema that many views share."""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers

PROBLEM_TYPE: Final = "application/problem+json"


class FieldErrorSerializer(serializers.Serializer[Any]):
    field = serializers.CharField(help_text="Path in the request, as in `roles.0.image`.")
    code = serializers.CharField()
    message = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """An error (RFC 9457). `code` is stable; `detail` and `message` follow Accept-Language."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField(help_text="The id of the request, as in the log.")
    code = serializers.CharField()
    errors = FieldErrorSerializer(many=True)  # type: ignore[assignment]
    numbers = serializers.DictField(required=False)


_SENTENCES: Final = {
    400: "The request is not valid.",
    401: "No or a wrong access key, and no session.",
    403: "You may see it, but not do this.",
    404: "No such thing in your sight.",
    409: "Its present state does not allow this.",
    413: "The body is too large.",
    415: "The body is of another type.",
    422: "Understood, but against a rule.",
}


def problems(*statuses: int) -> dict[tuple[int, str], OpenApiResponse]:
    """Error responses by status; 401 and 403 always belong to them."""
    return {
        (status, PROBLEM_TYPE): OpenApiResponse(ProblemSerializer, description=_SENTENCES[status])
        for status in sorted({401, 403, *statuses})
    }
