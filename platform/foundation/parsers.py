"""Bodies of bounded size and depth.

The framework would read a body of any size before parsing it, and a few kilobytes of brackets are enough to
exhaust a parser's stack: both are bounded here, before anybody looks at the content.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import IO, Any, ClassVar, Final

from django.utils.translation import gettext as _
from rest_framework.parsers import BaseParser

from foundation.errors import FieldError, Invalid, TooLarge

LARGEST: Final = 2**20
DEEPEST: Final = 32
"""Levels of mappings and lists inside each other."""


def read_body(stream: IO[bytes], largest: int) -> bytes:
    """The whole body. Raises: TooLarge for one of more than `largest` bytes."""
    body = stream.read(largest + 1)
    if len(body) > largest:
        message = _("The body has more than %(limit)s KiB.") % {"limit": largest // 1024}
        raise TooLarge(message, numbers={"limit_bytes": largest}, errors=_whole("TOO_LARGE", message))
    return body


def require_shallow(value: Any, deepest: int = DEEPEST) -> None:
    """Raises: Invalid with code TOO_DEEP for content of more than `deepest` levels."""
    level = [value]
    for _depth in range(deepest + 1):
        level = [
            child
            for item in level
            if isinstance(item, dict | list)
            for child in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise _too_deep(deepest)


def _too_deep(deepest: int) -> Invalid:
    message = _("The body is nested more than %(limit)s levels deep.") % {"limit": deepest}
    return Invalid(message, code="TOO_DEEP", errors=_whole("TOO_DEEP", message))


def _whole(code: str, message: str) -> list[FieldError]:
    """An error of the body as a whole: its path is empty."""
    return [FieldError("", code, message)]


class BoundedJsonParser(BaseParser):
    """`application/json`; the constants that JSON does not have are refused."""

    media_type = "application/json"
    largest: ClassVar[int] = LARGEST

    def parse(
        self,
        stream: IO[bytes],
        media_type: str | None = None,
        parser_context: Mapping[str, Any] | None = None,
    ) -> Any:
        body = read_body(stream, self.largest)
        try:
            value = json.loads(body, parse_constant=_no_constant)
        except RecursionError as error:
            raise _too_deep(DEEPEST) from error
        except ValueError as error:
            problem = _("The body is not valid JSON: %(problem)s") % {"problem": error}
            raise Invalid(problem, code="JSON_INVALID", errors=_whole("JSON_INVALID", problem)) from error
        require_shallow(value)
        return value


def _no_constant(name: str) -> None:
    raise ValueError(_("%(name)s is not JSON") % {"name": name})
