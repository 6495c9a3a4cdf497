"""Compresses pages for browsers that accept it."""

from __future__ import annotations

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware


class PageCompressionMiddleware(GZipMiddleware):
    """Pages repeat themselves row by row, and are a tenth of their size with gzip.

    Events are streamed piece by piece and are left as they are, as are answers of the API, which are short.
    Django adds a random number of bytes to each page, so that its size reveals no secret in it (BREACH).
    """

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        """Compress a page."""
        is_page = response.headers.get("Content-Type", "").startswith("text/html")
        if response.streaming or not is_page:
            return response
        return super().process_response(request, response)
