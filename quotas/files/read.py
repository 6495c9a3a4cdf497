"""Reading quota files. A file is read completely or not at all, and all errors are reported together."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator
from typing import Final

from django.utils.translation import gettext as _

from quotas.files.rows import COLUMNS, ROWS_MAX, FileFormat, FileProblems, FileRow, Row, build_row
from quotas.files.yaml_rows import FILE_BOUNDS, yaml_rows

__all__ = ["FILE_BOUNDS", "read_rows"]

_BYTE_ORDER_MARK: Final = "\ufeff"
_DELIMITERS: Final = ",;\t"


def read_rows(text: str, kind: FileFormat, name: str) -> list[Row]:
    """Return the limits that a file names, in its order; those of a pool in GPUs as one row.

    Raises: Invalid that names file, line and field of every error.
    """
    problems = FileProblems(name)
    if len(text.encode("utf-8", "surrogatepass")) > FILE_BOUNDS.size:
        message = _("The file is larger than %(limit)s KiB. Split it, for example by tenant.")
        problems.add_problem(1, "", "TOO_LARGE", message % {"limit": FILE_BOUNDS.size // 1024})
        problems.raise_if_any()
    found = yaml_rows(text, problems) if kind is FileFormat.YAML else _csv_rows(text, problems)
    rows: list[Row] = []
    for row in found:
        if len(rows) == ROWS_MAX:
            message = _("Maximum: %(limit)s limits per file.") % {"limit": ROWS_MAX}
            problems.add_problem(row.line, "", "TOO_MANY", message)
            break
        rows.append(row)
    problems.raise_if_any()
    return rows


def _csv_rows(text: str, problems: FileProblems) -> Iterator[FileRow]:
    text = text.removeprefix(_BYTE_ORDER_MARK)
    # Spreadsheets of many languages write semicolons, or tabs; names and amounts contain neither.
    head = text.partition("\n")[0]
    delimiter = max(_DELIMITERS, key=head.count)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        header = [column.strip() for column in next(reader, [])]
        # Each name is checked once: a line of 256 KiB may have a hundred thousand columns of one name.
        found = Counter(header)
        unknown = [column for column in found if column not in COLUMNS]
        if unknown:
            known = {"known": ", ".join(COLUMNS)}
            message = _("Unknown column. Valid: %(known)s.") % known
            for column in unknown:
                problems.add_problem(1, column, "UNKNOWN", message)
        for column in sorted(name for name, times in found.items() if times > 1):
            problems.add_problem(1, column, "TWICE", _("Duplicate column."))
        if not header:
            problems.add_problem(1, "", "EMPTY", _("The file is empty."))
            return
        for values in reader:
            if not any(value.strip() for value in values):
                continue
            if len(values) != len(header):
                message = _("The line has %(found)s values; the header has %(wanted)s columns.")
                counts = {"found": len(values), "wanted": len(header)}
                problems.add_problem(reader.line_num, "", "COLUMNS", message % counts)
                continue
            line = reader.line_num
            cells = {name: (value, line) for name, value in zip(header, values, strict=True)}
            yield build_row(line, cells, problems)
    except csv.Error as error:
        message = _("Invalid CSV: %(problem)s") % {"problem": error}
        problems.add_problem(reader.line_num, "", "SYNTAX", message)
