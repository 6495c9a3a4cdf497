"""Running the actions of a page's forms."""

from __future__ import annotations

from collections.abc import Callable

from django import forms
from django.contrib import messages
from django.http import HttpRequest
from django.utils.translation import gettext as _

from foundation.core.errors import AllotmentError, NotFound, PreconditionFailed
from foundation.core.numbers import read_whole
from foundation.core.sentences import join_sentences


def version_of(request: HttpRequest) -> int:
    """Return the version of the row that a form shows; -1, which no row has, if the form names none."""
    version = read_whole(request.POST.get("version", ""))
    return -1 if version is None else version


def run_change(
    request: HttpRequest, change: Callable[[], object], word: str, *, now: Callable[[], str] | None = None
) -> bool:
    """Run `change` and show `word`; a refusal is shown on the same page, with its own text.

    `now` returns the present state of what the form showed, after a concurrent change by another user.
    Raises: NotFound, which the form cannot show.
    """
    try:
        change()
    except NotFound:
        raise
    except PreconditionFailed as error:
        messages.error(request, join_sentences([error.detail, now()]) if now else error.detail)
        return False
    except AllotmentError as error:
        messages.error(request, error.detail)
        return False
    messages.success(request, word)
    return True


def show_refusal(
    form: forms.BaseForm, error: AllotmentError, *, now: Callable[[], str] | None = None
) -> None:
    """Put a refusal into a form: each error at the field that it names, the rest above the form.

    `now` as for `run_change`; the input is kept. Raises: an error that the form cannot show.
    """
    if isinstance(error, NotFound):
        raise error
    if isinstance(error, PreconditionFailed) and now is not None:
        form.add_error(None, join_sentences([error.detail, now()]))
        return
    for wrong in error.errors:
        whole = wrong.field in form.fields
        name = wrong.field if whole else wrong.field.partition(".")[0]
        message = wrong.message if whole or name == wrong.field else f"{wrong.field}{_(': ')}{wrong.message}"
        form.add_error(name if name in form.fields else None, message)
    if not error.errors:
        form.add_error(None, error.detail)
