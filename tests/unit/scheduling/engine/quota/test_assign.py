"""Flavors for whole jobs: the rules beyond the case tables, and the figures of a refusal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from foundation.core.quantities import Resource
from scheduling.engine.model import (
    AllocationMode,
    Charge,
    Extended,
    Flavor,
    FlavorResource,
    Fungibility,
    GpuRequest,
    HelpCode,
    Instant,
    Job,
    PreemptionPolicy,
    PreemptOthers,
    Preference,
    Queue,
    Quota,
    QuotaNode,
    Reason,
    Request,
    ResourceGroup,
    Role,
    TopologyRule,
    WhenCan,
)
from scheduling.engine.quota.assign import ReplacedRole, assign_flavors
from scheduling.engine.quota.assignment import Assignment, AssignmentMode
from scheduling.engine.state.charges import charges_in_flavors, compute_demand
from scheduling.engine.state.snapshot import Snapshot

CPU = "cpu"
QUEUE = Queue(id="q", quota_node="q", flavors=("a", "b"))


def world(
    own: Mapping[str, int],
    used: Mapping[str, int] | None = None,
    *,
    others: Mapping[str, int] | None = None,
    others_used: Mapping[str, int] | None = None,
    queue: Queue = QUEUE,
    placed: bool = True,
) -> Snapshot:
    """Return CPU quotas and usage by flavor: of the queue, and of another under the same parent."""

    def leaf(name: str, quota: Mapping[str, int], usage: Mapping[str, int]) -> QuotaNode:
        return QuotaNode(
            id=name,
            parent="root",
            quotas=tuple(Quota(flavor=f, resource=CPU, own_nominal=n) for f, n in quota.items()),
            usage=tuple(Charge(f, CPU, n) for f, n in usage.items()),
        )

    return Snapshot(
        flavors=[Flavor(id=name, placed=placed) for name in ("a", "b", "c")],
        quota_nodes=[
            QuotaNode(id="root"),
            leaf("q", own, used or {}),
            leaf("o", others or {}, others_used or {}),
        ],
        queues=[queue],
    )


def job(*sizes: int, preemptible: bool = True, evictions: int = 0, together: str = "") -> Job:
    """Return a job of one role per size: so many tasks of one CPU."""
    rule = TopologyRule(companions=together) if together else None
    roles = tuple(
        Role(name=f"r{index}", replicas=size, request=Request(cpu=1), topology=rule)
        for index, size in enumerate(sizes)
    )
    return Job(
        id="j",
        queue="q",
        roles=roles,
        submitted_at=Instant(0.0),
        preemptible=preemptible,
        evictions=evictions,
    )


def chosen(found: Assignment) -> list[str]:
    return [role.choices[CPU].flavor if role.choices else "" for role in found.roles]


class Asked:
    """A simulated preemption with one answer, which records its questions."""

    def __init__(self, mode: AssignmentMode = AssignmentMode.PREEMPT, level: int = 0) -> None:
        self.answer = (mode, level)
        self.questions: list[tuple[FlavorResource, int]] = []

    def __call__(
        self, queue: Queue, item: Job, key: FlavorResource, amount: int
    ) -> tuple[AssignmentMode, int]:
        self.questions.append((key, amount))
        return self.answer


class TestSearch:
    def test_what_earlier_roles_were_given_counts(self) -> None:
        found = assign_flavors(world({"a": 5, "b": 5}), QUEUE, job(4, 3), oracle=None, fair=False)
        assert chosen(found) == ["a", "b"]
        assert found.usage == {("a", CPU): 4, ("b", CPU): 3}
        assert found.mode is AssignmentMode.FIT

    def test_companions_are_served_as_one(self) -> None:
        found = assign_flavors(
            world({"a": 5, "b": 9}), QUEUE, job(4, 3, together="g"), oracle=None, fair=False
        )
        assert chosen(found) == ["b", "b"]
        assert found.usage == {("b", CPU): 7}

    def test_flavors_that_are_not_allowed_are_not_looked_at(self) -> None:
        found = assign_flavors(
            world({"a": 5, "b": 5}),
            QUEUE,
            job(1),
            oracle=None,
            fair=False,
            allowed=lambda role, resource, flavor: flavor == "b",
        )
        assert chosen(found) == ["b"]
        assert [tried.flavor for tried in found.roles[0].tries] == ["b"]

    def test_counts_may_be_given(self) -> None:
        found = assign_flavors(
            world({"a": 5, "b": 0}), QUEUE, job(9), oracle=None, fair=False, counts={"r0": 5}
        )
        assert found.mode is AssignmentMode.FIT
        assert found.roles[0].count == 5

    def test_ended_tasks_are_not_asked_for(self) -> None:
        item = job(9)
        item = replace(item, roles=(replace(item.roles[0], ended=4),))
        assert assign_flavors(world({"a": 5}), QUEUE, item, oracle=None, fair=False).usage == {("a", CPU): 5}

    def test_a_role_that_asks_for_nothing_fits(self) -> None:
        item = replace(job(1), roles=(Role(name="r0", replicas=3, request=Request()),))
        found = assign_flavors(world({}), QUEUE, item, oracle=None, fair=False)
        assert found.mode is AssignmentMode.FIT
        assert found.roles[0].choices == {}

    def test_a_companion_that_asks_for_nothing_is_placed_with_the_others(self) -> None:
        item = job(2, 1, together="g")
        item = replace(item, roles=(item.roles[0], replace(item.roles[1], request=Request())))
        found = assign_flavors(world({"a": 5}), QUEUE, item, oracle=None, fair=False)
        assert chosen(found) == ["a", "a"]
        assert found.usage == {("a", CPU): 2}

    def test_a_replaced_job_gives_flavor_and_difference(self) -> None:
        before = {"r0": ReplacedRole({CPU: "b"}, {CPU: 4})}
        found = assign_flavors(
            world({"a": 9, "b": 5}, {"b": 4}), QUEUE, job(5), oracle=None, fair=False, replaced=before
        )
        assert chosen(found) == ["b"]
        assert found.usage == {("b", CPU): 1}

    def test_two_flavors_with_nodes_of_their_own_tear_a_role_apart(self) -> None:
        groups = (ResourceGroup((CPU,), ("a",)), ResourceGroup(("net",), ("b",)))
        queue = replace(QUEUE, flavors=(), resource_groups=groups)
        item = replace(
            job(1),
            roles=(Role(name="r0", replicas=1, request=Request(cpu=1, extended=(Extended("net", 0),))),),
        )
        torn = assign_flavors(world({"a": 9}, queue=queue), queue, item, oracle=None, fair=False)
        assert torn.mode is AssignmentMode.NO_FIT
        assert torn.refusal is not None
        assert torn.refusal.numbers["flavors"] == "a,b"
        loose = assign_flavors(
            world({"a": 9}, queue=queue, placed=False), queue, item, oracle=None, fair=False
        )
        assert loose.mode is AssignmentMode.FIT

    def test_nothing_changes_in_the_snapshot(self) -> None:
        snapshot = world({"a": 2, "b": 2}, {"a": 1})
        before = snapshot.to_json()
        assign_flavors(snapshot, QUEUE, job(2, 9), oracle=Asked(), fair=True)
        assert snapshot.to_json() == before


class TestPreemption:
    def test_what_fits_evicts_no_job(self) -> None:
        asked = Asked()
        assert (
            assign_flavors(world({"a": 5}), QUEUE, job(5), oracle=asked, fair=False).mode
            is AssignmentMode.FIT
        )
        assert asked.questions == []

    def test_inside_the_nominal_others_are_asked(self) -> None:
        asked = Asked(AssignmentMode.RECLAIM, 1)
        found = assign_flavors(world({"a": 5}, {"a": 3}), QUEUE, job(5), oracle=asked, fair=False)
        assert asked.questions == [(("a", CPU), 5)]
        assert found.mode is AssignmentMode.RECLAIM
        assert found.borrow_level == 1
        assert found.contested == {("a", CPU)}

    def test_without_a_simulation_there_are_no_candidates(self) -> None:
        found = assign_flavors(world({"a": 5}, {"a": 3}), QUEUE, job(5), oracle=None, fair=False)
        assert found.mode is AssignmentMode.NO_CANDIDATES

    @pytest.mark.parametrize(
        ("policy", "fair", "expected"),
        [
            (PreemptionPolicy(), False, AssignmentMode.NO_FIT),
            (PreemptionPolicy(while_borrowing=PreemptOthers.LOWER_PRIORITY), False, AssignmentMode.PREEMPT),
            (PreemptionPolicy(reclaim=PreemptOthers.ANY), False, AssignmentMode.NO_FIT),
            (PreemptionPolicy(reclaim=PreemptOthers.ANY), True, AssignmentMode.PREEMPT),
        ],
    )
    def test_above_the_nominal_the_policy_decides(
        self, policy: PreemptionPolicy, fair: bool, expected: AssignmentMode
    ) -> None:
        queue = replace(QUEUE, flavors=("a",), preemption=policy)
        snapshot = world({"a": 1}, others={"a": 9}, others_used={"a": 6}, queue=queue)
        assert assign_flavors(snapshot, queue, job(6), oracle=Asked(), fair=fair).mode is expected

    @pytest.mark.parametrize(
        ("preference", "expected"),
        [(Preference.BORROWING_OVER_PREEMPTION, "b"), (Preference.PREEMPTION_OVER_BORROWING, "a")],
    )
    def test_the_preference_chooses_between_borrowing_and_pushing_out(
        self, preference: Preference, expected: str
    ) -> None:
        rule = Fungibility(when_can_borrow=WhenCan.TRY_NEXT_FLAVOR, preference=preference)
        queue = replace(QUEUE, fungibility=rule)
        snapshot = world({"a": 5, "b": 0}, {"a": 3}, others={"b": 9}, queue=queue)
        assert chosen(assign_flavors(snapshot, queue, job(5), oracle=Asked(), fair=False)) == [expected]


class TestOwnRules:
    """A job that may not borrow is limited to the nominal of its own queue."""

    @pytest.mark.parametrize(
        ("queue", "item", "cap", "borrows"),
        [
            (QUEUE, job(5), 3, True),
            (QUEUE, job(5, preemptible=False), 3, False),
            (replace(QUEUE, allocation_mode=AllocationMode.STATIC), job(5), 3, False),
            (QUEUE, job(5, evictions=2), 3, True),
            (QUEUE, job(5, evictions=3), 3, False),
            (QUEUE, job(5, evictions=3), None, True),
        ],
    )
    def test_who_may_borrow(self, queue: Queue, item: Job, cap: int | None, borrows: bool) -> None:
        queue = replace(queue, flavors=("a",))
        snapshot = world({"a": 4}, others={"a": 9}, queue=queue)
        found = assign_flavors(snapshot, queue, item, oracle=None, fair=False, eviction_cap=cap)
        assert found.mode is (AssignmentMode.FIT if borrows else AssignmentMode.NO_FIT)
        assert found.borrow_level == (1 if borrows else 0)

    def test_what_others_borrowed_of_the_nominal_has_to_be_reclaimed(self) -> None:
        queue, asked = replace(QUEUE, flavors=("a",)), Asked(AssignmentMode.RECLAIM)
        snapshot = world({"a": 4}, others={"a": 9}, others_used={"a": 11}, queue=queue)
        found = assign_flavors(snapshot, queue, job(4, preemptible=False), oracle=asked, fair=False)
        assert found.mode is AssignmentMode.RECLAIM

    def test_room_to_borrow_is_no_room_for_who_may_not(self) -> None:
        queue, asked = replace(QUEUE, flavors=("a",)), Asked()
        snapshot = world({"a": 4}, {"a": 2}, others={"a": 9}, queue=queue)
        assert assign_flavors(snapshot, queue, job(4), oracle=asked, fair=False).mode is AssignmentMode.FIT
        found = assign_flavors(snapshot, queue, job(4, preemptible=False), oracle=asked, fair=False)
        assert found.mode is AssignmentMode.PREEMPT
        assert asked.questions == [(("a", CPU), 4)]


class TestRefusals:
    def test_the_ceiling(self) -> None:
        queue = replace(QUEUE, flavors=("a",))
        found = assign_flavors(world({"a": 4}, queue=queue), queue, job(9), oracle=None, fair=False)
        assert found.refusal is not None
        assert found.refusal.reason is Reason.EXCEEDS_MAX_QUOTA
        assert found.refusal.numbers == {
            "flavor": "a",
            "resource": CPU,
            "asked": 9,
            "available": 4,
            "limit": 4,
        }
        assert [way.code for way in found.refusal.help] == [HelpCode.ASK_LESS, HelpCode.RAISE_QUOTA]

    def test_the_whole_gang_is_reported_and_the_try_names_the_role(self) -> None:
        queue = replace(QUEUE, flavors=("a",))
        snapshot = world({"a": 9}, {"a": 7}, queue=queue)
        found = assign_flavors(snapshot, queue, job(3, 4), oracle=None, fair=False)
        first = found.roles[0]
        assert first.refusal is not None
        assert first.refusal.reason is Reason.WAITING_FOR_QUOTA
        assert (first.refusal.numbers["asked"], first.refusal.numbers["available"]) == (7, 2)
        assert first.refusal.help[0].numbers["short"] == 5
        assert first.tries[0].refusals[0].numbers["short"] == 1

    def test_quota_that_others_hold_is_waited_for(self) -> None:
        queue = replace(QUEUE, flavors=("a",))
        snapshot = world({"a": 2}, others={"a": 9}, others_used={"a": 9}, queue=queue)
        found = assign_flavors(snapshot, queue, job(5), oracle=None, fair=False)
        assert found.refusal is not None
        assert found.refusal.reason is Reason.WAITING_FOR_BORROWED

    def test_of_several_flavors_the_closest_is_reported(self) -> None:
        snapshot = world({"a": 2, "b": 9}, {"b": 8})
        found = assign_flavors(snapshot, QUEUE, job(5), oracle=None, fair=False)
        assert found.refusal is not None
        assert found.refusal.numbers["flavor"] == "b"
        assert [tried.mode for tried in found.roles[0].tries] == [
            AssignmentMode.NO_FIT,
            AssignmentMode.NO_CANDIDATES,
        ]

    def test_a_flavor_that_does_not_exist_never_fits(self) -> None:
        queue = replace(QUEUE, flavors=("gone",))
        found = assign_flavors(world({}, queue=queue), queue, job(2), oracle=None, fair=False)
        assert found.refusal is not None
        assert found.refusal.reason is Reason.NEVER_FITS
        assert found.refusal.numbers == {"role": "r0", "asked": 2, "available": 0}
        assert found.roles[0].tries[0].refusals[0].numbers["why"] == "missing"

    def test_a_resource_that_the_queue_does_not_have_never_fits(self) -> None:
        queue = replace(QUEUE, flavors=(), resource_groups=(ResourceGroup(("memory",), ("a",)),))
        found = assign_flavors(world({}, queue=queue), queue, job(2), oracle=None, fair=False)
        assert found.refusal is not None
        assert found.refusal.numbers["resource"] == CPU

    def test_the_search_ends_with_the_first_role_that_fits_nowhere(self) -> None:
        found = assign_flavors(world({"a": 4, "b": 4}), QUEUE, job(2, 9, 1), oracle=None, fair=False)
        assert [role.role for role in found.roles] == ["r0", "r1"]
        assert found.mode is AssignmentMode.NO_FIT


class TestDemand:
    def test_named_resources_and_what_is_charged_only_count(self) -> None:
        request = Request(cpu=2, extended=(Extended("net", 3),), charged=(Extended("pods", 1),))
        assert compute_demand(request, Flavor(id="f")) == {CPU: 2, "net": 3, "pods": 1}

    def test_an_amount_of_zero_is_kept_where_it_is_named(self) -> None:
        request = Request(charged=(Extended("net", 0),))
        assert compute_demand(request, Flavor(id="f")) == {"net": 0}

    def test_cards_are_charged_by_the_flavor_that_was_chosen(self) -> None:
        request = Request(cpu=4, gpu=GpuRequest(cards=2))
        small, large = Flavor(id="s", card_memory=40), Flavor(id="l", card_memory=80)
        assert compute_demand(request, small)[Resource.GPU_MEMORY] == 80
        assert compute_demand(request, large)[Resource.GPU_MEMORY] == 160
        charges = charges_in_flavors(
            request, {CPU: small, Resource.GPU_CARDS: large, Resource.GPU_MEMORY: large}
        )
        assert charges == (Charge("l", "gpu.cards", 2), Charge("l", "gpu.memory", 160), Charge("s", CPU, 4))
