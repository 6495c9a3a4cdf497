"""Lists always answer `items`, `total` and `next`."""

from __future__ import annotations

from typing import Any

from rest_framework.pagination import LimitOffsetPagination
from rest_framework.response import Response


class ListPagination(LimitOffsetPagination):
    """`offset` and `limit` (default 50, at most 500); `next` is the next offset, or null at the end."""

    default_limit = 50
    max_limit = 500

    def get_paginated_response(self, data: Any) -> Response:
        offset, limit, total = self.offset or 0, self.limit or self.default_limit, self.count or 0
        following = offset + limit
        return Response({"items": data, "total": total, "next": following if following < total else None})

    def get_paginated_response_schema(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["items", "total", "next"],
            "properties": {
                "items": schema,
                "total": {"type": "integer"},
                "next": {"type": ["integer", "null"]},
            },
        }
