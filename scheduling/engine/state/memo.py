"""This module reads memos: what a snapshot or a fleet keeps under a key until the facts behind it change."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class FleetTable(dict[Any, Any]):
    """A table in the memo of a fleet whose values follow the changes of the fleet themselves."""

    follows_fleet = True


def read_memo(memo: dict[Any, Any], key: Hashable, compute: Callable[[], T]) -> T:
    """Return what a memo has under a key, computed when it is first read. A key always has the same type."""
    known: T | None = memo.get(key)
    if known is None:
        known = memo[key] = compute()
    return known


def read_fleet_table(memo: dict[Any, Any], key: Hashable, most: int) -> FleetTable:
    """Return the table in a fleet's memo under a key, emptied once it has more than `most` entries."""
    table = read_memo(memo, key, FleetTable)
    if len(table) > most:
        table.clear()
    return table
