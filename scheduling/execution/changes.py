"""The changes that a batch of observations makes in tasks and allocations, written together at its end."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

from foundation.sql.bulk import Guard, update_rows
from scheduling.models import Allocation, Task

Row = Task | Allocation
# As they were read: the rows are locked, so a guard that fails is a fault in the order of locks.
_GUARDS: Final = {Task: Guard(same=("state",)), Allocation: Guard(where={"removed_at": None})}
_HELD: Final = Guard(where={"removed_at": None, "released_at": None})


class NotLocked(RuntimeError):
    """Somebody changed a row that this transaction had to itself; nothing of it may be kept."""


class RowChanges:
    """Rows of one transaction, which has locked their jobs, with the fields that are to be written.

    The objects change at once, so what comes later in the batch sees it.
    """

    def __init__(self) -> None:
        self._names: dict[Row, set[str]] = {}
        self._states: dict[Row, str] = {}

    def set_fields(self, row: Row, **fields: Any) -> None:
        """Change a row, to be written by `write_changes`."""
        if isinstance(row, Task):
            self._states.setdefault(row, row.state)
        for name, value in fields.items():
            setattr(row, name, value)
        self._names.setdefault(row, set()).update(fields)

    def write_changes(self) -> None:
        """Write everything, one statement for those rows that change in the same fields.

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
