"""The changes of tasks and allocations by a batch of observations, written together at its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from foundation.sql.bulk import Guard, update_rows
from scheduling.models import Allocation, Task

Row = Task | Allocation
# Rows must be as they were read: they are locked, so a guard that fails shows a fault in the order of locks.
_GUARDS: Final = {Task: Guard(same=("state",)), Allocation: Guard(where={"removed_at": None})}
_HELD: Final = Guard(where={"removed_at": None, "released_at": None})


class NotLocked(RuntimeError):
    """Another transaction changed a row that this transaction has locked; it must be rolled back."""


class RowChanges:
    """The changed rows of one transaction, which has locked their jobs, with the fields to write.

    The objects change at once, so that later observations of the batch see the changes.
    """

    def __init__(self) -> None:
        self._names: dict[Row, set[str]] = {}
        self._states: dict[Row, str] = {}

    def set_fields(self, row: Row, **fields: Any) -> None:
        """Change fields of a row object; `write_changes` writes them."""
        if isinstance(row, Task):
            self._states.setdefault(row, row.state)
        for name, value in fields.items():
            setattr(row, name, value)
        self._names.setdefault(row, set()).update(fields)

    def write_changes(self) -> None:
        """Write all changes, with one statement for all rows that change the same fields.

        Raises: NotLocked.
        """
        by_fields: defaultdict[tuple[type[Row], tuple[str, ...]], list[Row]] = defaultdict(list)
        for row, changed in self._names.items():
            by_fields[type(row), tuple(sorted(changed))].append(row)
        for (model, names), rows in by_fields.items():
            guard = _HELD if "released_at" in names else _GUARDS[model]
            written = update_rows(model, names, map(self._values, rows), guard=guard)
            if len(written) < len(rows):
                raise NotLocked(f"{len(rows) - len(written)} rows of {model.__name__} were changed meanwhile")
        self._names.clear()
        self._states.clear()

    def _values(self, row: Row) -> Sequence[Any]:
        own = [getattr(row, name) for name in sorted(self._names[row])]
        return [row.pk, *own, *([self._states[row]] if row in self._states else [])]
