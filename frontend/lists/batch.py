"""An action on several rows: one confirmation that shows what is lost, then the action row by row."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from foundation.core.errors import AllotmentError, NotFound, PermissionDenied
from foundation.core.numbers import read_whole
from foundation.sql.versions import require_current
from frontend.lists.declaration import Choices
from frontend.shell.page_shell import problem_of

ITEMS_MAX: Final = 100
"""The maximum number of rows of an action, that of a page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAct:
    """An action on rows. `act` takes a row and an argument.

    The argument is the selected one of `choices`; with a `text_label`, the entered text, which may be empty;
    otherwise empty. With `suggestions` the text is required: it names several values, separated by commas,
    and these are suggested. The menu of a row has the action if the row's line `fits`. An action that takes
    something only from rows for which `takes_from` is true shows no loss for the others.
    """

    key: str
    label: str
    title: str
    act: Callable[[Any, str], object]
    danger: bool = False
    note: str = ""
    choice_label: str = ""
    choices: Choices = ()
    text_label: str = ""
    text_length: int = 200
    suggestions: Callable[[], Sequence[str]] | None = None
    icon: str = "arrow-right"
    fits: Callable[[Any], bool] = lambda _line: True
    takes_from: Callable[[Any], bool] = lambda _row: True

    @property
    def takes_several(self) -> bool:
        """Return whether the entered text names several values."""
        return self.suggestions is not None

    @property
    def needs_confirmation(self) -> bool:
        """Return whether the action asks first. Without loss or choice, a single row is changed at once."""
        return bool(self.danger or self.note or self.choices or self.text_label)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchItem:
    """A selected row as the question shows it; with a `version`, a row that was changed since is refused.

    A dangerous action also shows its `losses`, and what it `keeps` where users might expect a loss.
    """

    id: uuid.UUID
    name: str
    row: Any
    state: str = ""
    losses: Sequence[str] = ()
    keeps: Sequence[str] = ()
    version: int | None = None


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The result for one row; `problem` says why the row was not changed."""

    name: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPage:
    """The question, or with `results` its outcome."""

    title: str
    url: str
    back: str
    act: BatchAct
    items: Sequence[BatchItem]
    results: Sequence[BatchResult] = ()

    @property
    def shows_keeps(self) -> bool:
        """Return whether the question lists what is kept of any row."""
        return self.act.danger and any(one.keeps for one in self.items)

    @property
    def summary(self) -> str:
        done = sum(not one.problem for one in self.results)
        words = {"done": done, "all": len(self.results)}
        return _("Done for %(done)s of %(all)s. The others are unchanged.") % words


BATCH: Final = "batch"
"""The field that marks a request as an action on a list, not another form of the page."""
ONE: Final = "one"
"""The field of the menu of a row: the action and the row's id."""
Find = Callable[[Collection[uuid.UUID]], Sequence[BatchItem]]


def is_batch(request: HttpRequest) -> bool:
    """Return whether a request is an action on rows of the page's list."""
    return request.method == "POST" and any(name in request.POST for name in (BATCH, ONE, "item"))


def answer_batch(request: HttpRequest, *, acts: Sequence[BatchAct], find: Find, back: str) -> HttpResponse:
    """Ask before anything is done; carry out a confirmed action, and show each row that was refused.

    `find` returns the rows that the viewer may see. Raises: NotFound for an unknown action; for a viewer
    without any action, PermissionDenied, or NotFound for rows out of sight.
    """
    known: Mapping[str, BatchAct] = {act.key: act for act in acts}
    one = request.POST.get(ONE, "").split()
    chosen = one[1:] if one else request.POST.getlist("item")
    items = find(_read_ids(chosen))
    if not acts:
        raise PermissionDenied if items or not chosen else NotFound
    act = known.get(one[0] if one else request.POST.get("do", ""))
    if act is None:
        raise NotFound
    wanted = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(wanted, allowed_hosts=None):
        back = wanted
    items = [item if act.takes_from(item.row) else replace(item, losses=()) for item in items]
    if not items:
        messages.warning(request, _("Select at least one row."))
        return redirect(back)
    page = BatchPage(title=act.title, url=request.path, back=back, act=act, items=items)
    if not request.POST.get("confirmed") and (act.needs_confirmation or not one):
        return render(request, "frontend/lists/batch.html", {"batch": page})
    asked = request.POST
    results = [
        _carry_out(act, item, asked.get("choice", ""), asked.get(f"version-{item.id}", "")) for item in items
    ]
    if not any(one.problem for one in results):
        count = len(results)
        word = ngettext("%(act)s: done for %(count)s row", "%(act)s: done for %(count)s rows", count)
        messages.success(request, word % {"act": act.label, "count": count})
        return redirect(back)
    if len(results) == 1:
        messages.error(request, f"{results[0].name}{_(': ')}{results[0].problem}")
        return redirect(back)
    page = BatchPage(title=act.title, url=request.path, back=back, act=act, items=items, results=results)
    return render(request, "frontend/lists/batch.html", {"batch": page})


def _read_ids(texts: Sequence[str]) -> list[uuid.UUID]:
    found = []
    for text in texts[:ITEMS_MAX]:
        try:
            found.append(uuid.UUID(text))
        except ValueError:
            raise NotFound from None
    return found


def _carry_out(act: BatchAct, item: BatchItem, choice: str, version: str) -> BatchResult:
    try:
        require_current(item.row, read_whole(version))
        act.act(item.row, choice)
    except AllotmentError as error:
        return BatchResult(item.name, problem_of(error).detail)
    return BatchResult(item.name)
