"""Finds the observations that a rule covers, and those that meet its condition, without reading all of them.

The observations of a metric are sorted once for all rules that use it. The cost of a rule then depends on how
many observations meet its condition, so many rules on one metric, such as one for each tenant, stay cheap.
"""

from __future__ import annotations

import uuid
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter

from alerts.evaluation.transitions import Condition
from alerts.metrics.base import MetricReading, Observation
from alerts.models import AlertRule, Comparison
from clusters.models import Cluster

_AFTER_ALL = chr(0x10FFFF)


@dataclass(frozen=True, slots=True)
class CoveredObservations:
    """The observations in the scope of a rule: by subject, and those with a value in ascending order.

    `silent_clusters` are clusters whose subjects should have values, and none of them has one.
    """

    by_subject: dict[str, Observation]
    silent_clusters: frozenset[uuid.UUID]
    ordered: Sequence[Observation]
    values: Sequence[float]

    def find_matches(self, condition: Condition) -> Sequence[Observation]:
        """Return the observations that meet the condition, the one furthest beyond the threshold first."""
        if condition.comparison == Comparison.ABOVE:
            return self.ordered[bisect_right(self.values, condition.threshold) :][::-1]
        return self.ordered[: bisect_left(self.values, condition.threshold)]


class ObservationIndex:
    """The observations of one metric at one time, by tenant and cluster."""

    def __init__(self, reading: MetricReading) -> None:
        self.unread_clusters = list(reading.unread_clusters)
        self.error = reading.error
        self._unread_subjects = reading.unread_subjects
        self._by_path = sorted(reading.observations, key=attrgetter("tenant_path"))
        self._paths = [each.tenant_path for each in self._by_path]
        self._scopes: dict[tuple[str, uuid.UUID | None], CoveredObservations] = {}

    def is_unread(self, subject: str) -> bool:
        """Return whether a subject belongs to the part of the metric that could not be read."""
        return subject.startswith(self._unread_subjects)

    def name_clusters(self, clusters: Iterable[uuid.UUID | None]) -> list[str]:
        """Return the sorted names of those clusters that still exist."""
        return sorted(self._names[pk] for pk in clusters if pk is not None and pk in self._names)

    @cached_property
    def _names(self) -> dict[uuid.UUID, str]:
        """The names of all clusters, read once for all rules, when the first of them needs one."""
        return dict(Cluster.unscoped.order_by().values_list("pk", "name"))

    def select_covered(self, rule: AlertRule) -> CoveredObservations:
        """Return the observations that a rule covers: those of its tenant and below, and of its cluster."""
        scope = (rule.tenant.path if rule.tenant is not None else "", rule.cluster_id)
        found = self._scopes.get(scope)
        if found is None:
            found = self._scopes[scope] = self._gather(*scope)
        return found

    def _gather(self, path: str, cluster_id: uuid.UUID | None) -> CoveredObservations:
        first, last = bisect_left(self._paths, path), bisect_left(self._paths, path + _AFTER_ALL)
        by_subject = {
            each.subject: each
            for each in self._by_path[first:last]
            if cluster_id is None or each.cluster_id == cluster_id
        }
        known = ((each.value, each) for each in by_subject.values() if each.value is not None)
        pairs = sorted(known, key=lambda pair: pair[0])
        ordered = [each for _, each in pairs]
        supported = (each for each in by_subject.values() if each.is_supported)
        silent = _find_clusters(supported) - _find_clusters(ordered)
        return CoveredObservations(by_subject, silent, ordered, [value for value, _ in pairs])


def _find_clusters(observations: Iterable[Observation]) -> frozenset[uuid.UUID]:
    return frozenset(each.cluster_id for each in observations if each.cluster_id is not None)
