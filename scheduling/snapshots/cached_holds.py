"""The allocations of live tasks of a cell, cached between cycles."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final

from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet

from foundation.sql.prepared import PreparedQuery
from scheduling.engine import model as em
from scheduling.models import Allocation, DeviceSlice
from scheduling.snapshots.holds import HOLD, PART, holds_of

_LEAVING = ExpressionWrapper(Q(removal_asked_at__isnull=False, restarting=False), output_field=BooleanField())


def _live(cell: uuid.UUID) -> QuerySet[Allocation]:
    return Allocation.unscoped.filter(node__cluster__cell_id=cell, released_at__isnull=True)


_HOLDS: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda cell, keys: _live(cell).filter(pk__any_of=keys).order_by("id").values_list(*HOLD)
)
_PARTS: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda keys: (
        DeviceSlice.unscoped.filter(released=False, allocation__pk__any_of=keys)
        .order_by("device__index", "id")
        .values_list(*PART)
    )
)
_MARKS: Final[PreparedQuery[tuple[Any, ...]]] = PreparedQuery(
    lambda cell: _live(cell).values_list("pk", _LEAVING, "revision", "slice_use__wanted_mib")
)


@dataclass(slots=True)
class CachedHolds:
    """Allocations by the key of their row. Only three things of an allocation can change: whether it is
    leaving, its content (with its revision), and the memory that its measured use suggests."""

    cell_id: uuid.UUID
    known: dict[uuid.UUID, em.Allocation] = field(default_factory=dict)
    _marks: dict[uuid.UUID, tuple[bool, int, int | None]] = field(default_factory=dict)

    def read_changes(
        self, watched: Collection[uuid.UUID], turned: Collection[uuid.UUID]
    ) -> tuple[list[em.Allocation], list[em.Allocation]]:
        """Read the changes; return the allocations that were removed or replaced, and the new ones.

        `watched` are the workspaces with pod (anti-)affinity, `turned` those that became watched or no longer
        are.
        """
        rows = _MARKS(self.cell_id)
        marks = {pk: (bool(leaving), revision, wanted) for pk, leaving, revision, wanted in rows}
        known = self.known
        changed = {pk for pk, mark in marks.items() if pk not in known or self._marks.get(pk) != mark}
        if turned:
            met_otherwise = _live(self.cell_id).filter(attempt__job__workspace__in=turned)
            changed |= set(met_otherwise.values_list("pk", flat=True)) & marks.keys()
        found: dict[uuid.UUID, em.Allocation] = {}
        if changed:
            keys = sorted(changed)
            found = holds_of(_HOLDS(self.cell_id, keys), _PARTS(keys), watched)
        removed = [pk for pk in known if pk not in marks or (pk in changed and pk not in found)]
        fresh = {pk: held for pk, held in found.items() if known.get(pk) != held}
        out = [known.pop(pk) for pk in removed] + [known[pk] for pk in fresh if pk in known]
        known.update(fresh)
        self._marks = marks
        return out, list(fresh.values())
