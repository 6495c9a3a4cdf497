"""The request and the changes of an audit record as text."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from foundation.models import AuditRecord
from frontend.texts.audit_words import describe_field
from frontend.texts.labels import rule_word

_SHOWN: Final = 80
FieldPath = tuple[str, ...]
"""The name of a field, and of a part of its value where that is a mapping."""
_REQUEST: Final = ("method", "path")
"""The fields of a denied request that name it."""


def name_request(record: AuditRecord) -> str:
    """Return the method and path of a denied request; empty for other records."""
    if record.entity != "route":
        return ""
    return " ".join(str(record.after[name]) for name in _REQUEST if record.after.get(name))


def describe_changes(record: AuditRecord, subject: str) -> list[str]:
    """Describe the changes, without empty values and the subject's name, which has its own column."""
    before, after = _spread(record.before), _spread(record.after)
    changed = [path for path in {*before, *after} if before.get(path) != after.get(path)]
    if record.entity == "route":  # method and path are the name of the request
        changed = [path for path in changed if path[0] not in _REQUEST]
    return sorted(
        f"{_label(path)}{_(': ')}{_word(before, path)} → {_word(after, path)}"
        if path in before
        else f"{_label(path)}{_(': ')}{_word(after, path)}"
        for path in changed
        if path in before or after[path] not in (subject, None, "", [], {})
    )


def _spread(values: Mapping[str, Any]) -> dict[FieldPath, Any]:
    """Put the values of nested mappings at the top level, so that only those that differ are described."""
    found: dict[FieldPath, Any] = {}
    for key, value in values.items():
        parts = value.items() if isinstance(value, dict) and value else ()
        found |= {(key, str(part)): one for part, one in parts} if parts else {(key,): value}
    return found


def _label(path: FieldPath) -> str:
    return " • ".join(map(describe_field, path))


def _word(values: Mapping[FieldPath, Any], path: FieldPath) -> str:
    value = values.get(path)
    if path[-1] == "rule":
        return rule_word(str(value))
    plain = "–" if value is None else str(value)
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list | bool) else plain
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
