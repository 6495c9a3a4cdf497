"""A form that a list opens in a dialog: for a new row, or for one of its rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django import forms

NEW: Final = "new"
"""The value of the form parameter of the address for a new row, in place of a row's id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowForm:
    """The form that is open. `do` names the action of the request; `row` is an id, empty for a new row.

    `fields` is a template that lays the fields out; without one they are listed below each other. `more` are
    further buttons with their actions, and `found` is the result of one of them.
    """

    title: str
    do: str
    button: str
    form: forms.BaseForm | None = None
    fields: str = ""
    row: str = ""
    version: int | None = None
    note: str = ""
    more: Sequence[tuple[str, str]] = ()
    found: Any = None
