"""The index finds the observations of a rule's tenant and cluster that meet it, like a full scan."""

from __future__ import annotations

import uuid
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from alerts.evaluation.observation_index import ObservationIndex
from alerts.evaluation.transitions import compare_value
from alerts.metrics.base import MetricReading, Observation
from alerts.models import AlertRule, Comparison
from tenants.models import Tenant

CLUSTERS: Final = [None, *(uuid.UUID(int=number) for number in (1, 2))]
# A path that is the beginning of another's text, but not above it, and one without a tenant.
PATHS: Final = ["", "/a/", "/a/b/", "/a/bb/", "/ab/", "/a/b/c/", "/z/", "/a/b/é/"]

OBSERVATION = st.builds(
    Observation,
    subject=st.sampled_from([f"s{number}" for number in range(12)]),
    label=st.just(""),
    value=st.none() | st.sampled_from([-1.0, 0.0, 0.5, 1.0, 1.0, 2.0, 1e9, float("inf")]),
    cluster_id=st.sampled_from(CLUSTERS),
    tenant_path=st.sampled_from(PATHS),
)
RULE = st.builds(
    lambda path, cluster, comparison, threshold: AlertRule(
        tenant=Tenant(path=path) if path else None,
        cluster_id=cluster,
        comparison=comparison,
        threshold=threshold,
    ),
    st.sampled_from(PATHS),
    st.sampled_from(CLUSTERS),
    st.sampled_from(Comparison.values),
    st.sampled_from([-1.0, 0.0, 0.7, 1.0, 3.0]),
)


@given(st.lists(OBSERVATION, max_size=25, unique_by=lambda each: each.subject), st.lists(RULE, max_size=4))
def test_the_index_finds_what_reading_everything_would(
    observations: list[Observation], rules: list[AlertRule]
) -> None:
    index = ObservationIndex(MetricReading(observations))
    for rule in rules:
        path = rule.tenant.path if rule.tenant is not None else ""
        covered = [
            each
            for each in observations
            if each.tenant_path.startswith(path) and rule.cluster_id in (None, each.cluster_id)
        ]
        meeting = [e for e in covered if e.value is not None and compare_value(rule, e.value)]
        found = index.select_covered(rule)
        assert found.by_subject == {each.subject: each for each in covered}
        assert sorted(e.subject for e in found.find_matches(rule)) == sorted(e.subject for e in meeting)
        beyond = [abs((each.value or 0.0) - rule.threshold) for each in found.find_matches(rule)]
        assert beyond == sorted(beyond, reverse=True), "the furthest beyond the threshold come first"


class _Counted(Observation):
    """An observation that counts how often it is looked at."""

    __slots__ = ()
    looks = 0

    def __getattribute__(self, name: str) -> object:
        _Counted.looks += name in ("value", "cluster_id", "tenant_path", "subject")
        return super().__getattribute__(name)


def test_a_further_rule_looks_at_no_observation_that_does_not_concern_it() -> None:
    counted = [_Counted(f"s{number}", "", float(number)) for number in range(1_000)]
    index = ObservationIndex(MetricReading(counted))
    rules = [AlertRule(comparison=Comparison.ABOVE, threshold=995.5 + number) for number in range(4)]
    assert [len(index.select_covered(rule).find_matches(rule)) for rule in rules[:1]] == [4]
    before = _Counted.looks
    assert [len(index.select_covered(rule).find_matches(rule)) for rule in rules] == [4, 3, 2, 1]
    assert _Counted.looks == before
