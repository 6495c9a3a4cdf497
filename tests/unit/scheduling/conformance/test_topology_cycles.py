"""Kueue's cycle with topology-aware flavors: places, victims, heads evaluated together, and lost nodes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace

import pytest

from foundation.core.quantities import Resource
from scheduling.conformance.kueue.scheduler.action import with_cycle
from scheduling.conformance.kueue.scheduler.options import CycleOptions
from scheduling.conformance.kueue.topology_aware import (
    DomainAllocation,
    DomainTasks,
    PodRequest,
    TopologyOptions,
    TopologyState,
)
from scheduling.conformance.kueue.topology_aware.model import EnlargedJob
from scheduling.conformance.kueue.topology_aware.snapshot import TopologySnapshot
from scheduling.engine import (
    Delta,
    EngineConfig,
    NodePut,
    NodeRemoved,
    NoRoomOptions,
    QuotaPut,
    Snapshot,
    run_cycle,
)
from scheduling.engine.model import (
    Allocation,
    Charge,
    CycleResult,
    Decision,
    DecisionKind,
    EvictRule,
    Extended,
    Flavor,
    HelpCode,
    Instant,
    Job,
    JobState,
    Node,
    PreemptionPolicy,
    PreemptWithin,
    Queue,
    Quota,
    QuotaNode,
    Reason,
    Request,
    ResourceGroup,
    Role,
    Taint,
    TopologyMode,
    TopologyRule,
    Verdict,
)

NOW = Instant(1_000)
HOST, RACK = "kubernetes.io/hostname", "rack"
ADMIT = EngineConfig(actions=("admit",))
ONE_HOST = TopologyRule(level=HOST, mode=TopologyMode.REQUIRED)
ONE_RACK = TopologyRule(level=RACK, mode=TopologyMode.REQUIRED)
PUSHES = PreemptionPolicy(within_queue=PreemptWithin.LOWER_PRIORITY)
Places = dict[str, int]


def pods(cpu: int) -> PodRequest:
    return PodRequest(cpu=cpu, footprint=(Extended("cpu", cpu),))


def cycle(
    given: Snapshot,
    state: TopologyState | None = None,
    options: CycleOptions | None = None,
    config: EngineConfig = ADMIT,
) -> CycleResult:
    plugins = with_cycle(state or TopologyState(), options or CycleOptions(), [])
    return run_cycle(given, replace(config, plugins=plugins), NOW)


def count_verdicts(result: CycleResult) -> dict[Verdict, int]:
    """Return how many jobs were evaluated with each verdict."""
    counted = {verdict: f"turns_{verdict.value.replace('-', '_')}" for verdict in Verdict}
    return {verdict: result.counters[name] for verdict, name in counted.items() if name in result.counters}


def host(name: str, rack: str = "r1", cpu: int = 4, **facts: object) -> Node:
    return Node(**{"id": name, "labels": {HOST: name, RACK: rack}, "cpu": cpu, **facts})  # type: ignore[arg-type]


def flavor(name: str = "grid", **facts: object) -> Flavor:
    return Flavor(**{"id": name, "topology_aware": True, "topology": (RACK, HOST), **facts})  # type: ignore[arg-type]


def job(name: str, tasks: int = 1, cpu: int = 1, *, rule: TopologyRule | None = None, **facts: object) -> Job:
    role = Role(name="w", replicas=tasks, request=pods(cpu), min_replicas=None, topology=rule)
    if "least" in facts:
        role = replace(role, min_replicas=int(str(facts.pop("least"))))
    given = {"id": name, "queue": "a", "roles": (role,), "submitted_at": Instant(0), **facts}
    return Job(**given)  # type: ignore[arg-type]


def domain_allocation(
    name: str, places: Places, cpu: int = 1, flavor: str = "grid", **facts: object
) -> DomainAllocation:
    total = sum(places.values()) * cpu
    given = {
        "job": name,
        "queue": "a",
        "role": "w",
        "index": 0,
        "flavor": flavor,
        "node": "",
        "charges": (Charge(flavor, Resource.CPU, total),),
        "domains": tuple(DomainTasks((where,), count) for where, count in places.items()),
        "each": (Extended("cpu", cpu), Extended("pods", 1)),
        **facts,
    }
    return DomainAllocation(**given)  # type: ignore[arg-type]


def live(name: str, tasks: int = 1, cpu: int = 1, **facts: object) -> Job:
    return job(name, tasks, cpu, **{"state": JobState.LIVE, "admitted_at": Instant(1), **facts})  # type: ignore[arg-type]


def world(
    nodes: Iterable[Node],
    jobs: Iterable[Job],
    held: Iterable[Allocation] = (),
    *,
    flavors: tuple[Flavor, ...] = (flavor(),),
    queues: Iterable[Queue] = (),
    nominal: int = 100,
) -> Snapshot:
    held, names = tuple(held), tuple(one.id for one in flavors)
    queues = tuple(queues) or (Queue(id="a", quota_node="a", flavors=names, preemption=PUSHES),)
    limits = tuple(Quota(flavor=name, resource=Resource.CPU, own_nominal=nominal) for name in names)
    return Snapshot(
        nodes=nodes,
        flavors=flavors,
        quota_nodes=[
            QuotaNode(
                id=queue.quota_node,
                quotas=limits,
                usage=tuple(charge for task in held for charge in task.charges if task.queue == queue.id),
            )
            for queue in queues
        ],
        queues=queues,
        jobs=jobs,
        allocations=held,
    )


def decision(result: CycleResult, job_id: str) -> Decision:
    return next(found for found in result.decisions if found.job == job_id)


def places(result: CycleResult, job_id: str) -> Places:
    held = (task for task in decision(result, job_id).allocations if isinstance(task, DomainAllocation))
    return {part.domain[-1]: part.tasks for task in held for part in task.domains}


def reason(result: CycleResult, job_id: str) -> Reason | None:
    return next(outcome.reason for outcome in result.outcomes if outcome.job == job_id)


class TestPlaces:
    def test_a_role_is_placed_in_one_domain_of_its_level(self) -> None:
        nodes = [host("x1", "r1"), host("y1", "r2", 2), host("y2", "r2", 2), host("y3", "r2", 2)]
        result = cycle(world(nodes, [job("j", 6, rule=ONE_RACK)]))
        assert places(result, "j") == {"y1": 2, "y2": 2, "y3": 2}
        (task,) = decision(result, "j").allocations
        assert task.charges == (Charge("grid", Resource.CPU, 6),)
        assert decision(result, "j").kind is DecisionKind.ADMIT

    def test_each_job_sees_what_the_former_took(self) -> None:
        jobs = [job(name, 3, rule=ONE_HOST) for name in ("j1", "j2", "j3")]
        result = cycle(world([host("x1"), host("x2")], jobs))
        assert [places(result, name) for name in ("j1", "j2")] == [{"x1": 3}, {"x2": 3}]
        assert reason(result, "j3") is Reason.NO_ROOM

    def test_why_there_is_no_place_and_what_would_help(self) -> None:
        result = cycle(world([host("x1"), host("x2")], [job("j", 5, rule=ONE_HOST)]))
        (outcome,) = result.outcomes
        assert outcome.reason is Reason.NO_ROOM
        assert (outcome.numbers["available"], outcome.numbers["limit"]) == (4, 5)
        assert [help_.code for help_ in outcome.help] == [HelpCode.ASK_FEWER_TASKS]

    def test_a_level_that_no_flavor_has_never_fits(self) -> None:
        rule = TopologyRule(level="zone", mode=TopologyMode.REQUIRED)
        result = cycle(world([host("x1")], [job("j", rule=rule)]))
        assert reason(result, "j") is Reason.NEVER_FITS

    def test_an_elastic_role_gets_the_largest_size_that_one_domain_holds(self) -> None:
        given = world([host("x1"), host("x2")], [job("j", 7, rule=ONE_HOST, least=2)])
        assert places(cycle(given), "j") == {"x1": 4}

    @pytest.mark.parametrize(("apart", "expected"), [(False, {"x2": 4}), (True, {"x1": 4})])
    def test_flavors_see_each_other_on_shared_nodes_unless_apart(self, apart: bool, expected: Places) -> None:
        flavors = (flavor("one"), flavor("two", taints=(Taint("off"),)))
        held = [domain_allocation("old", {"x1": 2}, flavor="two")]
        given = world(
            [host("x1"), host("x2")], [job("j", 4, rule=ONE_HOST), live("old", 2)], held, flavors=flavors
        )
        assert places(cycle(given, TopologyState(apart=apart)), "j") == expected

    def test_the_next_flavor_is_tried_before_any_eviction(self) -> None:
        flavors = (flavor("one", node_labels={RACK: "r1"}), flavor("two", node_labels={RACK: "r2"}))
        nodes = [host("x1", "r1"), host("y1", "r2")]
        given = world(
            nodes,
            [job("j", 3, priority=9, rule=ONE_HOST), live("old", 3)],
            [domain_allocation("old", {"x1": 3}, flavor="one")],
            flavors=flavors,
        )
        assert places(cycle(given), "j") == {"y1": 3}
        first = replace(ADMIT, no_room=NoRoomOptions(try_other_flavors=False))
        result = cycle(given, config=first)
        assert decision(result, "old").rule is EvictRule.IN_QUEUE_PRIORITY
        assert reason(result, "j") is Reason.WAITING_FOR_PREEMPTED

    def test_a_job_that_replaces_another_grows_from_its_place(self) -> None:
        plain = job("new", 4, rule=TopologyRule(level=HOST))
        larger = EnlargedJob(**{item.name: getattr(plain, item.name) for item in fields(Job)}, replaces="old")
        nodes = [host("x1"), host("x2"), host("x3", cpu=2)]
        given = world(nodes, [larger, live("old", 2)], [domain_allocation("old", {"x3": 2})])
        grows = TopologyState(options=TopologyOptions(grow_in_place=True))
        found = cycle(given, grows)
        assert places(found, "new") == {"x1": 2, "x3": 2}
        assert decision(found, "new").released == ("old/w/0",)
        assert places(cycle(given), "new") == {"x1": 4}

    def test_a_role_of_which_nothing_comes_from_nodes_never_fits(self) -> None:
        licence = Request(charged=(Extended("licence", 1),))
        role = Role(name="w", replicas=1, request=licence, topology=ONE_HOST)
        groups = (ResourceGroup(("cpu",), ("grid",)), ResourceGroup(("licence",), ("desk",)))
        queue = Queue(id="a", quota_node="a", resource_groups=groups)
        flavors = (flavor(), Flavor(id="desk", placed=False))
        given = world([host("x1")], [job("j", roles=(role,))], flavors=flavors, queues=[queue])
        given.apply_delta(
            Delta(
                (
                    QuotaPut(
                        QuotaNode(id="a", quotas=(Quota(flavor="desk", resource="licence", own_nominal=5),))
                    ),
                )
            )
        )
        assert reason(cycle(given), "j") is Reason.NEVER_FITS


def free(given: Snapshot) -> list[list[int]]:
    remaining: list[list[int]] = TopologySnapshot(given)["grid"].stock.copy_free().tolist()
    return remaining


class TestState:
    def test_a_cycle_leaves_no_trace(self) -> None:
        given = world(
            [host("x1"), host("x2")],
            [job("j", 4, priority=9, rule=ONE_HOST), live("low", 2), job("k", 2)],
            [domain_allocation("low", {"x1": 2})],
        )
        before, held = free(given), dict(given.allocations)
        cycle(given)
        assert (free(given), given.allocations) == (before, held)

    def test_nodes_that_come_and_go_are_seen(self) -> None:
        given = world([host("x1", cpu=1)], [job("j", 3, rule=ONE_HOST)])
        assert reason(cycle(given), "j") is Reason.NO_ROOM
        given.apply_delta(Delta((NodePut(host("x2")),)))
        assert places(cycle(given), "j") == {"x2": 3}
        given.apply_delta(Delta((NodePut(host("x2", schedulable=False)),)))
        assert reason(cycle(given), "j") is Reason.NO_ROOM
        given.apply_delta(Delta((NodeRemoved("x2"), NodePut(host("x3", "r2")))))
        assert places(cycle(given), "j") == {"x3": 3}


class TestVictims:
    def test_scattered_capacity_evicts_only_the_jobs_in_the_way(self) -> None:
        given = world(
            [host("x1"), host("y1")],
            [job("j", 4, priority=9, rule=ONE_HOST), live("mid", 3, priority=2), live("low", 3, priority=1)],
            [domain_allocation("mid", {"x1": 3}), domain_allocation("low", {"y1": 3})],
        )
        result = cycle(given)
        assert [d.job for d in result.decisions if d.kind is DecisionKind.EVICT] == ["low"]
        assert places(result, "j") == {"y1": 4}
        assert decision(result, "j").kind is DecisionKind.PARK

    def test_no_job_is_evicted_where_not_even_empty_domains_would_do(self) -> None:
        given = world(
            [host("x1", used_cpu=2)],
            [job("j", 3, priority=9, rule=ONE_HOST), live("low", 2, priority=1)],
            [domain_allocation("low", {"x1": 2})],
        )
        result = cycle(given)
        assert not result.decisions
        assert count_verdicts(result) == {Verdict.NO_ROOM: 1}

    def test_what_waits_in_vain_keeps_its_domains_from_later_heads(self) -> None:
        queues = [
            Queue(id=name, quota_node=name, flavors=("grid",), preemption=PUSHES) for name in ("a", "b")
        ]
        first = job("j", 4, priority=9, rule=ONE_HOST)
        given = world(
            [host("x1")],
            [first, replace(job("k", 1), queue="b"), live("old", 1, priority=9)],
            [domain_allocation("old", {"x1": 1})],
            queues=queues,
        )
        result = cycle(given)
        assert count_verdicts(result) == {Verdict.NO_VICTIMS: 2}


class TestTogether:
    QUEUES = tuple(Queue(id=name, quota_node=name, flavors=("grid",)) for name in ("a", "b"))

    def heads(self) -> Snapshot:
        jobs = [job("j", 3, priority=2, rule=ONE_HOST), replace(job("k", 3, rule=ONE_HOST), queue="b")]
        return world([host("x1"), host("x2", cpu=5)], jobs, queues=self.QUEUES)

    def test_a_head_whose_domain_was_taken_is_evaluated_once_more(self) -> None:
        result = cycle(self.heads())
        assert (places(result, "j"), places(result, "k")) == ({"x1": 3}, {"x2": 3})

    def test_or_is_outrun_where_that_is_switched_off(self) -> None:
        once = replace(ADMIT, heads_per_queue=1)
        result = cycle(self.heads(), options=CycleOptions(judge_again=False), config=once)
        assert count_verdicts(result) == {Verdict.ADMITTED: 1, Verdict.OVERTAKEN: 1}


LOST = TopologyState(lost_nodes={"j": ("x1",)})


class TestSecondPass:
    def test_tasks_of_a_lost_node_move_and_the_others_stay(self) -> None:
        hurt = live("j", 4, rule=ONE_RACK)
        given = world(
            [host("x2"), host("x3"), host("y1", "r2")], [hurt], [domain_allocation("j", {"x1": 2, "x2": 2})]
        )
        result = cycle(given, LOST)
        assert decision(result, "j").kind is DecisionKind.MIGRATE
        assert decision(result, "j").released == ("j/w/0",)
        assert places(result, "j") == {"x2": 4}

    def test_what_cannot_be_replaced_is_evicted_as_a_whole(self) -> None:
        hurt = live("j", 4, rule=ONE_RACK)
        given = world(
            [host("x2"), host("y1", "r2")], [hurt], [domain_allocation("j", {"x1": 1, "x2": 3}, cpu=2)]
        )
        result = cycle(given, LOST)
        assert (decision(result, "j").kind, decision(result, "j").rule) == (
            DecisionKind.EVICT,
            EvictRule.NODE_LOST,
        )
        assert not cycle(given, LOST, CycleOptions(leave_unreplaced=False)).decisions

    def test_no_task_is_placed_on_the_node_that_failed(self) -> None:
        hurt = live("j", 4, rule=ONE_HOST)
        given = world(
            [host("x1", cpu=8), host("x2")],
            [hurt, job("k", 5, rule=ONE_HOST)],
            [domain_allocation("j", {"x1": 4})],
        )
        result = cycle(given, LOST)
        assert places(result, "j") == {"x2": 4}
        assert [d.job for d in result.decisions] == ["j"]
        back = replace(LOST, options=TopologyOptions(avoid_lost=False))
        assert places(cycle(given, back), "j") == {"x1": 4}

    def test_machines_on_order_come_after_the_quota(self) -> None:
        ordering = Queue(id="a", quota_node="a", flavors=("grid",))
        result = cycle(
            world([], [job("j", 4, rule=ONE_HOST)], queues=[ordering]),
            TopologyState(on_order={"a": ("grid",)}),
        )
        (task,) = decision(result, "j").allocations
        assert isinstance(task, DomainAllocation)
        assert (task.domains, task.charges) == ((), (Charge("grid", Resource.CPU, 4),))

        arrived = live("j", 4, rule=ONE_HOST)
        later = world([host("x1")], [arrived, job("k", 1)], [task], queues=[ordering])
        result = cycle(later, TopologyState(unplaced=frozenset({"j"})))
        assert places(result, "j") == {"x1": 4}
        assert reason(result, "k") is Reason.NO_ROOM

    def test_other_jobs_are_evicted_for_places_too(self) -> None:
        waiting = live("j", 4, priority=5, rule=ONE_HOST)
        held = [
            domain_allocation("j", {}, charges=(Charge("grid", Resource.CPU, 4),)),
            domain_allocation("low", {"x1": 3}),
        ]
        given = world([host("x1")], [waiting, live("low", 3, priority=1)], held)
        result = cycle(given, TopologyState(unplaced=frozenset({"j"})))
        assert [(d.job, d.kind, d.beneficiary) for d in result.decisions] == [
            ("low", DecisionKind.EVICT, "j")
        ]
