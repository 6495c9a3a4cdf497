"""The errors of forms in one list, for previews beside unchanged fields."""

from __future__ import annotations

from django import forms
from django.utils.translation import gettext as _


def list_mistakes(*checked: forms.BaseForm) -> list[str]:
    """Return each error of checked forms once, after the label of its field."""
    found: dict[str, None] = {}
    for form in checked:
        for name, errors in form.errors.items():
            label = form.fields[name].label if name in form.fields else ""
            found |= dict.fromkeys(f"{label}{_(': ')}{error}" if label else str(error) for error in errors)
    return list(found)
