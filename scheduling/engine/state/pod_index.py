"""The placed tasks by row with the facts that affect other tasks: labels, anti-affinity, groups.

Only tasks whose rules name such facts are indexed, so that a fleet without them costs nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from scheduling.engine.model import Expression, PlacementRules, PodTerm
from scheduling.engine.model.labels import matches_expression

Key = TypeVar("Key")


class PodIdentity(NamedTuple):
    """The facts of a task that affinity terms select by: its namespace and its labels, sorted by name."""

    namespace: str
    labels: tuple[tuple[str, str], ...]


class ResolvedPodTerm(NamedTuple):
    """A pod affinity term of one task with its namespaces resolved."""

    topology_key: str
    expressions: tuple[Expression, ...]
    namespaces: tuple[str, ...]

    def selects_pod(self, identity: PodIdentity) -> bool:
        """Return whether the term selects a task."""
        labels = dict(identity.labels)
        return identity.namespace in self.namespaces and all(
            matches_expression(labels, wish) for wish in self.expressions
        )


@dataclass(frozen=True, slots=True)
class PodInfo:
    """The facts of one task that affect others: identity, anti-affinity terms and group."""

    identity: PodIdentity | None = None
    anti_affinity: tuple[ResolvedPodTerm, ...] = ()
    group: str = ""


def find_pod_identity(rules: PlacementRules) -> PodIdentity | None:
    """Return the identity of a task; None without a namespace, because then no term selects it."""
    return PodIdentity(rules.namespace, tuple(sorted(rules.labels.items()))) if rules.namespace else None


def resolve_terms(terms: Iterable[PodTerm], namespace: str) -> tuple[ResolvedPodTerm, ...]:
    """Return the terms of a task of this namespace with their namespaces resolved."""
    return tuple(
        ResolvedPodTerm(
            term.topology_key, term.expressions, tuple(sorted(set(term.namespaces))) or (namespace,)
        )
        for term in terms
    )


def find_pod_info(rules: PlacementRules) -> PodInfo | None:
    """Return the facts of a task with these rules that affect others; None if there are none."""
    if not (rules.namespace or rules.group):
        return None
    identity = find_pod_identity(rules)
    terms = () if identity is None else resolve_terms(rules.pod_anti_affinity, identity.namespace)
    return PodInfo(identity, terms, rules.group)


CountByRow = dict[int, int]
"""The number of tasks by row."""


class PodIndex:
    """The facts of a fleet's tasks by row; `version` counts the changes."""

    def __init__(self) -> None:
        self.version = 0
        self.identities: dict[PodIdentity, CountByRow] = {}
        self.anti_affinity: dict[ResolvedPodTerm, CountByRow] = {}
        self.groups: dict[str, CountByRow] = {}
        self._tasks: dict[str, tuple[int, PodInfo]] = {}

    def copy(self) -> PodIndex:
        """Return an independent copy."""
        twin = PodIndex()
        twin.version = self.version
        twin.identities = {identity: dict(rows) for identity, rows in self.identities.items()}
        twin.anti_affinity = {term: dict(rows) for term, rows in self.anti_affinity.items()}
        twin.groups = {group: dict(rows) for group, rows in self.groups.items()}
        twin._tasks = dict(self._tasks)
        return twin

    def add_pod(self, task: str, row: int, pod: PodInfo) -> None:
        """Add a task to a row; its id must not be in the index."""
        self._tasks[task] = (row, pod)
        self._count(row, pod, 1)

    def remove_pod(self, task: str) -> int | None:
        """Remove a task, and return its row; None if it is not in the index."""
        known = self._tasks.pop(task, None)
        if known is None:
            return None
        row, pod = known
        self._count(row, pod, -1)
        return row

    def _count(self, row: int, pod: PodInfo, sign: int) -> None:
        self.version += 1
        if pod.identity is not None:
            _add(self.identities, pod.identity, row, sign)
        for term in pod.anti_affinity:
            _add(self.anti_affinity, term, row, sign)
        if pod.group:
            _add(self.groups, pod.group, row, sign)


def _add(counts: dict[Key, CountByRow], key: Key, row: int, sign: int) -> None:
    places = counts.setdefault(key, {})
    places[row] = places.get(row, 0) + sign
    if not places[row]:
        del places[row]
        if not places:
            del counts[key]
