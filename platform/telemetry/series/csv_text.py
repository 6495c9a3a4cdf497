"""Series as CSV: a row per time, a column per line, the unit in the column's head."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Final

from foundation.web.spreadsheet_cells import text_cell
from telemetry.series.windows.types import Series, SeriesSet

TIME_HEAD: Final = "time (UTC)"
_ROWS_AT_ONCE: Final = 100


def csv_heads(found: SeriesSet) -> list[str]:
    """Return the head of each column: measure, label and unit; also the key if two would be equal."""
    plain = [_head(line) for line in found.series]
    heads = [
        head if plain.count(head) == 1 else f"{line.key}: {head}"
        for line, head in zip(found.series, plain, strict=True)
    ]
    return [TIME_HEAD, *map(text_cell, heads)]


def _head(line: Series) -> str:
    return f"{line.measure}: {line.label} ({line.unit})"


def csv_pieces(found: SeriesSet) -> Iterator[str]:
    """Write the file in pieces. Times are the starts of the buckets in UTC; an empty cell is a gap."""
    times = [at for at, _ in found.series[0].points] if found.series else []
    columns = [[value for _, value in line.points] for line in found.series]
    yield _written([csv_heads(found)])
    for first in range(0, len(times), _ROWS_AT_ONCE):
        yield _written(
            [
                [times[row].isoformat().replace("+00:00", "Z"), *(column[row] for column in columns)]
                for row in range(first, min(first + _ROWS_AT_ONCE, len(times)))
            ]
        )


def _written(rows: list[list[str]] | list[list[str | float | None]]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows(rows)
    return out.getvalue()
