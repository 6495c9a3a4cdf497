"""Compresses pages for browsers that accept it."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware


class PageCompressionMiddleware(GZipMiddleware):
    """Compresses HTML pages, whose rows repeat: gzip leaves less than a quarter of their size.

    Event streams are sent piece by piece, and files and answers of the API are read by programs: they are not
    compressed.
    Django adds a random number of bytes to each page, so that its size reveals no secret in it (BREACH).
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compress a page."""
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        if response.streaming or not is_page:
            return response
        return super().process_response(request, response)
