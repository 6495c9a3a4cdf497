"""Whom a promised job waits for: its victims, and of the others that are leaving those it needs gone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from quotas.tree import is_at_least
from scheduling.engine.actions.admission.entry import Entry
from scheduling.engine.actions.admission.outlook import Outlook
from scheduling.engine.model import Allocation, FlavorResource
from scheduling.engine.state.charges import priced
from scheduling.engine.state.snapshot import Snapshot


class Awaiting:
    """Keeps what quota is really held: what was only promised is not, until its job starts."""

    def __init__(self, snapshot: Snapshot, outlook: Outlook) -> None:
        self._snapshot, self._outlook = snapshot, outlook
        self._held = snapshot.quota.copy()

    def started(self, placed: Iterable[Allocation], replaced: Iterable[Allocation] = ()) -> None:
        """These are held from now on, and in their stead others no more."""
        for allocation in replaced:
            self._held.defer_usage(self._leaf(allocation), priced(allocation.charges), -1)
        for allocation in placed:
            self._held.defer_usage(self._leaf(allocation), priced(allocation.charges), 1)

    def of(self, entry: Entry, victims: tuple[str, ...]) -> tuple[str, ...]:
        """Its victims, all that leave where it will stand, and who else must go until quota lets it in."""
        nodes = dict.fromkeys(allocation.node for allocation in entry.placed if allocation.node)
        awaited = dict.fromkeys((*victims, *self._outlook.on(nodes)))
        gone = [held for held in map(self._snapshot.standing, awaited) if held is not None]
        for held in gone:
            self._held.defer_usage(self._leaf(held), priced(held.charges), -1)
        others = self._others(entry, awaited)
        while not self._fits(entry) and (other := next(others, None)) is not None:
            self._held.defer_usage(self._leaf(other), priced(other.charges), -1)
            gone.append(other)
        for held in gone:
            self._held.defer_usage(self._leaf(held), priced(held.charges), 1)
        return tuple(held.id for held in gone)

    def _others(self, entry: Entry, awaited: dict[str, None]) -> Iterator[Allocation]:
        """Further leavers with something of what it asks for: those of its own queue first."""
        keys = frozenset(key for key, amount in entry.assignment.usage.items() if amount)
        leaving = [key for key in self._outlook.ids() if key not in awaited]
        for own in (True, False):
            for held in map(self._snapshot.standing, leaving):
                if held is not None and (held.queue == entry.queue.id) is own and _uses(held, keys):
                    yield held

    def _fits(self, entry: Entry) -> bool:
        leaf = entry.queue.quota_node
        return all(
            not amount or is_at_least(self._held.available(leaf, key), amount)
            for key, amount in entry.assignment.usage.items()
        )

    def _leaf(self, held: Allocation) -> str:
        return self._snapshot.queues[held.queue].quota_node


def _uses(held: Allocation, keys: frozenset[FlavorResource]) -> bool:
    return any(charge.key in keys for charge in held.charges)
