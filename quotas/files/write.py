"""Writing quota files that `read_rows` reads back to the same limits."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, Final

import yaml

from quotas.distribution.division import Keep
from quotas.files.rows import COLUMNS, LIMITS, UNLIMITED_WORD, FileFormat, FileRow, PoolRow, PoolShare, Row

_WIDTH: Final = 200
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")


def write_rows(rows: Sequence[Row], kind: FileFormat) -> str:
    """Return the text of a file with these limits, in their order. CSV has no rows of pools."""
    if kind is FileFormat.YAML:
        return _as_yaml(rows)
    return _as_csv(row for row in rows if isinstance(row, FileRow))


def _as_yaml(rows: Iterable[Row]) -> str:
    tenants = []
    for (tenant, queue), of in groupby(rows, key=lambda row: (row.tenant, row.queue)):
        block: dict[str, Any] = {"tenant": tenant, **({"queue": queue} if queue else {})}
        for row in of:
            if isinstance(row, PoolRow):
                name = f"{row.cluster}/{row.flavor}" if row.cluster else row.flavor
                block.setdefault("pools", {})[name] = _pool(row)
            else:
                block.setdefault("quotas", []).append(_quota(row))
        tenants.append(block)
    # The innermost mappings are written on one line.
    return yaml.safe_dump(
        {"quotas": tenants}, sort_keys=False, allow_unicode=True, default_flow_style=None, width=_WIDTH
    )


def _pool(row: PoolRow) -> Mapping[str, Any]:
    words = {name: _word(getattr(row, name)) for name in ("gpus", "borrowing_limit", "lending_limit")}
    words["cpu"] = _with_unit(row.cpu, 1000, "", "m")
    words["memory"] = _with_unit(row.memory, 1024, "Gi", "Mi")
    return {name: value for name, value in words.items() if value != ""}


def _with_unit(amount: int | Keep | PoolShare | None, large: int, of_large: str, of_small: str) -> int | str:
    """Return an amount in its larger unit where that is exact."""
    if isinstance(amount, PoolShare):
        return amount.value
    if not isinstance(amount, int) or amount == 0:
        return _word(amount)
    if amount % large:
        return f"{amount}{of_small}"
    return f"{amount // large}{of_large}" if of_large else amount // large


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
    """Prefix text that a spreadsheet would execute as a formula; names never start like one."""
    return f"'{text}" if text.startswith(_FORMULA) else text
