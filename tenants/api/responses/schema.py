"""The parts of the OpenAPI schema that many views or all operations share.

`complete_schema` is a hook of the generator: it adds to each operation what `tenants.api.requests.base` does
for every view, so that no view repeats it.
"""

from __future__ import annotations

import re
from typing import Any, Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse
from rest_framework import serializers

PROBLEM_TYPE: Final = "application/problem+json"


class FieldErrorSerializer(serializers.Serializer[Any]):
    field = serializers.CharField(help_text="Path in the request, for example `roles.0.image`.")
    code = serializers.CharField()
    message = serializers.CharField()


class ProblemSerializer(serializers.Serializer[Any]):
    """An error (RFC 9457). `code` is stable; `detail` and `message` follow Accept-Language."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    instance = serializers.CharField(help_text="Request ID; also in the log.")
    code = serializers.CharField()
    errors = FieldErrorSerializer(many=True)  # type: ignore[assignment]
    numbers = serializers.DictField(required=False)


_SENTENCES: Final = {
    400: "Invalid request.",
    401: "Missing or invalid access key, and no session.",
    403: "Permission denied.",
    404: "Not found, or you can't view it.",
    406: "Not acceptable: no response of the accepted type.",
    409: "Conflict with the current state.",
    412: "The resource changed since you loaded it.",
    413: "Request body too large.",
    415: "Unsupported media type.",
    422: "Unprocessable: a rule is violated.",
    428: "Send the ETag of the version you read in If-Match.",
    429: "Too many requests. Retry after the time in Retry-After.",
    503: "The cluster is unreachable.",
}
IF_MATCH: Final = OpenApiParameter(
    "If-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    required=True,
    description="ETag of the version you read.",
)
IF_MATCH_OPTIONAL: Final = OpenApiParameter(
    "If-Match",
    OpenApiTypes.STR,
    OpenApiParameter.HEADER,
    description="ETag of the version you read; if sent, later versions are rejected.",
)


def problem_responses(*statuses: int) -> dict[tuple[int, str], OpenApiResponse]:
    """Return error responses by status; 401 and 403 are always included."""
    return {
        (status, PROBLEM_TYPE): OpenApiResponse(ProblemSerializer, description=_SENTENCES[status])
        for status in sorted({401, 403, *statuses})
    }


_DRY_RUN: Final = {
    "in": "query",
    "name": "dry_run",
    "schema": {"type": "boolean", "default": False},
    "description": "Validate and return the impact without saving.",
}
_FIELDS: Final = {
    "in": "query",
    "name": "fields",
    "schema": {"type": "string"},
    "description": "Fields of the response, or of each item, comma-separated.",
}
_KEY: Final = {
    "in": "header",
    "name": "Idempotency-Key",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255},
    "description": (
        "Repeated requests with the same key and body return the first response. Kept for 24 hours."
    ),
}
_ALWAYS: Final = (400, 401, 403, 406, 429)
_WRITES: Final = (409, 413, 415)
_METHODS: Final = ("get", "post", "put", "patch", "delete")


def complete_schema(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Add to every operation its general parameters and the errors that any operation may return."""
    for path, methods in result["paths"].items():
        for method in _METHODS:
            if method in methods:
                _complete_one(methods[method], path, method)
    return result


def _complete_one(operation: dict[str, Any], path: str, method: str) -> None:
    parameters = operation.setdefault("parameters", [])
    sent = {(entry["in"], entry["name"]) for entry in parameters}
    general = [_FIELDS] if method == "get" else [_DRY_RUN]
    general += [_KEY] if method == "post" else []
    if method == "get" and "application/json" not in operation["responses"].get("200", {}).get("content", {}):
        general = []
    parameters += [entry for entry in general if (entry["in"], entry["name"]) not in sent]
    parameters.sort(key=lambda entry: (entry["in"], entry["name"]))
    statuses = {*_ALWAYS, *(_WRITES if method != "get" else ())}
    statuses |= {404} if re.search(r"\{\w+\}", path) else set()
    statuses |= {422} if method == "post" else set()
    statuses |= {412, 428} if ("header", "If-Match") in sent else set()
    answers = operation["responses"]
    for status in statuses:
        content = {PROBLEM_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
        answers.setdefault(str(status), {"content": content, "description": _SENTENCES[status]})
    operation["responses"] = dict(sorted(answers.items()))
