"""Recorded periods of a cell are replayed from its rows, with and without a change."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import cycle
from typing import Any

import pytest

from clusters.models import Device, Node, Sharing
from foundation.core import clock
from foundation.core.errors import Conflict, Invalid, PermissionDenied
from foundation.core.quantities import Resource
from quotas.models import Quota, QuotaChange, QuotaRevision
from scheduling.models import Allocation, Attempt, DeviceSlice, Job, JobState, PolicyReplay, SimulationState
from scheduling.selectors.policies.policy_replay import compare_teams
from scheduling.services.policy_replay import replay as replays
from scheduling.services.policy_replay import run
from scheduling.services.policy_replay.change import ReplayChange
from scheduling.services.policy_replay.past_quotas import read_past_quotas
from scheduling.services.policy_replay.recorded_period import read_period
from scheduling.services.simulations.background_run import LOST_AFTER, find_simulation_to_run
from scheduling.simulation.history_replay import replay_scenario
from tests.builders import jobs
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db
HOUR = 3_600


@pytest.fixture
def here() -> World:
    """A world of two nodes, in which the queue of each team has the quota of one."""
    return world()


def ran(
    here: World,
    at: datetime,
    waited_s: int,
    run_s: int,
    *,
    cards: int = 8,
    other: bool = False,
    rule: str = "",
    **fields: Any,
) -> Job:
    """A job of the past that ran once on a node, from its rows; `rule` cut the run short."""
    queue = here.other_queue if other else here.queue
    node = here.nodes[1 if other else 0]
    began, ended = at + timedelta(seconds=waited_s), at + timedelta(seconds=waited_s + run_s)
    job = jobs.job(
        queue,
        here.outsider if other else here.editor,
        roles=[jobs.RoleOf(cards=cards)],
        submitted_at=at,
        **fields,
    )
    attempt = jobs.allocate(job, node)
    _free(node)
    Attempt.unscoped.filter(pk=attempt.pk).update(
        admitted_at=began, started_at=began, ended_at=ended, end_reason=rule
    )
    Job.unscoped.filter(pk=job.pk).update(
        state=JobState.SUCCEEDED, admitted_at=began, started_at=began, finished_at=ended
    )
    return job


def _free(node: Node) -> None:
    """Let nothing be held on a node."""
    Device.unscoped.filter(node=node).update(cores_granted=0, memory_granted=0, holders=0)
    DeviceSlice.unscoped.filter(device__node=node).update(released=True)
    Allocation.unscoped.filter(node=node).update(released_at=clock.now())
    node.cpu_granted = node.memory_granted = 0
    node.save()


def chain(here: World, at: datetime, count: int, *, other: bool = False) -> None:
    """Jobs of a whole node and an hour each, submitted at once, that ran one after the other."""
    for number in range(count):
        ran(here, at, number * HOUR, HOUR, other=other)


def median(column: dict[str, Any]) -> tuple[int, int]:
    total = column["total"]
    return total["wait_median"]["seconds"], total["wait_p90"]["seconds"]


def started(here: World, begin: datetime, change: ReplayChange, *, hours: int = 24) -> PolicyReplay:
    made = replays.replay_create(
        acting_user=here.platform_admin,
        cell=here.cell,
        begin=begin,
        end=begin + timedelta(hours=hours),
        change=change,
        name="last week",
    )
    assert find_simulation_to_run(now=clock.now()) == made
    assert run.run_replay(made.pk)
    made.refresh_from_db()
    return made


def test_the_recorded_configuration_gives_the_waits_that_were_measured(here: World) -> None:
    begin = clock.now() - timedelta(days=2)
    # No borrowing: each team has one node of its own and runs job after job.
    Quota.unscoped.all().update(borrowing_limit=0)
    chain(here, begin + timedelta(hours=1), 6)
    chain(here, begin + timedelta(hours=2), 4, other=True)

    period = read_period(here.cell, begin=begin, end=begin + timedelta(days=1))
    measured, recorded = period.measure_period(), replay_scenario(period.scenario)

    assert median(measured) == median(recorded) == (2 * HOUR, 4 * HOUR)
    for team, figures in measured["teams"].items():
        again = recorded["teams"][team]
        for key in (
            "jobs",
            "wait_median",
            "wait_p90",
            "preemptions",
            "gpu_hours",
            "not_started",
            "inside_quota_s",
        ):
            assert figures[key] == again[key], key
    assert measured["allocated_gpus"] == recorded["allocated_gpus"]
    assert measured["allocation_rate"] == pytest.approx(10 * 8 / (16 * 24), abs=1e-6)


def test_more_nodes_shorten_waits_as_they_must_and_fewer_leave_jobs_waiting(here: World) -> None:
    begin = clock.now() - timedelta(days=2)
    chain(here, begin + timedelta(hours=1), 8)

    found = started(here, begin, ReplayChange(pool=here.flavor, pool_nodes=4))

    # As recorded it borrows the other team's node: two at a time. With two more nodes four.
    assert found.state == SimulationState.DONE
    assert median(found.result["measured"]) == (3 * HOUR, 7 * HOUR)
    assert median(found.result["recorded"]) == (1 * HOUR, 3 * HOUR)
    assert median(found.result["changed"]) == (0, 1 * HOUR)
    assert (found.result["recorded"]["gpus"], found.result["changed"]["gpus"]) == (16, 32)
    assert [one.name for one in compare_teams(found)] == [here.workspace.name]

    fewer = started(here, begin, ReplayChange(pool=here.flavor, pool_nodes=0))
    assert fewer.result["changed"]["total"]["not_started"] == 8
    assert fewer.result["changed"]["total"]["wait_median"]["at_least"]


def test_quota_and_settings_of_queues_change_what_they_should(here: World) -> None:
    begin = clock.now() - timedelta(days=2)
    chain(here, begin + timedelta(hours=1), 8)

    static = started(here, begin, ReplayChange(queue=here.queue, settings={"allocation_mode": "static"}))
    assert median(static.result["changed"]) == (3 * HOUR, 7 * HOUR)

    node = here.queue.node.parent
    assert node is not None
    more = ReplayChange(node=node, quota_pool=here.flavor, gpus=24, on_top=True)
    found = started(here, begin, more)
    # The nodes are two, whatever the quota: the waits stay, and all of them are inside the quota now.
    assert median(found.result["changed"]) == (1 * HOUR, 3 * HOUR)
    inside = {name: found.result[name]["total"]["inside_quota_s"] for name in ("recorded", "changed")}
    assert inside == {"recorded": 0, "changed": 3 * HOUR}


def test_classical_sharing_lets_the_oldest_job_borrow(here: World) -> None:
    begin = clock.now() - timedelta(days=2)
    chain(here, begin + timedelta(hours=1), 3)
    found = started(here, begin, ReplayChange(sharing=Sharing.CLASSICAL))
    assert found.change == {"sharing": "classical"}
    assert found.result["changed"]["total"]["jobs"] == 3


def test_what_ran_at_the_beginning_keeps_its_node_and_what_runs_now_runs_on(here: World) -> None:
    now = clock.now()
    begin = now - timedelta(hours=20)
    Quota.unscoped.all().update(borrowing_limit=0)
    ran(here, begin - timedelta(hours=2), 0, 5 * HOUR)  # Three hours into the period.
    ran(here, begin + timedelta(hours=1), 2 * HOUR, HOUR)
    running = jobs.job(here.other_queue, here.outsider, roles=[jobs.RoleOf(cards=8)])
    attempt = jobs.allocate(running, here.nodes[1])
    since = begin + timedelta(hours=10)
    Job.unscoped.filter(pk=running.pk).update(submitted_at=since, admitted_at=since, started_at=since)
    Attempt.unscoped.filter(pk=attempt.pk).update(admitted_at=since, started_at=since)

    period = read_period(here.cell, begin=begin, end=now)
    measured, recorded = period.measure_period(), replay_scenario(period.scenario)

    assert measured["total"] == recorded["total"]
    assert (recorded["total"]["jobs"], recorded["total"]["wait_p90"]["seconds"]) == (2, 2 * HOUR)
    assert recorded["total"]["gpu_hours"] == pytest.approx(8 * (3 + 1 + 10), abs=0.1)


def test_measured_preemptions_and_losses_are_those_of_the_rows(here: World) -> None:
    begin = clock.now() - timedelta(days=2)
    job = ran(
        here,
        begin + timedelta(hours=1),
        0,
        2 * HOUR,
        rule="RECLAIM_NOMINAL",
        checkpoint_interval_s=1_800 + 900,
    )
    again = begin + timedelta(hours=4)
    Attempt.unscoped.create(
        job=job, number=2, epoch=1, admitted_at=again, started_at=again, ended_at=again + timedelta(hours=1)
    )
    Job.unscoped.filter(pk=job.pk).update(finished_at=again + timedelta(hours=1))

    period = read_period(here.cell, begin=begin, end=begin + timedelta(days=1))
    total = period.measure_period()["total"]

    # Checkpoints every 45 minutes: of two hours 90 minutes are kept, 30 are lost on 8 GPUs; an hour to wait.
    assert (total["preemptions"], total["lost_gpu_hours"]) == (1, 4.0)
    assert total["wait_median"]["seconds"] == HOUR
    # Alone in its cell it runs without a break: 90 minutes and an hour.
    assert period.scenario.jobs[0].work_s == 2.5 * HOUR
    assert replay_scenario(period.scenario)["total"]["preemptions"] == 0


def test_quotas_of_then_are_those_of_now_with_later_changes_undone(here: World) -> None:
    now = clock.now()
    begin, between = now - timedelta(days=2), now - timedelta(days=1)
    node = here.queue.node
    revision = QuotaRevision.unscoped.create(cell=here.cell, actor_name="admin")
    QuotaRevision.unscoped.filter(pk=revision.pk).update(created_at=between)
    QuotaChange.unscoped.create(
        revision=revision,
        node=node,
        flavor=here.flavor,
        resource=Resource.GPU_CARDS,
        nominal_before=4,
        nominal_after=8,
    )

    past = read_past_quotas(here.cell.pk, begin=begin, end=now)

    own = {key: limits.own_nominal for key, limits in past.at_begin.items() if key.node_id == node.pk}
    assert list(own.values()) == [4]
    [(at, step)] = past.steps
    assert at == between
    assert [limits.own_nominal for key, limits in step.items() if key.node_id == node.pk] == [8]
    assert not read_past_quotas(here.cell.pk, begin=now, end=now).at_begin


def test_a_replay_is_refused_with_the_reason(here: World) -> None:
    begin = clock.now() - timedelta(days=2)
    ran(here, begin + timedelta(hours=1), 0, 60)

    def create(change: ReplayChange, user: Any = here.platform_admin, **fields: Any) -> PolicyReplay:
        period = {"begin": begin, "end": begin + timedelta(days=1)} | fields
        return replays.replay_create(acting_user=user, cell=here.cell, change=change, **period)

    classical = ReplayChange(sharing=Sharing.CLASSICAL)
    with pytest.raises(PermissionDenied):
        create(classical, here.admin)
    with pytest.raises(Invalid, match="at least one"):
        create(ReplayChange(sharing=Sharing.FAIR))
    with pytest.raises(Invalid, match="in the past"):
        create(classical, end=clock.now() + timedelta(hours=1))
    with pytest.raises(Invalid, match="31 days"):
        create(classical, begin=begin - timedelta(days=60))
    with pytest.raises(Invalid, match="No jobs"):
        create(classical, begin=begin - timedelta(days=4), end=begin - timedelta(days=3))
    with pytest.raises(Invalid, match="Unknown setting"):
        create(ReplayChange(settings={"color": "red"}))
    with pytest.raises(Invalid):
        create(ReplayChange(settings={"strategy": "random"}))
    for _number in range(replays.MOST_OPEN):
        create(classical)
    with pytest.raises(Conflict, match="pending or running"):
        create(classical)


def test_a_canceled_replay_stops_and_a_lost_one_is_taken_up_again(here: World) -> None:
    begin = clock.now() - timedelta(days=2)
    chain(here, begin + timedelta(hours=1), 3)
    made = replays.replay_create(
        acting_user=here.platform_admin,
        cell=here.cell,
        begin=begin,
        end=begin + timedelta(days=1),
        change=ReplayChange(sharing=Sharing.CLASSICAL),
    )
    # A process that took it and said nothing since.
    long_ago = clock.now() - LOST_AFTER - timedelta(seconds=1)
    PolicyReplay.unscoped.update(state=SimulationState.RUNNING, runs=1, seen_at=clock.now())
    assert find_simulation_to_run(now=clock.now()) is None
    assert not run.run_replay(made.pk)
    PolicyReplay.unscoped.update(seen_at=long_ago)
    assert find_simulation_to_run(now=clock.now()) == made

    times = iter(range(0, 10_000))

    def cancel_on_the_way() -> float:
        at = next(times)
        if at == 3:
            replays.replay_cancel(acting_user=here.platform_admin, replay=made)
        return float(at)

    assert not run.run_replay(made.pk, start_stopwatch=lambda: cancel_on_the_way)
    made.refresh_from_db()
    assert (made.state, made.runs, made.result) == (SimulationState.CANCELED, 2, {})
    with pytest.raises(Conflict):
        replays.replay_cancel(acting_user=here.platform_admin, replay=made)
    PolicyReplay.unscoped.update(state=SimulationState.RUNNING, seen_at=long_ago)
    assert find_simulation_to_run(now=clock.now()) is None
    made.refresh_from_db()
    assert (made.state, made.error) == (SimulationState.FAILED, "INTERRUPTED")


def test_a_replay_that_takes_too_long_says_so(here: World) -> None:
    begin = clock.now() - timedelta(days=2)
    chain(here, begin + timedelta(hours=1), 2)
    made = replays.replay_create(
        acting_user=here.platform_admin,
        cell=here.cell,
        begin=begin,
        end=begin + timedelta(days=1),
        change=ReplayChange(sharing=Sharing.CLASSICAL),
    )
    slow = iter(range(0, 10**6, 1_000))
    assert run.run_replay(made.pk, start_stopwatch=lambda: lambda: float(next(slow)))
    made.refresh_from_db()
    assert (made.state, made.error, made.result) == (SimulationState.FAILED, "TOO_LONG", {})


def test_a_simulation_that_is_done_is_kept_when_the_other_takes_too_long(here: World) -> None:
    begin = clock.now() - timedelta(days=2)
    chain(here, begin + timedelta(hours=1), 2)
    made = replays.replay_create(
        acting_user=here.platform_admin,
        cell=here.cell,
        begin=begin,
        end=begin + timedelta(days=1),
        change=ReplayChange(sharing=Sharing.CLASSICAL),
    )
    simulations = iter([[run.BUDGET_S - 1], [run.BUDGET_S + 1]])
    assert run.run_replay(made.pk, start_stopwatch=lambda: cycle(next(simulations)).__next__)
    made.refresh_from_db()
    assert (made.state, made.error) == (SimulationState.FAILED, "TOO_LONG")
    assert made.part_done == 0.5
    assert "changed" not in made.result
    assert made.result["recorded"]["total"]["jobs"] == 2
