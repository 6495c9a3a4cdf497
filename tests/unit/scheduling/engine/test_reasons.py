"""Every pending job has a reason, numbers, and a recommendation if there is one."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.engine import Delta, EngineConfig, JobPut, never_fits
from scheduling.engine.model import (
    AffinityOperator,
    Expression,
    GpuMode,
    HelpCode,
    Instant,
    JobState,
    PlacementRules,
    Reason,
    StopPolicy,
    Strategy,
)
from tests.unit.scheduling.engine.builders import (
    NOW,
    commit,
    cycle,
    flavor,
    job,
    node,
    outcome,
    queue,
    quotas,
    role,
    ways_of,
    world,
)


def test_more_cards_than_any_node_has() -> None:
    result = cycle(world([node("n1"), node("n2", 2)], [job("j", "a", role(1, 5))]))
    found = outcome(result, "j")
    assert found.reason is Reason.NEVER_FITS
    assert found.numbers["refused.cards"] == 2
    assert ways_of(outcome(result, "j")) == {
        HelpCode.ASK_FEWER_CARDS: {"role": "worker", "cards": 4, "starts": 1}
    }


def test_another_model_than_the_flavor_has() -> None:
    result = cycle(world([node("n1")], [job("j", "a", role(models=("H100",)))]))
    assert outcome(result, "j").reason is Reason.NEVER_FITS
    assert ways_of(outcome(result, "j"))[HelpCode.ASK_OTHER_MODEL] == {
        "models": "A100",
        "role": "worker",
        "starts": 1,
    }


def test_more_cpu_than_any_node_has() -> None:
    result = cycle(world([node("n1")], [job("j", "a", role(cpu=65_000))]))
    assert outcome(result, "j").numbers["refused.cpu"] == 1
    assert ways_of(outcome(result, "j"))[HelpCode.ASK_LESS] == {
        "flavor": "a100", "resource": "cpu", "limit": 64_000, "role": "worker", "starts": 1,
    }  # fmt: skip


def test_a_gang_larger_than_the_cluster() -> None:
    result = cycle(world([node("n1"), node("n2")], [job("j", "a", role(3, 4))]))
    assert outcome(result, "j").numbers["available"] == 2
    assert ways_of(outcome(result, "j"))[HelpCode.ASK_FEWER_TASKS] == {
        "role": "worker",
        "tasks": 2,
        "starts": 1,
    }


def test_a_selector_that_nothing_matches() -> None:
    rules = PlacementRules(node_selector={"disk": "ssd"})
    result = cycle(world([node("n1"), node("n2")], [job("j", rules=rules)]))
    assert outcome(result, "j").reason is Reason.NEVER_FITS
    assert ways_of(outcome(result, "j"))[HelpCode.LOOSEN_PLACEMENT] == {
        "veto": "node-selector",
        "nodes": 2,
        "starts": 1,
    }


def test_broken_and_cordoned_nodes_may_come_back() -> None:
    nodes = [node("n1", ready=False), node("n2", schedulable=False), node("n3", device={"healthy": False})]
    result = cycle(world(nodes, [job("j")]))
    found = outcome(result, "j")
    assert found.reason is Reason.NO_ROOM
    assert {key: found.numbers[key] for key in found.numbers if key.startswith("refused.")} == {
        "refused.node-ready": 1,
        "refused.cordon": 1,
        "refused.card-health": 1,
    }


def test_never_fits_answers_before_submission() -> None:
    snapshot = world([node("n1")])
    rules = PlacementRules(node_affinity=((Expression("zone", AffinityOperator.IN, ("z1",)),),))
    refused = never_fits(snapshot, job("new", rules=rules))
    assert refused is not None
    assert refused.reason is Reason.NEVER_FITS
    assert never_fits(snapshot, job("new")) is None
    assert never_fits(snapshot, job("new", "a", role(9, 1, least=4))) is None


def test_more_than_the_queue_could_ever_get() -> None:
    result = cycle(world([node("n1")], [job("j", "a", role(1, 4))], teams={"a": quotas(2), "b": quotas(1)}))
    found = outcome(result, "j")
    assert found.reason is Reason.EXCEEDS_MAX_QUOTA
    assert (found.numbers["asked"], found.numbers["limit"]) == (4, 3)
    assert ways_of(outcome(result, "j"))[HelpCode.RAISE_QUOTA]["short"] == 1


def test_two_roles_that_exceed_together() -> None:
    roles = (role(1, 2, name="x"), role(1, 2, name="y"))
    result = cycle(world([node("n1")], [job("j", "a", *roles)], teams={"a": quotas(3)}))
    assert outcome(result, "j").reason is Reason.EXCEEDS_MAX_QUOTA


def test_the_reason_of_a_non_preemptible_job_says_that_it_could_borrow() -> None:
    snapshot = world(
        [node("n1")],
        [job("j", "a", role(1, 4), preemptible=False)],
        teams={"a": quotas(2), "b": quotas(9)},
    )
    result = cycle(snapshot)
    assert outcome(result, "j").reason is Reason.EXCEEDS_MAX_QUOTA
    assert HelpCode.MAKE_PREEMPTIBLE in ways_of(outcome(result, "j"))


def test_own_quota_used_up() -> None:
    jobs = [job("one", "a", role(1, 2)), job("two", "a", role(1, 1), at=1)]
    result = cycle(world([node("n1")], jobs, teams={"a": quotas(2)}))
    found = outcome(result, "two")
    assert found.reason is Reason.WAITING_FOR_QUOTA
    assert {key: found.numbers[key] for key in ("asked", "available", "used", "nominal", "limit")} == {
        "asked": 1,
        "available": 0,
        "used": 2,
        "nominal": 2,
        "limit": 2,
    }
    assert ways_of(outcome(result, "two"))[HelpCode.WAIT_FOR_RELEASE]["short"] == 1


def test_the_numbers_speak_of_the_whole_gang() -> None:
    gang = job("two", "a", role(1, 2, name="master"), role(3, 2, name="worker"), at=1)
    jobs = [job("one", "a", role(5, 1)), gang]
    result = cycle(world([node("n1", 8), node("n2", 8)], jobs, teams={"a": quotas(10)}))
    found = outcome(result, "two")
    assert found.reason is Reason.WAITING_FOR_QUOTA
    # Five cards are free and the master would fit, but nothing of a gang starts before all of it can.
    assert {key: found.numbers[key] for key in ("asked", "available", "used", "limit")} == {
        "asked": 8,
        "available": 5,
        "used": 5,
        "limit": 10,
    }
    assert ways_of(outcome(result, "two"))[HelpCode.WAIT_FOR_RELEASE]["short"] == 3


def test_quota_for_the_whole_gang_comes_before_room_for_its_first_role() -> None:
    gang = job("two", "a", role(1, 4, name="master"), role(2, 4, name="worker"), at=1)
    jobs = [job("one", "a", role(3, 3)), gang]
    # Seven cards of quota are left, but each node has one free: the master alone would say NO_ROOM.
    nodes = [node("n1", 4), node("n2", 4), node("n3", 4)]
    result = cycle(world(nodes, jobs, teams={"a": quotas(16)}))
    found = outcome(result, "two")
    assert found.reason is Reason.WAITING_FOR_QUOTA
    assert (found.numbers["asked"], found.numbers["available"]) == (12, 7)


def test_own_quota_lent_to_others() -> None:
    teams = {"a": quotas(2), "b": quotas(2)}
    jobs = [job("borrower", "b", role(1, 4)), job("owner", "a", role(1, 2), at=1)]
    snapshot = world([node("n1", 8)], jobs[:1], teams=teams)
    commit(snapshot, cycle(snapshot))
    snapshot.apply_delta(Delta((JobPut(jobs[1]),)))
    assert outcome(cycle(snapshot), "owner").reason is Reason.WAITING_FOR_BORROWED


def test_quota_is_free_but_nodes_are_fragmented() -> None:
    nodes = [node(name, device={"used_cores": 50, "holders": 1}) for name in ("n1", "n2")]
    whole = node("n3", 2)
    result = cycle(world([*nodes, whole], [job("j", "a", role(3, 1))]))
    found = outcome(result, "j")
    assert found.reason is Reason.NO_ROOM
    assert {key: found.numbers[key] for key in ("asked", "available", "cards", "free_cards")} == {
        "asked": 3,
        "available": 2,
        "cards": 10,
        "free_cards": 2,
    }
    assert ways_of(outcome(result, "j"))[HelpCode.ASK_FEWER_TASKS] == {
        "role": "worker",
        "tasks": 2,
        "starts": 1,
    }


def test_in_a_strict_line() -> None:
    jobs = [job("head", "a", role(1, 4)), job("next", at=1), job("last", at=2)]
    busy = node("n1", device={"holders": 1})
    result = cycle(world([busy], jobs, queues=[queue("a", strategy=Strategy.STRICT_FIFO)]))
    assert outcome(result, "head").reason is Reason.NO_ROOM
    assert outcome(result, "last").reason is Reason.BEHIND_HEAD
    assert dict(outcome(result, "last").numbers) == {"position": 3, "ahead": 2, "head": "head"}


def test_in_a_best_effort_line() -> None:
    jobs = [job(f"j{index}", "a", role(1, 1, cpu=index + 1), at=index) for index in range(4)]
    busy = node("n1", device={"holders": 1})
    result = cycle(world([busy], jobs), EngineConfig(heads_per_queue=2))
    assert outcome(result, "j3").reason is Reason.IN_LINE
    assert outcome(result, "j3").numbers["position"] == 4


@pytest.mark.parametrize("until", [1_000.5, 2_000])
def test_backoff_ends_at_an_instant(until: float) -> None:
    snapshot = world([node("n1")], [job("j", backoff_until=Instant(until))])
    found = outcome(cycle(snapshot), "j")
    assert found.reason is Reason.BACKOFF
    assert found.numbers["at"] == -(-until // 1)
    assert outcome(cycle(snapshot, now=Instant(until)), "j").reason is None


def test_suspended_and_stopped() -> None:
    sleeping = job("s", state=JobState.SUSPENDED)
    assert outcome(cycle(world([node("n1")], [sleeping])), "s").reason is Reason.SUSPENDED
    held = world([node("n1")], [sleeping, job("j")], queues=[queue("a", stop_policy=StopPolicy.HOLD)])
    assert {item.reason for item in cycle(held).outcomes} == {Reason.QUEUE_STOPPED}


def test_the_most_fundamental_reason_wins() -> None:
    stopped = [queue("a", stop_policy=StopPolicy.HOLD)]
    jobs = [job("huge", "a", role(1, 9)), job("rich", "a", role(1, 3), at=1)]
    result = cycle(world([node("n1")], jobs, teams={"a": quotas(2)}, queues=stopped))
    assert [item.reason for item in result.outcomes] == [Reason.NEVER_FITS, Reason.EXCEEDS_MAX_QUOTA]


def test_an_outcome_for_every_waiting_job() -> None:
    jobs = [job(f"j{index:02}", "a", role(1, 1 + index % 5), at=index % 3) for index in range(40)]
    result = cycle(world([node("n1", 8)], jobs), now=NOW)
    assert [item.job for item in result.outcomes] == sorted(entry.id for entry in jobs)
    assert all((item.reason is None) == (item.status == "admitted") for item in result.outcomes)


def test_a_job_whose_earlier_tasks_are_still_terminating_is_not_started_again() -> None:
    snapshot = world([node("n1", 8)], [job("j", "a", role(2, 1))])
    commit(snapshot, cycle(snapshot))
    snapshot.apply_delta(Delta((JobPut(job("j", "a", role(2, 1))),)))
    found = outcome(cycle(snapshot), "j")
    assert (found.reason, dict(found.numbers)) == (Reason.WAITING_FOR_PREEMPTED, {"tasks": 2})


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"mode": GpuMode.MIG, "profile": "7g.40gb"}, "mig"),
        ({"models": ("H100",), "mode": GpuMode.MIG, "profile": "1g.10gb"}, "mig"),
        ({"models": ("H100",)}, "h100"),
    ],
)
def test_the_numbers_are_those_of_the_flavor_that_is_nearest(asked: dict[str, Any], named: str) -> None:
    flavors = [
        flavor("l40s", card_model="L40S", node_labels={"pool": "l40s"}),
        flavor("h100", card_model="H100", node_labels={"pool": "h100"}),
        flavor("mig", card_model="A100", mode=GpuMode.MIG, node_labels={"pool": "mig"}),
    ]
    nodes = [node(name, labels={"pool": name}) for name in ("l40s", "h100", "mig")]
    names = tuple(item.id for item in flavors)
    queues = [queue("a", flavors=names)]
    snapshot = world(nodes, flavors=flavors, queues=queues, teams={"a": quotas(100, flavors=names)})
    refused = never_fits(snapshot, job("new", "a", role(1, 99, **asked)))
    assert refused is not None
    assert refused.numbers["flavor"] == named
