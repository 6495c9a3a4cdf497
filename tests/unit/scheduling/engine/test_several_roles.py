"""Jobs of several roles: where each may be placed, and reasons that hold for all of them together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.engine import ClaimPut
from scheduling.engine.model import (
    Allowance,
    BarredFlavor,
    Claim,
    Flavor,
    Instant,
    Job,
    PlacementRules,
    Reason,
    Request,
    Role,
    StopPolicy,
    TopologyMode,
    TopologyRule,
)
from tests.unit.scheduling.engine.actions.stage import Stage
from tests.unit.scheduling.engine.builders import (
    cycle,
    flavor,
    job,
    node,
    outcome,
    queue,
    quotas,
    role,
    started,
    world,
)

KINDS = ("near", "far")
NEAR, FAR = ({"kind": kind} for kind in KINDS)


def idle(tasks: int = 1) -> Role:
    """Return tasks that ask for nothing."""
    return Role(name="idle", replicas=tasks, request=Request())


def kinds(*, clusters: bool = False) -> list[Flavor]:
    """Return two flavors by label, each in a cluster of its own with `clusters`."""
    return [flavor(k, node_labels={"kind": k}, **({"cluster": k} if clusters else {})) for k in KINDS]


def spent(name: str) -> BarredFlavor:
    return BarredFlavor(name, "Team", 10, 10)


class TestRolesThatAskForNothing:
    """They are placed in any flavor of the queue, beside the rest of their job."""

    def test_a_flavor_without_nodes_is_passed_over(self) -> None:
        snapshot = world(
            [node("n1", 4, labels=FAR)],
            [job("j", "a", idle())],
            teams={"a": quotas(4, flavors=KINDS)},
            queues=[queue("a", flavors=KINDS)],
            flavors=kinds(),
        )
        (decision,) = cycle(snapshot).decisions
        assert [(task.flavor, task.node) for task in decision.allocations] == [("far", "n1")]

    def test_so_is_one_that_is_full(self) -> None:
        snapshot = world(
            [node("n0", 4, labels=NEAR, pods=1), node("n1", 4, labels=FAR)],
            [job("j", "a", idle(3))],
            teams={"a": quotas(4, flavors=KINDS)},
            queues=[queue("a", flavors=KINDS)],
            flavors=kinds(),
        )
        (decision,) = cycle(snapshot).decisions
        assert {task.node for task in decision.allocations} == {"n1"}

    def test_so_is_one_whose_budget_is_used_up(self) -> None:
        snapshot = world(
            [node("n0", 4, labels=NEAR), node("n1", 4, labels=FAR)],
            [job("j", "a", idle(), barred=(spent("near"),))],
            teams={"a": quotas(4, flavors=KINDS)},
            queues=[queue("a", flavors=KINDS)],
            flavors=kinds(),
        )
        (decision,) = cycle(snapshot).decisions
        assert [task.node for task in decision.allocations] == ["n1"]

    @pytest.mark.parametrize("roles", [(role(1, 2), idle()), (idle(), role(1, 2))])
    def test_they_stay_in_the_cluster_of_their_job(self, roles: tuple[Role, ...]) -> None:
        snapshot = world(
            [node("n0", 1, labels=NEAR, cluster="near"), node("n1", 4, labels=FAR, cluster="far")],
            [job("j", "a", *roles)],
            teams={"a": quotas(4, flavors=KINDS)},
            queues=[queue("a", flavors=KINDS)],
            flavors=kinds(clusters=True),
        )
        (decision,) = cycle(snapshot).decisions
        assert {task.node for task in decision.allocations} == {"n1"}

    def test_one_that_finds_no_capacity_names_a_flavor_that_would_suit_it(self) -> None:
        snapshot = world(
            [node("n1", 4, labels=FAR, pods=1)],
            [job("j", "a", role(1, 1), at=0), job("k", "a", idle(), at=1)],
            teams={"a": quotas(4, flavors=KINDS)},
            queues=[queue("a", flavors=KINDS)],
            flavors=kinds(),
        )
        found = outcome(cycle(snapshot), "k")
        assert (found.reason, found.numbers["flavor"]) == (Reason.NO_ROOM, "far")


class TestRoom:
    def test_free_cards_are_counted_without_the_own_tasks(self) -> None:
        """Three cards are free. The first role would take two of them, and the second asks for two."""
        snapshot = world(
            [node("n1", 3)], [job("j", "a", role(1, 2, name="first"), role(1, 2, name="second"))]
        )
        found = outcome(cycle(snapshot), "j")
        assert (found.reason, found.numbers["role"]) == (Reason.NO_ROOM, "second")
        assert {name: found.numbers[name] for name in ("cards", "free_cards", "most_free_on_one_node")} == {
            "cards": 3, "free_cards": 3, "most_free_on_one_node": 3,
        }  # fmt: skip

    def test_a_role_with_fewer_places_goes_first_where_the_harder_one_takes_them(self) -> None:
        """The second role can only use the cards of the node with much memory."""
        nodes = [node("n0", 3, memory=500_000), node("n1", 8, memory=50_000)]
        roles = (role(1, 2, name="first"), role(3, 1, name="second", memory=100_000))
        result = cycle(world(nodes, [job("j", "a", *roles)]))
        assert started(result) == ["j"]
        (decision,) = result.decisions
        assert {task.role: task.node for task in decision.allocations} == {"first": "n1", "second": "n0"}

    def test_roles_that_fit_in_no_order_wait_and_leave_nothing(self) -> None:
        nodes = [node("n0", 2, memory=500_000), node("n1", 1, memory=50_000)]
        roles = (role(1, 2, name="first"), role(1, 1, name="second", memory=100_000))
        snapshot = world(nodes, [job("j", "a", *roles), job("k", "a", role(1, 2), at=5)])
        result = cycle(snapshot)
        assert outcome(result, "j").reason is Reason.NO_ROOM
        assert started(result) == ["k"]


class TestPolicy:
    """What is not allowed is reported as such, also if roles are in different flavors."""

    def stopped(self, asked: Job) -> object:
        """Return the reason of a job of a stopped queue with sliceable cards near and whole ones far."""
        nodes = [node("n0", 2, labels=NEAR), node("n1", 8, labels=FAR)]
        snapshot = world(
            nodes,
            [asked],
            teams={"a": quotas(8, flavors=KINDS)},
            queues=[queue("a", flavors=KINDS, stop_policy=StopPolicy.HOLD)],
            flavors=kinds(),
        )
        return outcome(cycle(snapshot), asked.id).reason

    @pytest.mark.parametrize(
        ("barred", "reason"), [("far", Reason.POLICY_DENIED), ("near", Reason.QUEUE_STOPPED)]
    )
    def test_one_role_that_only_fits_where_the_budget_is_used_up(self, barred: str, reason: Reason) -> None:
        roles = (role(1, 4, name="large"), role(1, 1, name="small"))
        assert self.stopped(job("j", "a", *roles, barred=(spent(barred),))) is reason

    def test_a_cap_that_all_roles_are_below_by_themselves(self) -> None:
        roles = (role(1, 4, name="large"), role(1, 1, name="small"))
        cap = Allowance("ann", "gpu.cards", 4, 0)
        assert self.stopped(job("j", "a", *roles, allowances=(cap,))) is Reason.POLICY_DENIED

    def test_a_later_role_that_has_no_other_flavor_counts_against_the_limit(self) -> None:
        """The second role fits only near, where there is quota for one of the two, because a budget excludes
        far. The near quota in use at present is not the reason of the job."""
        nodes = [node("n0", 4, labels=NEAR), node("n1", 4, labels=FAR, memory=1_000)]
        limits = (*quotas(1, flavors=("near",), borrow=0), *quotas(9, flavors=("far",)))
        asked = job(
            "j", "a", role(name="free"), role(name="bound", memory=9_000), at=5, barred=(spent("far"),)
        )
        snapshot = world(
            nodes,
            [job("holds", "a", role(memory=9_000)), asked],
            teams={"a": limits},
            queues=[queue("a", flavors=("far", "near"))],
            flavors=kinds(),
        )
        stage = Stage(snapshot)
        stage.cycle()
        assert stage.running() == {"holds"}
        assert stage.outcome("j").reason is Reason.POLICY_DENIED

    def test_a_claim_beyond_the_cap_is_not_counted(self) -> None:
        cap = Allowance("ann", "gpu.cards", 1, 1)
        waiting = {"x": role(), "z": role(1, 2)}
        jobs = [job(name, "a", asked, user="ann", allowances=(cap,)) for name, asked in waiting.items()]
        snapshot = world([node("n1", 4)], jobs)
        stage = Stage(world([node("n1", 4)], [job("p", "a")]))
        promised = stage.cycle().decisions[0].allocations
        places = tuple(replace(task, job="x") for task in promised)
        stage = Stage(snapshot)
        stage.put(ClaimPut(Claim(job="x", allocations=places, leaving=(), until=Instant(9_999))))
        stage.cycle()
        assert stage.outcome("z").reason is Reason.POLICY_DENIED
        assert stage.outcome("z").numbers["held"] == 1


def test_node_rules_of_a_role_that_asks_for_nothing_hold_in_every_flavor() -> None:
    """The node selector fits only nodes of the later flavor."""
    rules = PlacementRules(node_selector={"zone": "b"})
    snapshot = world(
        [node("n0", 4, labels=NEAR | {"zone": "a"}), node("n1", 4, labels=FAR | {"zone": "b"})],
        [job("j", "a", role(1, 1), idle(), rules=rules)],
        teams={"a": quotas(4, flavors=KINDS)},
        queues=[queue("a", flavors=KINDS)],
        flavors=kinds(),
    )
    (decision,) = cycle(snapshot).decisions
    assert {task.node for task in decision.allocations} == {"n1"}


def test_the_limit_of_the_only_cluster_that_could_hold_all_roles_is_reported() -> None:
    """The near cluster has no node with the memory of the second role: its quota does not count."""
    asked = job("j", "a", role(1, 2, name="first"), role(1, 0, name="second", memory=9_000))
    snapshot = world(
        [
            node("n0", 4, labels=NEAR, cluster="near", memory=1_000),
            node("n1", 4, labels=FAR, cluster="far"),
        ],
        [asked],
        teams={"a": (*quotas(8, flavors=("near",)), *quotas(1, flavors=("far",)))},
        queues=[queue("a", flavors=KINDS, stop_policy=StopPolicy.HOLD)],
        flavors=kinds(clusters=True),
    )
    found = outcome(cycle(snapshot), "j")
    assert (found.reason, found.numbers["flavor"]) == (Reason.EXCEEDS_MAX_QUOTA, "far")


def test_no_more_capacity_in_a_zone_is_reported_than_is_requested() -> None:
    """Each of two nodes of the zone has room for the first role, and none for the second."""
    zone = TopologyRule(level="zone", mode=TopologyMode.REQUIRED)
    nodes = [node(f"n{at}", 4, labels={"zone": "a"}, memory=1_000, used_memory=900) for at in range(2)]
    roles = (role(1, 1, name="first"), role(1, 0, name="second", memory=500))
    found = outcome(cycle(world(nodes, [job("j", "a", *roles, topology=zone)])), "j")
    assert found.reason is Reason.NO_ROOM
    assert (found.numbers["role"], found.numbers["asked"], found.numbers["available"]) == ("first", 1, 1)
