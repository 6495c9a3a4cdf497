"""Reading quota files. Nothing is half-read: every line is looked at, and all that is wrong is said."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from django.utils.translation import gettext as _

from foundation.bounded import Bounds, Fields, Listing, Node, Scalar, TextError, read_yaml
from foundation.quantities import Resource
from quotas.files.rows import (
    COLUMNS,
    LIMITS,
    ROWS_MAX,
    FileFormat,
    FileRow,
    Problems,
    read_limit,
    read_resource,
)

_TENANT_FIELDS: Final = ("tenant", "queue", "quotas")
_QUOTA_FIELDS: Final = ("cluster", "flavor", "resource", *LIMITS)
FILE_BOUNDS: Final = Bounds(size=256 * 1024, keys=50_000)
Cell = tuple[str, int]
"""A value as it was written, and its line."""


def read_rows(text: str, kind: FileFormat, name: str) -> list[FileRow]:
    """The limits that a file names, in its order.

    Raises: Invalid that names file, line and field of everything that is wrong.
    """
    problems = Problems(name)
    if len(text.encode("utf-8", "surrogatepass")) > FILE_BOUNDS.size:
        message = _("The file is larger than %(limit)s KiB; split it, by tenants for example.")
        problems.add(1, "", "TOO_LARGE", message % {"limit": FILE_BOUNDS.size // 1024})
        problems.raise_if_any()
    cells = _yaml_cells(text, problems) if kind is FileFormat.YAML else _csv_cells(text, problems)
    rows: list[FileRow] = []
    for line, found in cells:
        if len(rows) == ROWS_MAX:
            message = _("A file has at most %(limit)s limits.") % {"limit": ROWS_MAX}
            problems.add(line, "", "TOO_MANY", message)
            break
        rows.append(_row(line, found, problems))
    problems.raise_if_any()
    return rows


def _row(line: int, found: Mapping[str, Cell], problems: Problems) -> FileRow:
    def text(field: str) -> str:
        return found.get(field, ("", line))[0].strip()

    def at(field: str) -> int:
        return found.get(field, ("", line))[1]

    for field in ("tenant", "flavor", "resource"):
        if not text(field):
            problems.add(line, field, "REQUIRED", _("This is missing."))
    limits = {field: read_limit(text(field), problems, at(field), field) for field in LIMITS}
    named = text("resource")
    resource = read_resource(named, problems, at("resource")) if named else Resource.CPU
    return FileRow(
        line=line,
        tenant=text("tenant"),
        queue=text("queue"),
        cluster=text("cluster"),
        flavor=text("flavor"),
        resource=resource,
        nominal=limits["nominal"],
        borrowing_limit=limits["borrowing_limit"],
        lending_limit=limits["lending_limit"],
    )


def _csv_cells(text: str, problems: Problems) -> Iterator[tuple[int, dict[str, Cell]]]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [column.strip() for column in next(reader, [])]
        for column in header:
            if column not in COLUMNS:
                known = ", ".join(COLUMNS)
                message = _("There is no such column; there are: %(known)s.") % {"known": known}
                problems.add(1, column, "UNKNOWN", message)
        for column in sorted(name for name, times in Counter(header).items() if times > 1):
            problems.add(1, column, "TWICE", _("This column is there twice."))
        if not header:
            problems.add(1, "", "EMPTY", _("The file is empty."))
            return
        for values in reader:
            if not any(value.strip() for value in values):
                continue
            if len(values) != len(header):
                message = _("This line has %(found)s values; the first line names %(wanted)s columns.")
                counts = {"found": len(values), "wanted": len(header)}
                problems.add(reader.line_num, "", "COLUMNS", message % counts)
                continue
            line = reader.line_num
            yield line, {name: (value, line) for name, value in zip(header, values, strict=True)}
    except csv.Error as error:
        message = _("This is no CSV: %(problem)s") % {"problem": error}
        problems.add(reader.line_num, "", "SYNTAX", message)


def _yaml_cells(text: str, problems: Problems) -> Iterator[tuple[int, dict[str, Cell]]]:
    try:
        root = read_yaml(text, FILE_BOUNDS)
    except TextError as error:
        message = _("This is no YAML: %(problem)s") % {"problem": error.message}
        problems.add(error.line or 1, error.key, error.code, message)
        return
    if root is None:
        problems.add(1, "", "EMPTY", _("The file is empty."))
        return
    fields = _fields(root, ("quotas",), problems)
    for tenant in _items(fields.get("quotas"), "quotas", root.line, problems):
        of = _fields(tenant, _TENANT_FIELDS, problems)
        place = {field: _cell(of[field], field, problems) for field in ("tenant", "queue") if field in of}
        for quota in _items(of.get("quotas"), "quotas", tenant.line, problems):
            limits = _fields(quota, _QUOTA_FIELDS, problems)
            cells = {field: _cell(node, field, problems) for field, node in limits.items()}
            yield quota.line, place | cells


def _fields(node: Node, known: tuple[str, ...], problems: Problems) -> dict[str, Node]:
    """The values of a mapping by their names; what is not known or twice there is a problem."""
    if not isinstance(node, Fields):
        message = _("Here belong fields with values: %(known)s.") % {"known": ", ".join(known)}
        problems.add(node.line, "", "TYPE", message)
        return {}
    found: dict[str, Node] = {}
    for key, value in node.entries:
        name = key.text[:60]
        if name not in known:
            message = _("There is no such field; there are: %(known)s.") % {"known": ", ".join(known)}
            problems.add(key.line, name, "UNKNOWN", message)
        elif name in found:
            problems.add(key.line, name, "TWICE", _("This field is there twice."))
        else:
            found[name] = value
    return found


def _items(node: Node | None, field: str, line: int, problems: Problems) -> list[Node]:
    if isinstance(node, Listing):
        return node.values
    problems.add(line if node is None else node.line, field, "TYPE", _("Here belongs a list."))
    return []


def _cell(node: Node, field: str, problems: Problems) -> Cell:
    if isinstance(node, Scalar):
        if node.is_null and field in LIMITS and node.text:
            # `null` means different things to different people; here people write which one they mean.
            problems.add(node.line, field, "AMOUNT", _("Write unlimited, or leave the field out."))
        return "" if node.is_null else node.text, node.line
    problems.add(node.line, field, "TYPE", _("Here belongs one value."))
    return "", node.line
