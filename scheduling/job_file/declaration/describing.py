"""Describes the fields of a job file for the documentation, one row for each field."""

from __future__ import annotations

from typing import Any, Final

from scheduling.job_file.declaration.field import Field
from scheduling.job_file.declaration.fields import ALL, FIELDS
from scheduling.job_file.values.kinds import Cpu, Memory, PartKind

_HEAD: Final = (
    "# The fields of a job file\n\n"
    "Every field with its type, its bounds and what applies if omitted; null is equal to"
    " omitted. A field below a list of maps, such as `roles`, belongs to each of its entries."
    " [Job files](jobs.md) explains what they do. `allotment job fields` prints this page.\n\n"
    "| field | type and bounds | if omitted | meaning |\n|---|---|---|---|\n"
)


def describe_field(field: Field) -> str:
    """Return the English description of a field and of its value if it is omitted."""
    said = [field.help or _sentence(field.label), f"Default: {field.otherwise}." if field.otherwise else ""]
    if field.only:
        said.append(f"Only with {', '.join(f'`{name}`' for name in field.only)}.")
    return " ".join(text for text in said if text)


def field_default(field: Field) -> Any:
    """Return the default of a field in the form of a job file."""
    if isinstance(field.kind, Cpu | Memory):
        return field.kind.format_amount(field.default)
    return list(field.default) if isinstance(field.default, tuple) else field.default


def fields_page() -> str:
    """Return the page of the documentation that lists all fields; mappings with the same fields are listed
    once."""
    rows = (_row(field) for field in ALL if _first(field.parent) == field.parent)
    return _HEAD + "".join(f"{row}\n" for row in rows)


def _first(path: str) -> str:
    """Return the path of the first mapping that has the same fields as the one at `path`."""
    kind = FIELDS[path].kind if path else None
    if not isinstance(kind, PartKind):
        return path
    above, _dot, key = path.rpartition(".")
    first = next(each.path for each in ALL if isinstance(each.kind, PartKind) and each.kind.name == kind.name)
    return first if first != path else ".".join(part for part in (_first(above), key) if part)


def _row(field: Field) -> str:
    words = field.kind.words
    if isinstance(field.kind, PartKind) and (first := _first(field.path)) != field.path:
        words += f" with the fields of `{first}`"
    if isinstance(field.kind, PartKind) and field.kind.one_of:
        words += f" with exactly one of {', '.join(f'`{key}`' for key in field.kind.one_of)}"
    cells = (f"`{field.path}`", words, _left_open(field), _meaning(field))
    return f"| {' | '.join(cells)} |"


def _left_open(field: Field) -> str:
    if field.required:
        return "required"
    if field.default in (None, "", ()):
        return field.otherwise
    value = field_default(field)
    return f"`{str(value).lower() if isinstance(value, bool) else value}`"


def _meaning(field: Field) -> str:
    label = _sentence(field.label + (f" ({field.unit})" if field.unit in ("s", "%") else ""))
    only = f"Only with {', '.join(f'`{name}`' for name in field.only)}." if field.only else ""
    return " ".join(text for text in (label, field.help, only) if text)


def _sentence(text: str) -> str:
    return f"{text}." if text else ""
