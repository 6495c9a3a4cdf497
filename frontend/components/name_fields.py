"""Fields that name a user, a group or a quota: text fields that suggest names while the user types."""

from __future__ import annotations

from typing import Any

from django import forms
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString


class PeopleInput(forms.TextInput):
    """A text field with a list of matching users, or of groups with `kind` group.

    `kind_from` names another field of the form that selects users or groups.
    """

    names = "frontend:people"
    """The name of the view that finds names."""

    def __init__(
        self, kind: str = "user", *, kind_from: str = "", attrs: dict[str, Any] | None = None
    ) -> None:
        super().__init__({"autocomplete": "off", **(attrs or {})})
        self.kind, self.kind_from = kind, kind_from

    def render(self, name: str, value: Any, attrs: Any = None, renderer: Any = None) -> SafeString:
        given = {**(attrs or {})}
        listed = f"{given.get('id', f'id_{name}')}_names"
        given |= {"list": listed, "data-people": self.kind, "data-people-url": reverse(self.names)}
        if self.kind_from:
            given["data-kind-from"] = self.kind_from
        return format_html(
            '{}<datalist id="{}"></datalist>', super().render(name, value, given, renderer), listed
        )


class QuotaNodeInput(PeopleInput):
    """A text field with a list of matching tenants and queues whose quota the viewer may see."""

    names = "frontend:quota-names"

    def __init__(self) -> None:
        super().__init__("quota")
