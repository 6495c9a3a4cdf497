"""Carrying out what a form of a page asks for."""

from __future__ import annotations

from collections.abc import Callable

from django import forms
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


def told(form: forms.BaseForm, error: AllotmentError) -> None:
    """Put a refusal into a form: each error beside the field it names, the rest above the form.

    Raises: the error itself where it is no matter of the form.
    """
    if isinstance(error, NotFound):
        raise error
    for wrong in error.errors:
        whole = wrong.field in form.fields
        name = wrong.field if whole else wrong.field.partition(".")[0]
        message = wrong.message if whole or name == wrong.field else f"{wrong.field}: {wrong.message}"
        form.add_error(name if name in form.fields else None, message)
    if not error.errors:
        form.add_error(None, error.detail)
