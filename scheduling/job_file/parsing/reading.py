"""Parses fields by their declaration."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.utils.translation import gettext as _

from scheduling.job_file.declaration.field import Field
from scheduling.job_file.declaration.fields import FIELDS, fields_below, keys_below
from scheduling.job_file.values.kinds import PartKind, Parts
from scheduling.job_file.values.section import Section


def open_part(part: Section, path: str) -> Section:
    """Return the section of the field at `path` from that of its parent; a missing one is empty."""
    return part.read_subsection(FIELDS[path].key, keys_below(path))


def open_parts(part: Section, path: str) -> list[Section]:
    """Return the sections of the list of mappings at `path`."""
    field = FIELDS[path]
    listed = part.read_items(field.key, limit=field.kind.most if isinstance(field.kind, Parts) else 0)
    at = part.path_of(field.key)
    return [
        Section.read_section(raw, f"{at}.{index}", keys_below(path), part.problems)
        for index, raw in enumerate(listed)
    ]


def read_field(part: Section, path: str) -> Any:
    """Return the value of the field at `path`, or its default if it is omitted."""
    field = FIELDS[path]
    if isinstance(field.kind, Parts):
        return [read_part(each, path) for each in open_parts(part, path)]
    if isinstance(field.kind, PartKind):
        return read_part(open_part(part, path), path) if part.has_key(field.key) else None
    return field.kind.read_value(part, field.key, field.default)


def read_columns(part: Section, path: str) -> dict[str, Any]:
    """Return the values of the mapping at `path` that are columns, by the columns' names."""
    return {
        field.name: read_field(part, field.path)
        for field in fields_below(path)
        if not field.for_pods and not isinstance(field.kind, PartKind)
    }


def read_part(part: Section, path: str) -> dict[str, Any]:
    """Return the values of the mapping at `path` by key, without empty values and omitted ones without a
    default.

    Missing fields and fields that exclude each other are recorded as errors.
    """
    fields = fields_below(path)
    found = read_said(part, fields)
    kind = FIELDS[path].kind
    one_of = kind.one_of if isinstance(kind, PartKind) else ()
    named = [key for key in one_of if part.has_key(key)]
    if one_of and len(named) != 1:
        sentence = _("Specify exactly one of: %(choices)s.") % {"choices": ", ".join(one_of)}
        part.problems.add_problem(part.path, "REQUIRED", sentence)
    for field in fields:
        if field.required and not part.has_key(field.key):
            part.add_problem(field.key, "REQUIRED", _(field.required))
        if named and field.only and part.has_key(field.key) and not set(field.only) & set(named):
            sentence = _("Only allowed for: %(choices)s.") % {"choices": ", ".join(field.only)}
            part.add_problem(field.key, "CONTRADICTION", sentence)
    return found


def read_said(part: Section, fields: Iterable[Field]) -> dict[str, Any]:
    """Return the values of fields by key, without empty ones."""
    found = {}
    for field in fields:
        if part.has_key(field.key) or field.default is not None:
            value = read_field(part, field.path)
            if value is not False and value not in (None, "", [], {}, ()):
                found[field.key] = value
    return found
