"""The preview of a rule over the last day: its line, its gaps, and how often it would have fired."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from alerts.metrics import events, history
from alerts.metrics.catalogue import METRICS
from alerts.metrics.events import JOB_EVENTS, NODE_EVENTS
from alerts.models import AlertRule
from alerts.selectors.rule_history import RuleHistory, read_rule_history
from clusters.models import NodeEvent
from foundation.core import clock
from foundation.core.errors import NotFound
from frontend.pages.alerts.rule_preview import describe_preview
from scheduling.lifecycle.transitions import add_event
from scheduling.models import Attempt, Job
from tests.builders import jobs
from tests.builders.clusters import cluster
from tests.integration.telemetry.conftest import Bench, make_bench


@pytest.fixture
def bench(db: None) -> Iterator[Bench]:
    with make_bench() as made:
        yield made


def _read(bench: Bench, **values: Any) -> RuleHistory | None:
    facts = {"name": "r", "comparison": "above", "hold_s": 0, "resolve_s": 0} | values
    return read_rule_history(bench.world.platform_admin, AlertRule(**facts), now=clock.now())


def test_gpus_that_were_hot_twice_would_have_fired_twice_and_a_gap_is_none(bench: Bench) -> None:
    calm, busy = {"load": 0.0}, {"load": 20.0}
    at = bench.ticks(30, every_s=60, **calm)
    at = bench.ticks(30, at, every_s=60, **busy)
    at = bench.ticks(30, at + timedelta(hours=2), every_s=60, **calm)
    bench.ticks(30, at, every_s=60, **busy)
    hot = {"metric": "gpu.utilization_percent", "threshold": 50}
    found = _read(bench, **hot)
    assert found is not None and found.measured is not None
    values = [value for _at, value in found.extreme]
    assert max(value for value in values if value is not None) == 90
    known = [place for place, value in enumerate(values) if value is not None]
    assert None in values[known[0] : known[-1]], "two hours without samples are no value"
    assert found.fired == 3, "one GPU twice, and one that was busy all the time once"
    steady = _read(bench, metric="gpu.utilization_percent", threshold=95)
    assert steady is not None and steady.fired == 0
    assert _read(bench, **hot, hold_s=24 * 3600).fired == 0  # type: ignore[union-attr]
    assert _read(bench, metric="gpu.unhealthy", threshold=0) is None
    assert _read(bench, **hot, tenant=bench.world.workspace) is None, "GPUs are not the tenant's to see"


def test_where_nothing_was_measured_the_preview_does_not_say_zero(bench: Bench) -> None:
    rule = AlertRule(metric="gpu.utilization_percent", comparison="above", threshold=1, hold_s=0, resolve_s=0)
    assert describe_preview(bench.world.platform_admin, rule).past == (
        "No values were measured in the last 24 hours."
    )


def test_the_preview_names_the_jobs_that_it_leaves_out(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    w, now = bench.world, clock.now()
    Job.unscoped.all().delete()
    monkeypatch.setattr(history, "_JOBS_MAX", 1)
    for name, hours in (("older", 9), ("newer", 5)):
        jobs.job(w.queue, w.editor, name, submitted_at=now - timedelta(hours=hours))
    rule = AlertRule(
        tenant=w.workspace,
        metric="job.pending_s",
        comparison="above",
        threshold=4 * 3600,
        hold_s=0,
        resolve_s=0,
    )
    assert describe_preview(w.platform_admin, rule).past == (
        "In the last 24 hours, this rule would have fired 1 time. "
        "Only the 1 jobs submitted last are considered."
    )


def test_the_waits_of_jobs_count_runs_and_suspensions_and_own_jobs_only(bench: Bench) -> None:
    w, now = bench.world, clock.now()
    Job.unscoped.all().delete()

    def hours(number: float) -> timedelta:
        return timedelta(hours=number)

    slow = jobs.job(w.queue, w.editor, "slow", submitted_at=now - hours(20))
    Attempt.unscoped.create(
        job=slow, number=1, epoch=1, admitted_at=now - hours(18), ended_at=now - hours(10), end_reason="X"
    )
    add_event(slow, "suspended", now=now - hours(9))
    add_event(slow, "resumed", now=now - hours(3))
    jobs.job(w.other_queue, w.outsider, "theirs", submitted_at=now - hours(9))
    rule = {"metric": "job.pending_s", "threshold": 1.5 * 3600, "tenant": w.workspace}
    found = _read(bench, **rule)
    assert found is not None
    assert found.fired == 2, "after 1.5 of the first 2 hours, and after the resume; not in the hour between"
    assert max(value for _at, value in found.extreme if value is not None) == pytest.approx(3 * 3600, abs=300)
    everywhere = _read(bench, **rule | {"tenant": None})
    assert everywhere is not None and everywhere.fired == 3
    with pytest.raises(NotFound):
        read_rule_history(w.outsider, AlertRule(name="r", comparison="above", **rule), now=now)


def test_events_of_jobs_and_nodes_are_previewed_as_they_are_counted(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two evictions within 15 minutes fire, a third alone does not."""
    w, now = bench.world, clock.now()
    job, other = jobs.job(w.queue, w.editor), jobs.job(w.other_queue, w.outsider)
    for hours, minutes in ((20, 0), (20, 8), (12, 0), (3, 1), (3, 0)):
        at = now - timedelta(hours=hours, minutes=minutes)
        add_event(job, "evicting", now=at, numbers={"rule": "RECLAIM_NOMINAL"})
        add_event(job, "evicting", now=at, numbers={"rule": "USER"})
        add_event(other, "evicting", now=at, numbers={"rule": "NODE_LOST"})
    twice = {"metric": "job.evictions", "threshold": 1}
    found = _read(bench, **twice, tenant=w.workspace)
    assert found is not None and (found.fired, max(value for _at, value in found.extreme)) == (2, 2.0)
    assert [value for _at, value in found.extreme].count(0.0) > 200
    assert _read(bench, **twice).fired == 4  # type: ignore[union-attr]
    assert _read(bench, **twice | {"metric": "job.preemptions"}).fired == 2  # type: ignore[union-attr]
    node = bench.world.nodes[0]
    for hours in (20, 19, 1):
        NodeEvent.unscoped.create(
            node=node, at=now - timedelta(hours=hours), code="cards-lost", numbers={"cards": 3}
        )
    lost = {"metric": "node.gpu_losses", "threshold": 2}
    assert _read(bench, **lost, cluster=node.cluster).fired == 3  # type: ignore[union-attr]
    assert _read(bench, **lost, cluster=cluster(w.cell, "elsewhere")).fired == 0  # type: ignore[union-attr]
    monkeypatch.setattr(events, "_NEWEST", 4)
    rule = AlertRule(**twice, comparison="above", hold_s=0, resolve_s=0)
    assert "Times before 20" in describe_preview(w.platform_admin, rule).past


def test_each_metric_has_a_preview_or_says_why_not(bench: Bench) -> None:
    """The reasons are of metrics without a reader, and the readers of metrics that exist."""
    readable = [metric.name for metric in METRICS if history.find_reader(metric.name)]
    assert {metric.name for metric in (*JOB_EVENTS, *NODE_EVENTS)} <= set(readable)
    for metric in METRICS:
        rule = AlertRule(metric=metric.name, comparison="above", threshold=1, hold_s=0, resolve_s=0)
        past = describe_preview(bench.world.platform_admin, rule).past
        told = "can't be previewed" in past or "No history is stored" in past
        assert told is (metric.name not in readable), (metric.name, past)
    assert "only the current amount" in _past("quota.reserved_percent", bench)


def _past(metric: str, bench: Bench) -> str:
    rule = AlertRule(metric=metric, comparison="above", threshold=1, hold_s=0, resolve_s=0)
    return describe_preview(bench.world.platform_admin, rule).past
