"""Writing quota files that `read_rows` reads back to the same limits."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import yaml

from quotas.files.rows import COLUMNS, LIMITS, UNLIMITED_WORD, FileFormat, FileRow
from quotas.services.quota_plan import Keep

_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def write_rows(rows: Sequence[FileRow], kind: FileFormat) -> str:
    """The text of a file with these limits, in their order."""
    return _as_yaml(rows) if kind is FileFormat.YAML else _as_csv(rows)


def _as_yaml(rows: Iterable[FileRow]) -> str:
    tenants = []
    for (tenant, queue), of in groupby(rows, key=lambda row: (row.tenant, row.queue)):
        head = {"tenant": tenant, **({"queue": queue} if queue else {})}
        tenants.append({**head, "quotas": [_quota(row) for row in of]})
    return yaml.safe_dump({"quotas": tenants}, sort_keys=False, allow_unicode=True)


def _quota(row: FileRow) -> Mapping[str, Any]:
    place = {"cluster": row.cluster, "flavor": row.flavor, "resource": row.resource.value}
    limits = {name: _word(getattr(row, name)) for name in LIMITS}
    return {name: value for name, value in {**place, **limits}.items() if value != ""}


def _as_csv(rows: Iterable[FileRow]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in rows:
        values = {name: getattr(row, name) for name in COLUMNS}
        values |= {name: _word(getattr(row, name)) for name in LIMITS} | {"resource": row.resource.value}
        writer.writerow(_safe(str(values[name])) for name in COLUMNS)
    return out.getvalue()


def _word(limit: int | Keep | None) -> int | str:
    if limit is None:
        return UNLIMITED_WORD
    return "" if isinstance(limit, Keep) else limit


def _safe(text: str) -> str:
    """A spreadsheet would run text that begins like a formula; names never do, so nothing is lost."""
    return f"'{text}" if text.startswith(_FORMULA) else text
