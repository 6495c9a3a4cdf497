"""A select with many options."""

from __future__ import annotations

from typing import Any

from django import forms
from django.forms.utils import flatatt
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe


class LongSelect(forms.Select):
    """A select without groups that writes its options itself: Django renders a template for each, which took
    a second for some thousand of them.
    """

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        chosen = set(self.format_value(value) or ())
        selected = mark_safe(" selected")
        options = format_html_join(
            "",
            '<option value="{}"{}>{}</option>',
            ((key, selected if str(key) in chosen else "", label) for key, label in self.choices),
        )
        shown = self.build_attrs(self.attrs, {**(attrs or {}), "name": name})
        return format_html("<select{}>{}</select>", flatatt(shown), options)
