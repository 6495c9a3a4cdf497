"""Carrying out what a form of a page asks for."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpRequest

from foundation.errors import AllotmentError, NotFound


def done(request: HttpRequest, change: Callable[[], object], word: str) -> bool:
    """Run `change` and say `word`; a refusal is said where the visitor is, in its own sentence.

    Raises: NotFound, which is no matter of the form.
    """
    try:
        change()
    except NotFound:
        raise
    except AllotmentError as error:
        messages.error(request, error.detail)
        return False
    messages.success(request, word)
    return True
