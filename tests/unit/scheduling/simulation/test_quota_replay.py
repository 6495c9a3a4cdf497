"""The replay under quota: evictions and moves in small traces whose results were computed by hand."""

from __future__ import annotations

from scheduling.simulation.philly import TraceJob, TraceTenant
from scheduling.simulation.replay import ReplayReport, run_replay

TENANTS = [TraceTenant("a", 1, 8), TraceTenant("b", 1, 8)]
HOUR = 3600


def replay(*rows: tuple[str, int, int, int], tenants: list[TraceTenant] = TENANTS) -> ReplayReport:
    """Replay jobs from (tenant, submit, cards, duration) under the policy `quota`."""
    trace = [
        TraceJob(row, f"{tenant}-{row}", tenant, submit, cards, length)
        for row, (tenant, submit, cards, length) in enumerate(rows)
    ]
    return run_replay(trace, tenants, policy="quota")


def events_of(report: ReplayReport, job: str) -> list[tuple[int, str]]:
    """Return the events of a job after its submission."""
    return [(event.t_s, event.event) for event in report.events if event.job == job][1:]


def test_a_tenant_borrows_unused_quota_and_returns_it_at_once() -> None:
    report = replay(("a", 0, 8, 100), ("a", 1, 8, 100), ("b", 50, 8, 10))
    # The second job of a used b's quota, and had less to lose than the first.
    assert events_of(report, "a-1") == [(1, "start"), (50, "evict"), (60, "start"), (160, "finish")]
    assert events_of(report, "a-0") == [(0, "start"), (100, "finish")]
    assert events_of(report, "b-2") == [(50, "start"), (60, "finish")]
    assert (report.guarantee_violations, report.preemptions) == (0, 1)
    assert report.lost_gpu_hours == round(8 * 49 / HOUR, 3)


def test_what_stays_inside_the_nominal_is_left_alone() -> None:
    report = replay(("a", 0, 8, 100), ("b", 0, 4, 100), ("b", 10, 8, 10))
    assert (report.preemptions, report.guarantee_violations) == (0, 0)
    assert events_of(report, "b-2") == [(100, "start"), (110, "finish")]


def test_an_eviction_is_remembered_and_the_next_one_meets_another_job() -> None:
    report = replay(("a", 0, 8, 500), ("a", 1, 8, 500), ("b", 50, 8, 10), ("b", 70, 8, 10))
    # At 70 the job that was evicted before had run for 10 s only, the other for 70 s.
    assert events_of(report, "a-1")[:3] == [(1, "start"), (50, "evict"), (60, "start")]
    assert events_of(report, "a-0")[:3] == [(0, "start"), (70, "evict"), (80, "start")]
    assert report.max_evictions_of_one_job == 1


def test_a_job_at_its_cap_is_not_taken_again() -> None:
    reclaims = [("b", at, 8, 10) for at in range(100, 100 * 8, 100)]
    report = replay(("a", 0, 8, 5000), ("a", 1, 8, 5000), *reclaims)
    # Seven reclaims meet two jobs that may be evicted three times each. A job at its cap starts inside the
    # nominal only, so that b's own nodes are never taken by a job that it may not preempt.
    assert report.max_evictions_of_one_job == 3
    assert report.guarantee_violations == 0
    assert report.finished == 9


def test_a_move_for_a_job_inside_its_nominal_counts_as_an_eviction() -> None:
    report = replay(("a", 0, 6, 10), ("a", 1, 2, 100), ("a", 2, 4, 100), ("b", 20, 8, 10))
    # Two cards of one node and four of the other are held: the job with the smaller loss moves.
    assert events_of(report, "a-1") == [(1, "start"), (20, "evict"), (20, "start"), (120, "finish")]
    assert events_of(report, "b-3") == [(20, "start"), (30, "finish")]
    assert (report.preemptions, report.max_evictions_of_one_job) == (1, 1)
    assert report.lost_gpu_hours == round(2 * 19 / HOUR, 3)


def test_no_job_is_moved_for_a_borrower() -> None:
    # Eight cards are requested beside two that a uses: it would borrow, however cheap a move were.
    report = replay(("a", 0, 6, 10), ("a", 1, 2, 9000), ("b", 2, 4, 9000), ("a", 1001, 8, 10))
    assert report.preemptions == 0
    assert events_of(report, "a-3") == [(9001, "start"), (9011, "finish")]


def test_after_much_was_lost_borrowers_keep_gpus_unused_for_thirty_days() -> None:
    late = 60_000 + 30 * 24 * HOUR + 1
    report = replay(
        ("a", 0, 8, 100_000),
        ("a", 1, 8, 100_000),
        ("b", 60_000, 8, 10),
        ("a", late, 8, 10),
        ("a", late, 8, 10),
    )
    # More than 1 % of the GPU time of 30 days is lost, so that one of 16 GPUs has to stay unused.
    assert events_of(report, "a-1") == [
        (1, "start"),
        (60_000, "evict"),
        (100_000, "start"),
        (200_000, "finish"),
    ]
    assert events_of(report, "a-3")[0] == events_of(report, "a-4")[0] == (late, "start")
