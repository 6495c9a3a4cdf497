"""The style guide. It uses the templates and classes of the pages themselves."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from django.contrib import messages
from django.contrib.staticfiles import finders
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _

from foundation.web.listing import filter_rows
from frontend.components.view_models import Crumb
from frontend.lists.batch import BatchAct
from frontend.lists.page_list import EmptyList, PageList, answer_list, read_list
from frontend.pages.styleguide import samples
from frontend.shell.page_shell import operator_required, set_frame
from frontend.shell.time_range import read_time_range

_TOKENS: Final = "frontend/css/tokens.css"
_COLOR: Final = re.compile(r"^\s*--([a-z0-9-]+): (?:light-dark\((?:#|rgb))", re.MULTILINE)
_THEMES: Final = ("light", "dark")


@operator_required
def show_styleguide(request: HttpRequest) -> HttpResponse:
    """Show every component; POST answers its forms with a toast and changes nothing."""
    if request.method == "POST":
        messages.info(request, _("No changes were made."))
        return redirect("frontend:ops-styleguide")
    set_frame(request, label=_("Style guide"), trail=_("Operations"))
    shown = read_list(request, samples.SAMPLES)
    return answer_list(
        request,
        shown,
        _rows(shown),
        list,
        template="frontend/styleguide/styleguide.html",
        context=lambda: {**_list_parts(shown), **_parts(request)},
    )


def _rows(shown: PageList) -> list[samples.SampleRow]:
    state = shown.query.get("state")
    rows = filter_rows(samples.ROWS, shown.conditions)
    rows = [row for row in rows if state in (None, "", row.state)]
    by_size = shown.sort.endswith("gpus")
    rows.sort(key=lambda row: (row.gpus if by_size else 0, row.id), reverse=shown.sort.startswith("-"))
    return rows


def _list_parts(shown: PageList) -> Mapping[str, Any]:
    delete = BatchAct(
        key="delete", label=_("Delete"), title=_("Delete"), act=lambda _row, _choice: None, danger=True
    )
    return {
        "row": "frontend/styleguide/list_row.html",
        "menu": "frontend/styleguide/list_menu.html",
        "acts": [delete],
        "edits": True,
        "sections": [(shown.path, _("List")), ("#table", _("Table"))],
        "batch_url": shown.path,
        "open_form": samples.sample_row_form(shown.form_of) if shown.form_of else None,
        "empty_list": EmptyList(_("No results")),
        "chips": samples.sample_chips(),
        "chips_name": "state",
        "chips_label": _("Status"),
    }


def _parts(request: HttpRequest) -> Mapping[str, Any]:
    return {
        "crumbs": [Crumb(label=_("Overview"), url=reverse("frontend:ops-overview"))],
        "themes": [(theme, samples.sample_form(theme)) for theme in _THEMES],
        "tones": samples.TONES,
        "tags": [(name, "#") for name in samples.TAGS],
        "colors": _colors(),
        "scale": samples.SCALE,
        "full_meter": samples.FULL_METER,
        "lent_meter": samples.LENT_METER,
        "nodes": samples.sample_nodes(),
        "checks": samples.sample_checks(),
        "helps": samples.sample_helps(),
        "timeline": samples.sample_events(),
        "problem_box": samples.sample_problem(),
        "facts": [(_("Queue"), "default"), (_("Priority"), "normal"), (_("GPUs"), "8")],
        "chart_parts": [samples.sample_chart("styleguide"), samples.sample_chart("styleguide-low")],
        "losses": [_("GPU metrics")],
        "command": samples.COMMAND,
        "range": read_time_range(request),
    }


@cache
def _colors() -> Sequence[str]:
    """Return the names of the colors, in the order of the file that defines them."""
    found = finders.find(_TOKENS)
    assert isinstance(found, str)  # noqa: S101 (the file is part of the package)
    return _COLOR.findall(Path(found).read_text("utf-8"))
