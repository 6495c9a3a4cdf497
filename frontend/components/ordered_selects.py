"""Several selects whose values form an ordered list."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from django import forms
from django.forms.utils import flatatt
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

_FEWEST: Final = 3


class OrderedSelects(forms.Widget):
    """The widget of a list: one select more than there are values, at least three, at most one per choice."""

    def __init__(self, choices: Iterable[str] = ()) -> None:
        super().__init__()
        self.choices = list(choices)

    def value_from_datadict(self, data: Any, files: Any, name: str) -> list[str]:
        return data.getlist(name) if hasattr(data, "getlist") else list(data.get(name, ()))

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        chosen = list(value or ())
        names = list(dict.fromkeys([*self.choices, *filter(None, chosen)]))
        count = max(1, min(len(names), max(_FEWEST, len(chosen) + 1)))
        chosen += [""] * (count - len(chosen))
        own = self.build_attrs(self.attrs, {**(attrs or {}), "name": name})
        selects = [self._render_one(own, names, one, place) for place, one in enumerate(chosen)]
        return format_html(
            '<span class="ordered-selects">{}</span>', format_html_join("", "{}", zip(selects))
        )

    def _render_one(self, attrs: dict[str, Any], names: Sequence[str], chosen: str, place: int) -> SafeString:
        shown = {key: value for key, value in attrs.items() if not place or key not in ("id", "required")}
        if place:
            shown["aria-label"] = _("Choice %(number)s") % {"number": place + 1}
        options = [("", "", "–"), *((name, " selected" if name == chosen else "", name) for name in names)]
        written = format_html_join("", '<option value="{}"{}>{}</option>', options)
        return format_html("<select{}>{}</select>", flatatt(shown), written)


class OrderedChoiceField(forms.Field):
    """A list of different names in order, from some choices; the service that stores it checks the names."""

    widget = OrderedSelects

    def set_choices(self, names: Iterable[str]) -> None:
        """Set the choices."""
        assert isinstance(self.widget, OrderedSelects)  # noqa: S101
        self.widget.choices = list(names)

    def clean(self, value: Any) -> list[str]:
        found = list(dict.fromkeys(name.strip() for name in value or () if name.strip()))
        self.validate(found)
        return found
