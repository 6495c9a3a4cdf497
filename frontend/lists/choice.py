"""The reader's view of a list: columns, rows per page and refresh interval, stored in a cookie per list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from frontend.lists.declaration import INTERVALS, SIZES, ListDeclaration
from frontend.shell.page_shell import login_required

_PREFIX: Final = "list-"
_MAX_AGE: Final = timedelta(days=365)
_LONGEST: Final = 1000
_NARROW_COOKIE: Final = "narrow"
"""Set by the console's scripts on screens on which each row is a block."""
_NARROW_SIZE: Final = 20
"""The most rows on such a screen unless the reader chooses more."""


@dataclass(frozen=True, slots=True)
class ListChoice:
    """The choice of a reader, or the defaults of the page."""

    columns: Sequence[str]
    size: int
    every_s: int


def read_choice(request: HttpRequest, declared: ListDeclaration) -> ListChoice:
    """Return the reader's choice; unknown columns, sizes and intervals are ignored."""
    columns, size, every_s = (*request.COOKIES.get(_PREFIX + declared.key, "").split("~"), "", "")[:3]
    known = [column.key for column in declared.columns]
    chosen = {key for key in columns.split(".") if key in known}
    if not chosen:
        chosen = {column.key for column in declared.columns if column.shown}
    chosen.add(known[0])
    return ListChoice(
        [key for key in known if key in chosen],
        _one_of(size, SIZES, _default_size(request, declared)),
        _one_of(every_s, INTERVALS, declared.every_s),
    )


def _default_size(request: HttpRequest, declared: ListDeclaration) -> int:
    return min(declared.size, _NARROW_SIZE) if _NARROW_COOKIE in request.COOKIES else declared.size


def _one_of(text: str, known: Sequence[int], otherwise: int) -> int:
    return int(text) if text in {str(number) for number in known} else otherwise


@require_POST
@login_required
def keep_choice(request: HttpRequest, key: str) -> HttpResponse:
    """Store the reader's choice for a list in this browser; `reset` removes it."""
    back = request.POST.get("next", "")
    answer = redirect(back if url_has_allowed_host_and_scheme(back, allowed_hosts=None) else "/")
    if "reset" in request.POST:
        answer.delete_cookie(_PREFIX + key, samesite="Lax")
        return answer
    columns = ".".join(name for name in request.POST.getlist("columns") if name.isidentifier())
    numbers = [text if text.isdecimal() else "" for text in map(request.POST.get, ("size", "every")) if text]
    answer.set_cookie(
        _PREFIX + key,
        "~".join((columns, *numbers))[:_LONGEST],
        max_age=_MAX_AGE,
        samesite="Lax",
        httponly=True,
        secure=request.is_secure(),
    )
    return answer
