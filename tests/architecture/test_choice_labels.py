"""Pages show a choice by a translated text."""

from __future__ import annotations

import re

import pytest
from django.apps import apps
from django.utils.functional import Promise

from tests.architecture.sources import ROOT

_SHOWN = re.compile(r"\bget_(\w+)_display\b")


def shown_fields() -> list[str]:
    """The names of fields whose label a page asks the model for."""
    files = [*(ROOT / "frontend").rglob("*.py"), *(ROOT / "frontend").rglob("*.html")]
    return sorted({name for file in files for name in _SHOWN.findall(file.read_text(encoding="utf-8"))})


@pytest.mark.parametrize("name", shown_fields())
def test_labels_that_pages_show_are_translated(name: str) -> None:
    labels = {
        model.__name__: [label for _value, label in field.choices]
        for model in apps.get_models()
        for field in model._meta.get_fields()
        if field.name == name and getattr(field, "choices", None)
    }
    # The name alone does not say which of several models a page asks.
    translated = [
        model for model, said in labels.items() if any(isinstance(label, Promise) for label in said)
    ]
    assert translated, (
        f"{name} of {sorted(labels)}: use a table of frontend.texts.labels, or translated labels"
    )
