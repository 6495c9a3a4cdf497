"""Jobs of one task that start without an evaluation get what one would give them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import (
    AllocationRemoved,
    Delta,
    EngineConfig,
    ExplainScope,
    FairSharing,
    JobPut,
    JobRemoved,
    Snapshot,
    resolve_config,
)
from scheduling.engine.actions import lasting_refusals
from scheduling.engine.actions.admission import direct_start
from scheduling.engine.actions.admission.direct_start import DirectStart
from scheduling.engine.actions.admission.nominated_job import NominatedJob
from scheduling.engine.model import (
    CycleResult,
    Job,
    JobState,
    PreemptionPolicy,
    PreemptOthers,
    QuotaNode,
    Reason,
    Strategy,
)
from scheduling.engine.placement.feasibility import find_infeasible_flavors
from scheduling.engine.placement.placer import placer_for
from scheduling.simulation.published import published_config
from tests.unit.scheduling.engine.builders import commit, cycle, flavor, job, node, queue, quotas, role

ASKED = (
    role(),
    role(1, 2),
    role(1, 1, cores=30, cpu=4_000),
    role(1, 1, cores=60, card_memory=0),
    role(1, 0, cpu=30_000),
    role(1, 1, models=("L40",)),
    role(1, 0),
    role(2, 1),
)
SECOND = {"flavor": "second"}
# The fewest tasks for a matrix, and the part of them that new shapes must have to be added to it.
MODES = {"boards": (1_000, 1), "matrix": (1, 1_000), "both": (1, 1)}

drawn_jobs = st.lists(
    st.tuples(
        st.integers(0, len(ASKED) - 1),
        st.sampled_from("ab"),
        st.integers(0, 1),
        st.booleans(),
        st.integers(0, 1),
    ),
    min_size=4,
    max_size=40,
)


def make_jobs(drawn: list[tuple[int, str, int, bool, int]]) -> list[Job]:
    return [
        job(f"j{at:02}", name, ASKED[shape], at=at, user=f"u{at % 2}", priority=priority, preemptible=soft)
        if not evictions
        else job(f"j{at:02}", name, ASKED[shape], at=at, user=f"u{at % 2}", evictions=evictions)
        for at, (shape, name, priority, soft, evictions) in enumerate(drawn)
    ]


def cell(
    jobs: list[Job], owned: tuple[int, int], pods: int | None, policy: str, strategy: Strategy
) -> Snapshot:
    """Two flavors in the order of the queue, two queues that may borrow from each other."""
    names = ("a100", "second")
    reclaim = PreemptionPolicy(reclaim=PreemptOthers.ANY)
    return Snapshot(
        nodes=[
            *(node(f"n{index}", 4, pods=pods) for index in range(3)),
            node("l1", 2, model="L40"),
            *(node(f"s{index}", 4, labels=SECOND) for index in range(2)),
        ],
        flavors=[
            flavor(policy=policy),
            flavor("second", policy=policy, node_labels=SECOND),
        ],
        quota_nodes=[
            QuotaNode(id="root"),
            *(
                QuotaNode(id=name, parent="root", quotas=quotas(cards, flavors=names))
                for name, cards in zip("ab", owned, strict=True)
            ),
        ],
        queues=[queue(name, flavors=names, preemption=reclaim, strategy=strategy) for name in "ab"],
        jobs=jobs,
    )


def run_cycles(snapshot: Snapshot, config: EngineConfig, later: list[Job]) -> list[CycleResult]:
    """Two cycles; in between some jobs end and others come."""
    first = cycle(snapshot, config)
    commit(snapshot, first)
    gone = [entry.id for entry in snapshot.jobs.values() if entry.state is JobState.LIVE][::3]
    freed = [AllocationRemoved(task.id) for name in gone for task in snapshot.allocations_of(name)]
    snapshot.apply_delta(Delta((*freed, *map(JobRemoved, gone), *map(JobPut, later))))
    return [first, cycle(snapshot, config)]


@pytest.mark.parametrize("mode", MODES)
@given(
    drawn_jobs,
    drawn_jobs,
    st.tuples(st.integers(0, 12), st.integers(0, 12)),
    st.sampled_from([None, 3]),
    st.sampled_from(["default", "compact", "bestfit"]),
    st.sampled_from([Strategy.BEST_EFFORT_FIFO, Strategy.STRICT_FIFO]),
    st.booleans(),
    st.sampled_from(["allocate", "admit"]),
)
@settings(max_examples=60, deadline=None)
def test_decisions_are_those_of_evaluations(
    mode: str,
    drawn: list[tuple[int, str, int, bool, int]],
    more: list[tuple[int, str, int, bool, int]],
    owned: tuple[int, int],
    pods: int | None,
    policy: str,
    strategy: Strategy,
    fair: bool,
    action: str,
) -> None:
    sharing = FairSharing() if fair else None
    config = replace(published_config(), actions=(action,), fair_sharing=sharing)
    jobs, later = make_jobs(drawn), [replace(entry, id=f"k{entry.id}") for entry in make_jobs(more)]

    def run() -> list[CycleResult]:
        return run_cycles(cell(jobs, owned, pods, policy, strategy), config, later)

    with pytest.MonkeyPatch.context() as patch:
        least, part = MODES[mode]
        patch.setattr(direct_start, "MIN_TASKS", least)
        patch.setattr(direct_start, "NEW_SHAPES_PART", part)
        found = run()
        patch.setattr(DirectStart, "place_job", lambda *_: None)
        expected = run()
    assert found == expected


def test_such_jobs_need_no_evaluation() -> None:
    """Otherwise the comparison above would compare nothing."""
    snapshot = cell([job(f"j{at}", at=at) for at in range(6)], (12, 0), None, "default", Strategy.STRICT_FIFO)
    direct: list[bool] = []
    place_job = DirectStart.place_job

    def place(*given: Any) -> NominatedJob | None:
        found = place_job(*given)
        direct.append(found is not None)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DirectStart, "place_job", place)
        result = cycle(snapshot)
    assert len(result.decisions) == 6
    assert direct == [True] * 6


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs that were compared with the empty cell."""
    found: list[str] = []

    def find(*given: Any) -> Any:
        found.append(given[-1].id)
        return find_infeasible_flavors(*given)

    monkeypatch.setattr(lasting_refusals, "find_infeasible_flavors", find)
    return found


def test_only_a_job_that_may_not_start_is_compared_with_the_empty_cell(compared: list[str]) -> None:
    """Room now is room in the empty cell."""
    asked = [role(), role(1, 2), role(1, 1, cores=30), role(1, 0, cpu=1_000), role(1, 1, models=("H100",))]
    jobs = [job(f"j{at}", "a", each, at=at) for at, each in enumerate(asked)]
    result = cycle(cell(jobs, (12, 0), None, "default", Strategy.BEST_EFFORT_FIFO))
    assert [decision.job for decision in result.decisions] == ["j0", "j1", "j2", "j3"]
    assert compared == ["j4"]


def test_a_job_that_finds_no_room_behind_an_equal_one_is_not_compared(compared: list[str]) -> None:
    snapshot = Snapshot(
        nodes=[node("n1", 4)],
        flavors=[flavor()],
        quota_nodes=[QuotaNode(id="team", quotas=quotas(12))],
        queues=[queue("a", quota_node="team")],
        jobs=[job(f"j{at}", "a", role(1, 2 + at // 3), at=at) for at in range(4)],
    )
    result = cycle(snapshot, replace(published_config(), explain=ExplainScope.CONSIDERED))
    assert [outcome.reason for outcome in result.outcomes] == [None, None, Reason.NO_ROOM, Reason.NO_ROOM]
    assert compared == ["j3"]


def test_a_matrix_takes_in_new_shapes_once_they_are_an_eighth_of_the_tasks() -> None:
    usual = [job(f"j{at:02}", at=at) for at in range(64)]
    snapshot = cell(usual, (12, 0), None, "bestfit", Strategy.BEST_EFFORT_FIFO)
    sizes = []
    for number in range(1, 12):
        cycle(snapshot, published_config())
        matrix = placer_for(snapshot.fleet, resolve_config(published_config()).rule).find_matrix("bestfit")
        assert matrix is not None
        sizes.append(len(matrix))
        rare = job(f"rare{number}", "a", role(1, 1, cpu=1_000 * number), at=100 + number)
        snapshot.apply_delta(Delta((JobPut(rare),)))
    assert sizes[:10] == [1] * 10, "nine new shapes of one task each beside 64 tasks"
    assert sizes[10] == 11
