"""The checker of a replay's events finds planted faults, and accepts correct runs."""

from __future__ import annotations

import pytest

from benchmarks.support.replay_events import EventLine, EventPool, Findings, check_events
from scheduling.simulation.philly import TraceJob, TraceTenant
from scheduling.simulation.replay import run_replay

POOL = EventPool({"a": 2, "b": 1})
"""24 cards on node-0000 to node-0002; the nominal is 16 and 8."""


def found(*events: tuple[int, str, str, int, str]) -> Findings:
    """Return the findings on (second, event, job, cards, nodes); a job's name begins with its tenant."""
    return check_events(
        [
            EventLine(at, what, job, job[0], cards, tuple(nodes.split()))
            for at, what, job, cards, nodes in events
        ],
        POOL,
    )


def test_a_job_that_fits_its_tenants_nodes_and_waits_a_minute_is_owed() -> None:
    script = [(0, "submit", "a0", 8, ""), (0, "start", "a0", 8, "node-0000"), (1, "submit", "a1", 16, "")]
    script += [(1, "submit", "a2", 4, ""), (90, "start", "a2", 4, "node-0001")]
    findings = found(*script)
    # The first job of the queue would not fit.
    assert [(each.job, each.seconds) for each in findings.owed] == [("a2", 89)]
    assert findings.owed_heads == []
    assert found(*script[:-1], (61, "start", "a2", 4, "node-0001")).owed == []


def test_pieces_of_nodes_are_no_whole_node() -> None:
    script = [(0, "submit", f"a{n}", 4, "") for n in range(3)]
    script += [(0, "start", f"a{n}", 4, f"node-000{n}") for n in range(3)]
    # They occupy half of each node: no whole node is free.
    assert found(*script, (1, "submit", "a3", 8, ""), (200, "start", "a3", 8, "node-0000")).owed == []
    assert len(found(*script, (1, "submit", "a3", 4, ""), (200, "start", "a3", 4, "node-0000")).owed) == 1


EVICTED = [
    (0, "submit", "b0", 8, ""),
    (0, "submit", "b1", 4, ""),
    (0, "start", "b0", 8, "node-0000"),
    (0, "start", "b1", 4, "node-0001"),
    (50, "submit", "a0", 8, ""),
    (50, "submit", "b2", 4, ""),
]


def test_an_eviction_while_a_borrower_got_the_place_is_needless() -> None:
    end = [(50, "evict", "b1", 4, "node-0001"), (50, "start", "b2", 4, "node-0002")]
    findings = found(*EVICTED, *end, (50, "start", "a0", 8, "node-0001"))
    assert [(each.victim, each.taker) for each in findings.needless] == [("b1", "a0")]
    assert (findings.evictions, findings.evictions_of_one, findings.lost_gpu_hours) == (1, 1, 0.056)


def test_an_eviction_for_which_nothing_else_was_free_is_not() -> None:
    full = [(10, "submit", "a1", 8, ""), (10, "start", "a1", 8, "node-0002")]
    end = [(50, "evict", "b1", 4, "node-0001"), (50, "start", "a0", 8, "node-0001")]
    assert found(*EVICTED[:4], *full, *EVICTED[4:], *end).needless == []


def test_a_move_to_a_place_that_the_other_job_could_have_had_is_needless() -> None:
    start = [(0, "submit", "b0", 4, ""), (0, "start", "b0", 4, "node-0000"), (50, "submit", "a0", 8, "")]
    end = [(50, "evict", "b0", 4, "node-0000"), (50, "start", "a0", 8, "node-0000")]
    moved = found(*start, *end, (50, "start", "b0", 4, "node-0001"))
    assert [(each.victim, each.taker) for each in moved.needless] == [("b0", "a0")]


def test_a_free_node_that_an_owners_gang_needed_as_well_was_not_free_for_another() -> None:
    start = [(0, "submit", "b0", 4, ""), (0, "submit", "b1", 4, ""), (0, "start", "b0", 4, "node-0000")]
    start += [(0, "start", "b1", 4, "node-0001"), (0, "submit", "b2", 8, ""), (50, "submit", "a0", 16, "")]
    end = [(50, "evict", "b0", 4, "node-0000"), (50, "start", "a0", 16, "node-0000 node-0002")]
    end += [(50, "evict", "b1", 4, "node-0001"), (50, "start", "b2", 8, "node-0001")]
    assert found(*start, *end).needless == []


def test_a_start_is_inside_the_nominal_if_evictions_of_the_instant_made_room_in_it() -> None:
    start = [(0, "submit", f"b{n}", 4, "") for n in range(4)] + [(0, "submit", "a0", 8, "")]
    start += [(0, "start", "b0", 4, "node-0000"), (0, "start", "b1", 4, "node-0000")]
    start += [(0, "submit", "a1", 4, ""), (0, "start", "a1", 4, "node-0001")]
    # The evictions leave 8 cards of the nominal; the first start takes the free half node.
    end = [(50, "evict", "b0", 4, "node-0000"), (50, "evict", "b1", 4, "node-0000")]
    end += [(50, "start", "a0", 8, "node-0000"), (50, "start", "b2", 4, "node-0002")]
    end += [(50, "evict", "a1", 4, "node-0001"), (50, "start", "b3", 4, "node-0001")]
    full = [(0, "submit", "a2", 4, ""), (0, "start", "a2", 4, "node-0002")]
    full += [(0, "submit", "a3", 4, ""), (0, "start", "a3", 4, "node-0001")]
    assert [each.victim for each in found(*start, *full, *end).needless] == []


def test_a_node_that_is_too_full_is_reported() -> None:
    script = [(0, "submit", "a0", 8, ""), (0, "submit", "a1", 1, ""), (0, "start", "a0", 8, "node-0000")]
    assert found(*script, (0, "start", "a1", 1, "node-0000")).misplaced == 2
    assert found(*script, (0, "start", "a1", 1, "node-0001")).misplaced == 0


@pytest.mark.parametrize("policy", ["quota", "shared-fifo"])
def test_it_agrees_with_what_the_replay_counts(policy: str) -> None:
    tenants = [TraceTenant("a", 2, 8), TraceTenant("b", 1, 8)]
    rows = [("ab"[n % 2], 40 * n, 1 << (n * 7 % 5), 60 + n * 997 % 1_500) for n in range(60)]
    jobs = [
        TraceJob(row, f"{name}-{row}", name, at, gpus, runs)
        for row, (name, at, gpus, runs) in enumerate(rows)
    ]
    report = run_replay(jobs, tenants, policy=policy)
    lines = [
        EventLine(each.t_s, each.event, each.job, each.tenant, each.gpus, each.nodes)
        for each in report.events
    ]
    findings = check_events(lines, POOL)
    assert findings.queue_mean_s == report.queue.mean
    assert (findings.finished, findings.evictions) == (60, report.preemptions)
    assert findings.lost_gpu_hours == report.lost_gpu_hours
    assert len(findings.owed) == report.guarantee_violations
    assert findings.misplaced == 0
    assert policy == "quota" or findings.owed
