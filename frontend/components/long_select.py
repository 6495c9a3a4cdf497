"""A select with many options."""

from __future__ import annotations

from html import escape
from typing import Any

from django import forms
from django.forms.utils import flatatt
from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe


class LongSelect(forms.Select):
    """A select without groups that renders its options itself.

    Django renders a template for each option, which took a second for some thousand options.
    """

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        chosen = set(self.format_value(value) or ())
        choices: Any = self.choices
        options = "".join(
            f'<option value="{escape(key)}"{" selected" if key in chosen else ""}>{escape(label)}</option>'
            for key, label in ((str(key), str(label)) for key, label in choices)
        )
        shown = self.build_attrs(self.attrs, {**(attrs or {}), "name": name})
        return format_html("<select{}>{}</select>", flatatt(shown), mark_safe(options))  # noqa: S308 (escaped)
