"""Virtual time, the policies of a replay, and its counts; small traces computed by hand."""

from __future__ import annotations

import pytest

from foundation.core.quantities import Resource
from scheduling.engine import EngineConfig, Snapshot
from scheduling.engine.model import Charge, CycleResult, Decision, DecisionKind, Instant
from scheduling.simulation import clock
from scheduling.simulation.clock import Record
from scheduling.simulation.errors import UsageError
from scheduling.simulation.guarantee import GuaranteeWatch
from scheduling.simulation.philly import TraceJob, TraceTenant, compress_jobs
from scheduling.simulation.pools import pool_policy
from scheduling.simulation.replay import ReplayReport, run_replay
from scheduling.simulation.statistics import ValueSpread

TENANTS = [TraceTenant("a", 1, 8), TraceTenant("b", 1, 8)]


def jobs(*rows: tuple[str, int, int, int]) -> list[TraceJob]:
    """Jobs from (tenant, submit, cards, duration)."""
    return [
        TraceJob(row, f"{tenant}-{row}", tenant, submit, cards, length)
        for row, (tenant, submit, cards, length) in enumerate(rows)
    ]


def starts(report: ReplayReport) -> dict[str, int]:
    return {event.job: event.t_s for event in report.events if event.event == "start"}


TRACE = jobs(("a", 0, 8, 100), ("a", 10, 8, 50), ("a", 20, 2, 10), ("b", 30, 4, 10))


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("static-fifo", {"a-0": 0, "a-1": 100, "a-2": 150, "b-3": 30}),
        ("static-sjf", {"a-0": 0, "a-2": 100, "a-1": 110, "b-3": 30}),
        ("shared-fifo", {"a-0": 0, "a-1": 10, "a-2": 60, "b-3": 60}),
        ("shared-fifo-skip", {"a-0": 0, "a-1": 10, "a-2": 60, "b-3": 60}),
        ("shared-sjf", {"a-0": 0, "a-1": 10, "a-2": 60, "b-3": 60}),
    ],
)
def test_when_jobs_start(policy: str, expected: dict[str, int]) -> None:
    report = run_replay(TRACE, TENANTS, policy=policy)
    assert starts(report) == expected
    assert report.finished == 4


def test_skipping_passes_a_head_that_does_not_fit() -> None:
    trace = jobs(("a", 0, 6, 100), ("a", 1, 16, 10), ("b", 2, 2, 10))
    assert starts(run_replay(trace, TENANTS, policy="shared-fifo"))["b-2"] == 110
    assert starts(run_replay(trace, TENANTS, policy="shared-fifo-skip"))["b-2"] == 2


def test_a_job_of_more_than_one_node_takes_whole_nodes_and_a_small_one_the_fullest() -> None:
    trace = jobs(("a", 0, 12, 10), ("b", 20, 3, 50), ("b", 21, 6, 50), ("b", 22, 2, 50), ("b", 23, 4, 50))
    report = run_replay(trace, TENANTS, policy="shared-fifo")
    nodes = {event.job: event.nodes for event in report.events if event.event == "start"}
    assert nodes == {
        "a-0": ("node-0000", "node-0001"),
        "b-1": ("node-0000",),
        "b-2": ("node-0001",),
        "b-3": ("node-0001",),
        "b-4": ("node-0000",),
    }


def test_completions_come_before_arrivals_and_both_before_the_cycle() -> None:
    trace = jobs(("a", 0, 8, 10), ("a", 10, 8, 0), ("a", 10, 8, 5))
    report = run_replay(trace, TENANTS, policy="static-fifo")
    assert [(event.t_s, event.event, event.job) for event in report.events][2:] == [
        (10, "finish", "a-0"),
        (10, "submit", "a-1"),
        (10, "submit", "a-2"),
        (10, "start", "a-1"),
        (10, "finish", "a-1"),
        (10, "start", "a-2"),
        (15, "finish", "a-2"),
    ]


@pytest.mark.parametrize(("borrowed", "waits", "cycles"), [(0, "b", 1), (4, "b", 2), (4, "a", 1)])
def test_what_is_borrowed_may_be_taken_back_in_the_same_instant(
    monkeypatch: pytest.MonkeyPatch, borrowed: int, waits: str, cycles: int
) -> None:
    asked: list[int] = []

    def engine(snapshot: Snapshot, config: EngineConfig, now: Instant) -> CycleResult:
        asked.append(int(now))
        starting = Decision(
            kind=DecisionKind.ADMIT,
            job="00000000",
            allocations=(),
            borrowed=(Charge("shared", Resource.GPU_CARDS, borrowed),) if borrowed else (),
        )
        return CycleResult(decisions=(starting,) if len(asked) == 1 else (), outcomes=())

    monkeypatch.setattr(clock, "run_cycle", engine)
    clock.Replay(TENANTS, pool_policy("quota")).run(jobs(("a", 0, 12, 50), (waits, 0, 8, 10)))
    assert asked.count(0) == cycles


def test_figures_of_a_report() -> None:
    ticks = iter((5.0, 7.0))
    report = run_replay(TRACE, TENANTS, policy="static-sjf", stopwatch=lambda: next(ticks))
    result = report.to_json()
    assert list(result) == [
        "policy", "jobs", "finished", "makespan_s", "queue_s", "jct_s", "per_tenant", "guarantee_violations",
        "jobs_harmed", "preemptions", "max_evictions_of_one_job", "lost_gpu_hours", "gpu_utilisation",
        "wall_s", "jobs_per_second",
    ]  # fmt: skip
    assert result["queue_s"] == {"mean": 45.0, "p50": 80.0, "p95": 100.0, "p99": 100.0}
    assert result["jct_s"]["mean"] == 87.5
    assert result["makespan_s"] == 160
    assert result["gpu_utilisation"] == round((800 + 400 + 20 + 40) / (16 * 160), 6)
    # In the private cluster under FIFO a-1 took 140 s and a-2 took 140 s; here 150 s and 90 s.
    assert result["per_tenant"]["a"]["rho_max"] == round(150 / 140, 4)
    assert result["per_tenant"]["b"] == {"queue_s": 0.0, "jct_s": 10.0, "rho_mean": 1.0, "rho_max": 1.0}
    assert (result["wall_s"], result["jobs_per_second"]) == (2.0, 2.0)


def test_harm_is_waiting_more_than_a_minute_longer_than_alone() -> None:
    trace = jobs(("a", 0, 8, 100), ("a", 0, 8, 100), ("b", 0, 8, 1), ("b", 39, 8, 1), ("b", 40, 8, 1))
    report = run_replay(trace, TENANTS, policy="shared-fifo")
    assert starts(report)["b-2"] == 100
    assert report.jobs_harmed == 3
    assert run_replay(trace, TENANTS, policy="static-fifo").jobs_harmed == 0


def test_a_job_that_can_never_start_stays_unfinished() -> None:
    report = run_replay(jobs(("a", 0, 24, 5), ("b", 0, 1, 5)), TENANTS, policy="shared-fifo-skip")
    assert (report.jobs, report.finished) == (2, 1)


def test_compressed_arrivals_are_truncated_to_seconds() -> None:
    assert [job.submit_s for job in compress_jobs(jobs(("a", 10, 1, 1), ("a", 99, 1, 1)), 1.3)] == [7, 76]
    with pytest.raises(UsageError, match="above 0"):
        compress_jobs([], 0)


def test_a_policy_that_there_is_not_is_refused() -> None:
    with pytest.raises(UsageError, match="choose from "):
        run_replay(TRACE, TENANTS, policy="lottery")


def test_percentiles_are_the_value_at_the_floor_of_p_times_n() -> None:
    assert ValueSpread.of_values(list(range(100, 0, -1))) == ValueSpread(50.5, 51.0, 96.0, 100.0)
    assert ValueSpread.of_values([]) == ValueSpread(0.0, 0.0, 0.0, 0.0)


class TestGuarantee:
    """A waiting job, the tenant's own nodes, and more than sixty seconds."""

    def watch(self, script: list[tuple[int, str, int]], cards: list[int], *, heads_only: bool = False) -> int:
        watch = GuaranteeWatch([TraceTenant("a", 1, 8)], heads_only=heads_only)
        records = [Record(TraceJob(row, f"a-{row}", "a", row, size, 1)) for row, size in enumerate(cards)]
        for at, what, row in script:
            getattr(watch, f"on_{what}")(at, records[row])
            watch.on_settled(at)
        return watch.violations

    def test_a_head_that_fits_may_wait_a_minute(self) -> None:
        assert self.watch([(0, "submitted", 0), (60, "started", 0)], [8]) == 0
        assert self.watch([(0, "submitted", 0), (61, "started", 0)], [8]) == 1

    def test_a_head_that_does_not_fit_is_owed_nothing(self) -> None:
        script = [(0, "submitted", 0), (0, "started", 0), (1, "submitted", 1), (900, "started", 1)]
        assert self.watch(script, [4, 8]) == 0
        assert self.watch(script, [4, 4]) == 1

    def test_running_jobs_are_packed_anew(self) -> None:
        script = [(0, "submitted", 0), (0, "started", 0), (1, "submitted", 1), (2, "finished", 0)]
        assert self.watch([*script, (62, "started", 1)], [4, 8]) == 0
        assert self.watch([*script, (63, "started", 1)], [4, 8]) == 1

    def test_every_waiting_job_counts_and_each_stretch_once(self) -> None:
        script = [(0, "submitted", 0), (0, "submitted", 1), (500, "started", 0), (560, "started", 1)]
        assert self.watch(script, [4, 4]) == 2
        assert self.watch([*script[:3], (510, "evicted", 0), (900, "started", 0)], [4, 8]) == 4

    def test_a_job_behind_one_that_does_not_fit_counts_unless_heads_alone_are_asked_for(self) -> None:
        script = [(0, "submitted", 0), (0, "started", 0), (1, "submitted", 1), (1, "submitted", 2)]
        script += [(900, "started", 2)]
        assert self.watch(script, [4, 8, 4]) == 1
        assert self.watch(script, [4, 8, 4], heads_only=True) == 0

    def test_of_heads_alone_the_next_one_is_owed_when_it_comes_to_the_head(self) -> None:
        script = [(0, "submitted", 0), (0, "submitted", 1), (500, "started", 0)]
        assert self.watch([*script, (900, "started", 1)], [4, 4], heads_only=True) == 2
        assert self.watch([*script, (560, "started", 1)], [4, 4], heads_only=True) == 1
