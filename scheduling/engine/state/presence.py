"""Who stands where, as far as it matters to others: labels, terms, host ports, groups.

Only tasks whose rules speak of such things are kept, so that a fleet without them pays nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from scheduling.engine.model import Expression, HostPort, PlacementRules, PodTerm
from scheduling.engine.model.labels import holds

Key = TypeVar("Key")


class Kin(NamedTuple):
    """What terms look at in a task: its namespace and its labels, sorted by name."""

    namespace: str
    labels: tuple[tuple[str, str], ...]


class Sought(NamedTuple):
    """A term of one task with the namespaces that it means spelled out."""

    topology_key: str
    expressions: tuple[Expression, ...]
    namespaces: tuple[str, ...]

    def means(self, kin: Kin) -> bool:
        """Whether a task is one of those that the term speaks of."""
        labels = dict(kin.labels)
        return kin.namespace in self.namespaces and all(holds(labels, wish) for wish in self.expressions)


@dataclass(frozen=True, slots=True)
class Presence:
    """One task as others meet it: its kin, whom it keeps away, its ports, its group."""

    kin: Kin | None = None
    apart: tuple[Sought, ...] = ()
    ports: tuple[HostPort, ...] = ()
    group: str = ""


def kin_of(rules: PlacementRules) -> Kin | None:
    """The kin of a task; None without a namespace, and then no term means it."""
    return Kin(rules.namespace, tuple(sorted(rules.labels.items()))) if rules.namespace else None


def sought(terms: Iterable[PodTerm], namespace: str) -> tuple[Sought, ...]:
    """Terms as a task of this namespace means them."""
    return tuple(
        Sought(term.topology_key, term.expressions, tuple(sorted(set(term.namespaces))) or (namespace,))
        for term in terms
    )


def presence_of(rules: PlacementRules) -> Presence | None:
    """What a task under these rules means to others; None when it means nothing to anybody."""
    if not (rules.namespace or rules.ports or rules.group):
        return None
    kin = kin_of(rules)
    apart = () if kin is None else sought(rules.pod_anti_affinity, kin.namespace)
    return Presence(kin, apart, rules.ports, rules.group)


Places = dict[int, int]
"""How many by row."""


class Presences:
    """The presences of a fleet's tasks, by row. `version` counts changes."""

    def __init__(self) -> None:
        self.version = 0
        self.kin: dict[Kin, Places] = {}
        self.apart: dict[Sought, Places] = {}
        self.groups: dict[str, Places] = {}
        self.ports: dict[int, list[HostPort]] = {}
        self._tasks: dict[str, tuple[int, Presence]] = {}

    def copy(self) -> Presences:
        """The same presences, which then go their own way."""
        twin = Presences()
        twin.version = self.version
        twin.kin = {kin: dict(places) for kin, places in self.kin.items()}
        twin.apart = {term: dict(places) for term, places in self.apart.items()}
        twin.groups = {group: dict(places) for group, places in self.groups.items()}
        twin.ports = {row: list(ports) for row, ports in self.ports.items()}
        twin._tasks = dict(self._tasks)
        return twin

    def put(self, task: str, row: int, presence: Presence) -> None:
        """A task came to a row. Its id must not be there."""
        self._tasks[task] = (row, presence)
        self._count(row, presence, 1)
        if presence.ports:
            self.ports.setdefault(row, []).extend(presence.ports)

    def drop(self, task: str) -> int | None:
        """A task left; the row where it was, None where it meant nothing to anybody."""
        known = self._tasks.pop(task, None)
        if known is None:
            return None
        row, presence = known
        self._count(row, presence, -1)
        if presence.ports:
            held = self.ports[row]
            for port in presence.ports:
                held.remove(port)
            if not held:
                del self.ports[row]
        return row

    def _count(self, row: int, presence: Presence, sign: int) -> None:
        self.version += 1
        if presence.kin is not None:
            _add(self.kin, presence.kin, row, sign)
        for term in presence.apart:
            _add(self.apart, term, row, sign)
        if presence.group:
            _add(self.groups, presence.group, row, sign)


def _add(counts: dict[Key, Places], key: Key, row: int, sign: int) -> None:
    places = counts.setdefault(key, {})
    places[row] = places.get(row, 0) + sign
    if not places[row]:
        del places[row]
        if not places:
            del counts[key]
