"""Bodies of bounded size, depth and number of values, read only from callers that may send them.

The framework would read a body of any size, and parse it before the caller's permission is checked. A view
with `before_body` is called first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import IO, Any, ClassVar, Final

from django.utils.translation import gettext as _
from rest_framework.parsers import BaseParser

from foundation.core.bounded_parsing import ParseBounds, TextError, load_json
from foundation.core.errors import FieldError, Invalid, TooLarge

BODY_BOUNDS: Final = ParseBounds(size=2**20, nodes=10_000)


class BodyParser(BaseParser):
    """Reads no more than its `bounds` allow; `read_body` interprets the bytes."""

    bounds: ClassVar[ParseBounds] = BODY_BOUNDS

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        """Return the body as values.

        Raises: TooLarge, Invalid; the exceptions of the view's `before_body` for callers that may send no
        body.
        """
        before = getattr((parser_context or {}).get("view"), "before_body", None)
        if before is not None:
            before()
        return self.read_body(_read_body(stream, self.bounds.size))

    def read_body(self, body: bytes) -> Any:
        """Return the body as values. Raises: Invalid."""
        raise NotImplementedError


class BoundedJsonParser(BodyParser):
    """Parses `application/json`; constants that are not in JSON are refused."""

    media_type = "application/json"

    def read_body(self, body: bytes) -> Any:
        """Return the values of a JSON text. Raises: Invalid with code JSON_INVALID or TOO_DEEP."""
        try:
            return load_json(body, self.bounds)
        except TextError as error:
            problem = _("Invalid JSON in the request body: %(problem)s") % {"problem": error.message}
            code = error.code if error.code == "TOO_DEEP" else "JSON_INVALID"
            raise Invalid(problem, code=code, errors=_whole(code, problem)) from error


def _read_body(stream: IO[bytes], largest: int) -> bytes:
    """Return the whole body. Raises: TooLarge for one of more than `largest` bytes."""
    body = stream.read(largest + 1)
    if len(body) > largest:
        message = _("The request body exceeds %(limit)s KiB.") % {"limit": largest // 1024}
        raise TooLarge(message, numbers={"limit_bytes": largest}, errors=_whole("TOO_LARGE", message))
    return body


def _whole(code: str, message: str) -> list[FieldError]:
    """Return an error of the body as a whole: its path is empty."""
    return [FieldError("", code, message)]
