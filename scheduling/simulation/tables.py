"""Reads CSV tables strictly: an invalid cell is an error that names it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scheduling.simulation.errors import InputError


@dataclass(frozen=True, slots=True)
class TableRow:
    """One line of a table, with the file and the line number for errors."""

    file: Path
    line: int
    cells: dict[str, str]

    def read_text(self, field: str, default: str | None = None) -> str:
        """Return the text of a cell; `default` if the table has no such column."""
        value = self.cells.get(field, default)
        if value is None:
            raise InputError("is missing", file=self.file, line=self.line, field=field)
        return value

    def read_whole(self, field: str, *, least: int | None = 0, most: int | None = None) -> int:
        """Return a cell as a whole number within bounds, which are inclusive; None means no bound."""
        text = self.read_text(field)
        try:
            value = int(text)
        except ValueError:
            raise self.cell_error(field, f"{text!r} is not a whole number") from None
        if least is not None and value < least:
            raise self.cell_error(field, f"{value} is below {least}")
        if most is not None and value > most:
            raise self.cell_error(field, f"{value} is above {most}")
        return value

    def cell_error(self, field: str, message: str) -> InputError:
        """Return the error for a cell of this line."""
        return InputError(message, file=self.file, line=self.line, field=field)


def read_table(file: Path, columns: Sequence[str]) -> list[TableRow]:
    """Return all rows of a CSV file that has at least these columns.

    Raises:
        InputError: when the file cannot be read, lacks a column, has no rows or a short line.
    """
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                raise InputError("the column is missing", file=file, line=1, field=missing[0])
            rows = [_row(file, reader.line_num, cells, columns) for cells in reader]
    except OSError as error:
        raise InputError(f"can't be read: {error.strerror}", file=file) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"is not a CSV file in UTF-8: {error}", file=file) from error
    if not rows:
        raise InputError("has no rows", file=file)
    return rows


def _row(file: Path, line: int, cells: dict[str, str], columns: Sequence[str]) -> TableRow:
    short = [name for name in columns if cells.get(name) is None]
    if short:
        raise InputError("the line is too short", file=file, line=line, field=short[0])
    return TableRow(file, line, cells)
