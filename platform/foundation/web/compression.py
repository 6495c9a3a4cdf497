"""Compresses pages and charts for browsers that accept it."""

from __future__ import annotations

from typing import Final

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

_REST_API: Final = "/api/"


class PageCompressionMiddleware(GZipMiddleware):
    """Compresses HTML pages and the JSON of their charts, whose rows repeat: gzip leaves less than a quarter.

    Event streams are sent piece by piece, and files and answers of the REST API are read by programs: they
    are not compressed.
    Django adds a random number of bytes to each page, so that its size reveals no secret in it (BREACH).
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compress a page or a chart."""
        kind = response.headers.get("Content-Type", "").partition(";")[0]
        is_chart = kind == "application/json" and not request.path.startswith(_REST_API)
        if response.streaming or not (kind == "text/html" or is_chart):
            return response
        return super().process_response(request, response)
