"""Replays of recorded periods, against the replay of traces and against waits that are computed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from foundation.core.quantities import Resource
from scheduling.engine import Snapshot, run_cycle
from scheduling.engine.model import Allocation, Charge, CycleResult, DecisionKind, DeviceSlice, Quota
from scheduling.prediction import virtual_cell
from scheduling.simulation import history_replay
from scheduling.simulation.clock import Record, Replay
from scheduling.simulation.history_replay import QuotaStep, RecordedJob, Scenario, replay_scenario
from scheduling.simulation.philly import TraceJob, TraceTenant
from scheduling.simulation.pools import SHARED, PoolPolicy, build_config, build_world, engine_job, pool_policy
from scheduling.simulation.replay_tally import JobFacts, JobWait, ReplayTally, find_quantile

BEGIN = 1_000
LONG = 1_000_000


def recorded(job: TraceJob, policy: PoolPolicy, **fields: Any) -> RecordedJob:
    made = engine_job(job, policy, 8)
    return RecordedJob(
        job=made, team=job.tenant, points=100 * job.gpus, work_s=float(job.duration_s), **fields
    )


def scenario(
    jobs: Sequence[RecordedJob], tenants: Sequence[TraceTenant], policy: PoolPolicy, **fields: Any
) -> Scenario:
    cell: Snapshot = build_world(tenants, policy)
    parts: dict[str, Any] = {
        "begin": float(BEGIN),
        "end": float(LONG),
        "config": build_config(policy),
        "nodes": cell.export_nodes(),
        "flavors": tuple(cell.flavors.values()),
        "quota_nodes": cell.export_quota_nodes(),
        "queues": tuple(cell.queues.values()),
        "jobs": jobs,
        "team_nodes": {tenant.name: tenant.name for tenant in tenants},
    }
    return Scenario(**parts | fields)


def trace(count: int, seed: int) -> list[TraceJob]:
    random, at, jobs = Random(seed), BEGIN, []
    for row in range(count):
        at += random.randrange(0, 400)
        gpus = random.choice((1, 1, 2, 4, 8, 16))
        jobs.append(TraceJob(row, f"j{row}", random.choice("ab"), at, gpus, random.randrange(60, 4_000)))
    return jobs


def waits_of(figures: dict[str, Any], records: Sequence[Record]) -> None:
    """Compare each team's quantiles of waits with those of the records of a trace replay."""
    for team, found in figures["teams"].items():
        queues = [record.queue_s for record in records if record.job.tenant == team]
        waits = [JobWait(float(queue)) for queue in queues if queue is not None]
        for level, key in ((0.5, "wait_median"), (0.9, "wait_p90")):
            assert (expected := find_quantile(waits, level)) is not None
            assert found[key] == expected.to_json()


@pytest.mark.parametrize("name", ["static-fifo", "shared-fifo", "shared-fifo-skip", "quota"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_simulated_period_replays_as_it_was(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    # Replays of traces run cycles at events alone, where the platform also runs them as time passes.
    monkeypatch.setattr(history_replay, "GRID", replace(history_replay.GRID, tick_s=float(LONG)))
    policy = pool_policy(name)
    tenants = [TraceTenant("a", 2, 8), TraceTenant("b", 1, 8)]
    jobs = [one for one in trace(60, seed) if one.gpus <= (16 if one.tenant == "a" else 8)]

    records = Replay(tenants, policy).run(jobs)
    figures = replay_scenario(scenario([recorded(job, policy) for job in jobs], tenants, policy))

    waits_of(figures, records)
    assert figures["total"]["preemptions"] == sum(record.evictions for record in records)
    assert figures["total"]["not_started"] == 0
    lost = sum(record.job.gpus * record.lost_s for record in records)
    assert figures["total"]["lost_gpu_hours"] == pytest.approx(lost / 3_600, abs=0.001)
    run = sum(job.gpus * job.duration_s for job in jobs) + lost
    assert figures["total"]["gpu_hours"] == pytest.approx(run / 3_600, abs=0.01)


def test_twice_the_nodes_give_the_waits_that_they_must() -> None:
    policy = pool_policy("shared-fifo")
    # Eight jobs of a whole node at once: on one node the n-th waits n hours, on two half of that.
    jobs = [recorded(TraceJob(row, f"j{row}", "a", BEGIN, 8, 3_600), policy) for row in range(8)]

    one = replay_scenario(scenario(jobs, [TraceTenant("a", 1, 8)], policy))
    two = replay_scenario(scenario(jobs, [TraceTenant("a", 2, 8)], policy))

    assert one["total"]["wait_median"]["seconds"] == 3 * 3_600
    assert one["total"]["wait_p90"]["seconds"] == 7 * 3_600
    assert two["total"]["wait_median"]["seconds"] == 1 * 3_600
    assert two["total"]["wait_p90"]["seconds"] == 3 * 3_600
    assert (one["gpus"], two["gpus"]) == (8, 16)
    assert one["allocation_rate"] == pytest.approx(2 * two["allocation_rate"], rel=1e-4)


def test_jobs_without_a_known_end_run_on_and_the_waits_behind_them_are_lower_bounds() -> None:
    policy, tenants = pool_policy("shared-fifo"), [TraceTenant("a", 1, 8)]
    first = replace(recorded(TraceJob(0, "j0", "a", BEGIN, 8, 60), policy), work_s=None)
    second = recorded(TraceJob(1, "j1", "a", BEGIN + 100, 8, 60), policy)

    found = replay_scenario(scenario([first, second], tenants, policy, end=BEGIN + 10_000.0))["total"]

    assert found["not_started"] == 1
    assert found["wait_p90"] == {"seconds": 9_900, "at_least": True}
    assert found["wait_median"] == {"seconds": 0, "at_least": False}


def test_a_job_that_was_withdrawn_while_pending_ends_at_the_same_time() -> None:
    policy, tenants = pool_policy("shared-fifo"), [TraceTenant("a", 1, 8)]
    long = recorded(TraceJob(0, "j0", "a", BEGIN, 8, 1_000), policy)
    given_up = replace(
        recorded(TraceJob(1, "j1", "a", BEGIN, 8, 1), policy), work_s=None, withdrawn_at=BEGIN + 300.0
    )
    after = recorded(TraceJob(2, "j2", "a", BEGIN, 8, 60), policy)

    found = replay_scenario(scenario([long, given_up, after], tenants, policy))["total"]
    doubled = replay_scenario(scenario([long, given_up, after], [TraceTenant("a", 2, 8)], policy))["total"]

    assert (found["not_started"], found["wait_p90"]["seconds"]) == (1, 1_000)
    # On a second node it starts at once and ends when its user gave it up.
    assert (doubled["not_started"], doubled["wait_p90"]["seconds"]) == (0, 300)


def test_what_ran_when_the_period_began_keeps_its_place_and_runs_out() -> None:
    policy, tenants = pool_policy("shared-fifo"), [TraceTenant("a", 1, 8)]
    cell = build_world(tenants, policy)
    node = cell.export_nodes()[0]
    held = Allocation(
        job="00000000",
        queue=SHARED,
        role="worker",
        index=0,
        flavor=SHARED,
        node=node.id,
        slices=tuple(DeviceSlice(device.uuid, 100, 0, True) for device in node.devices),
        charges=(Charge(SHARED, Resource.GPU_CARDS, 8),),
    )
    before = recorded(
        TraceJob(0, "j0", "a", BEGIN - 500, 8, 800), policy, holds=(held,), held_since=BEGIN - 400.0
    )
    new = recorded(TraceJob(1, "j1", "a", BEGIN, 8, 60), policy)

    found = replay_scenario(scenario([before, new], tenants, policy))["total"]

    assert (found["jobs"], found["wait_median"]["seconds"]) == (1, 400)
    # On another machine it cannot run on: it waits, first in its queue.
    gone = [replace(one, id="another", name="another") for one in cell.export_nodes()]
    found = replay_scenario(scenario([before, new], tenants, policy, nodes=gone))["total"]
    assert found["wait_median"]["seconds"] == 800


def test_a_quota_that_changes_in_the_period_counts_from_then_on() -> None:
    policy = pool_policy("quota")
    tenants = [TraceTenant("a", 1, 8), TraceTenant("b", 1, 8)]
    job = recorded(TraceJob(0, "j0", "a", BEGIN, 8, 60), policy)
    none = [
        replace(node, quotas=_cards(node.quotas, 0))
        for node in build_world(tenants, policy).export_quota_nodes()
    ]
    own = next(node for node in none if node.id == "a").quotas
    step = QuotaStep(BEGIN + 600.0, {"a": _cards(own, 8)})

    found = replay_scenario(scenario([job], tenants, policy, quota_nodes=none, quota_steps=[step]))["total"]

    assert found["wait_median"]["seconds"] == 600


def _cards(quotas: Sequence[Quota], amount: int) -> tuple[Quota, ...]:
    return tuple(
        replace(quota, own_nominal=amount) if quota.resource == Resource.GPU_CARDS else quota
        for quota in quotas
    )


def test_an_eviction_that_two_actions_decide_counts_once(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = pool_policy("quota")
    tenants = [TraceTenant("a", 1, 8), TraceTenant("b", 1, 8)]
    # Two jobs of b take both nodes; the owner of one of them comes later and has one evicted.
    jobs = [recorded(TraceJob(row, f"b{row}", "b", BEGIN, 8, 40_000), policy) for row in range(2)]
    jobs.append(recorded(TraceJob(2, "a2", "a", BEGIN + 20_000, 8, 60), policy))
    once = replay_scenario(scenario(jobs, tenants, policy))

    def decide_twice(*arguments: Any) -> CycleResult:
        result = run_cycle(*arguments)
        evictions = [one for one in result.decisions if one.kind is DecisionKind.EVICT]
        return replace(result, decisions=(*evictions, *result.decisions))

    monkeypatch.setattr(virtual_cell, "run_cycle", decide_twice)
    twice = replay_scenario(scenario(jobs, tenants, policy))

    assert once["total"]["preemptions"] == 1
    assert twice["total"] == once["total"]


def test_waiting_inside_the_nominal_quota_is_counted_after_a_minute_and_outside_never() -> None:
    facts = {name: JobFacts("a", ("pool",), points, True) for name, points in (("x", 400), ("y", 300))}
    tally = ReplayTally(facts, {("a", "pool"): 600}, begin=0.0, end=10_000.0)
    tally.submit_job(0.0, "x")
    tally.start_job(50.0, "x", {"pool": 400})  # 50 s inside: no longer than a start takes.
    tally.submit_job(100.0, "y")  # Outside: 400 of 600 are used.
    tally.finish_job(1_000.0, "x")  # Inside from here on.
    tally.start_job(1_500.0, "y", {"pool": 300})
    tally.close_period()

    figures = tally.to_json(capacity={"pool": 800})

    assert figures["teams"]["a"]["inside_quota_s"] == 500
    assert figures["teams"]["a"]["gpu_hours"] == pytest.approx((4 * 950 + 3 * 8_500) / 3_600, abs=0.001)
    assert figures["allocation_rate"] == pytest.approx((4 * 950 + 3 * 8_500) / (8 * 10_000), abs=1e-6)
    # 167 buckets of a minute, the last one shorter.
    assert (figures["bucket_s"], len(figures["allocated_gpus"])) == (60, 167)
    assert figures["allocated_gpus"][:2] == [pytest.approx(4 * 10 / 60, abs=1e-3), 4.0]
    assert figures["allocated_gpus"][-1] == 3.0


def test_quantiles_above_an_open_wait_are_lower_bounds() -> None:
    waits = [JobWait(10.0), JobWait(20.0, at_least=True), JobWait(30.0)]
    assert find_quantile(waits, 0.3) == JobWait(10.0)
    assert find_quantile(waits, 0.9) == JobWait(30.0, at_least=True)
    assert find_quantile([], 0.5) is None
