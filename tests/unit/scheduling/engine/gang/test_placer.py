"""Placements of gangs: whole or not at all, hardest role first, by part and by domain."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.engine import AllocationPut, Delta, Snapshot
from scheduling.engine.gang import PlacementExtent, RefusalCache
from scheduling.engine.model import Flavor, Job, Node, Reason, TopologyRule
from scheduling.engine.quota.assignment import Refusal
from tests.unit.scheduling.engine.builders import flavor, job, node, role, world
from tests.unit.scheduling.engine.gang.test_parts import member
from tests.unit.scheduling.engine.gang.worlds import (
    on_nodes,
    part,
    place_job_alone,
    preferred,
    racked_world,
    required,
)


def refused(found: object) -> Refusal:
    assert isinstance(found, Refusal), found
    return found


def run_first_tasks(snapshot: Snapshot, entry: Job, count: int) -> None:
    """Let the first tasks of the job run."""
    found = place_job_alone(
        snapshot, entry, {role.name: count for role in entry.roles}, extent=PlacementExtent.MINIMUM
    )
    assert not isinstance(found, Refusal)
    snapshot.apply_delta(Delta(tuple(AllocationPut(allocation) for allocation in found)))


class TestWholeGangs:
    def test_all_roles_or_nothing(self) -> None:
        entry = job("j", "a", role(1, 4, name="x"), role(1, 4, name="y"))
        snapshot = world([node("n1"), node("n2", 3)], [entry])
        before = snapshot.to_json()
        found = refused(place_job_alone(snapshot, entry, keep=True))
        assert (found.reason, found.numbers["role"], found.numbers["available"]) == (Reason.NO_ROOM, "y", 0)
        assert snapshot.to_json() == before

    def test_the_hardest_role_goes_first_and_slices_last(self) -> None:
        roles = (role(1, 1, name="slice", cores=30), role(1, 1, name="one"), role(1, 4, name="four"))
        entry = job("j", "a", *roles)
        found = on_nodes(place_job_alone(world([node("n1", 4), node("n2", 2)], [entry]), entry))
        assert found == {"four/0": "n1", "one/0": "n2", "slice/0": "n2"}

    @pytest.mark.parametrize(("cards", "expected"), [(8, 8), (5, 5), (2, 2)])
    def test_surplus_goes_as_far_as_there_is_room(self, cards: int, expected: int) -> None:
        entry = job("j", "a", role(12, 1, least=2))
        assert len(on_nodes(place_job_alone(world([node("n1", cards)], [entry]), entry))) == expected

    def test_the_counts_of_the_assignment_bound_the_size(self) -> None:
        entry = job("j", "a", role(12, 1, least=2))
        snapshot = world([node("n1", 8)], [entry])
        assert len(on_nodes(place_job_alone(snapshot, entry, {"worker": 3}))) == 3
        assert refused(place_job_alone(snapshot, entry, {"worker": 1})).numbers["asked"] == 2

    def test_minimum_then_one_step_at_a_time(self) -> None:
        entry = job("j", "a", role(4, 1, least=2))
        snapshot = world([node("n1", 4)], [entry])
        steps = []
        while found := on_nodes(place_job_alone(snapshot, entry, extent=PlacementExtent.STEP, keep=True)):
            steps.append(sorted(found))
        assert steps == [["worker/0", "worker/1"], ["worker/2"], ["worker/3"]]

    @given(
        st.lists(st.integers(0, 5), min_size=1, max_size=5),
        st.sampled_from(((1, None), (2, None), (1, 40), (1, 70))),
        st.tuples(st.integers(1, 4), st.integers(0, 12)),
        st.sampled_from(("compact", "spread", "balance", "default", "topology")),
    )
    @settings(max_examples=150, deadline=None)
    def test_surplus_at_once_is_placed_as_step_by_step(
        self, cards: list[int], part: tuple[int, int | None], size: tuple[int, int], policy: str
    ) -> None:
        least, more = size
        shape: dict[str, Any] = {} if part[1] is None else {"cores": part[1]}
        gang = job("j", "a", role(least + more, part[0], least=least, **shape))
        after = job("k", "a", role(2, part[0], least=1, **shape))
        nodes = [node(f"n{index}", count) for index, count in enumerate(cards)]
        worlds = [world(nodes, [gang, after], flavors=[flavor(policy=policy)]) for _ in range(2)]
        places: list[dict[str, str]] = [{}, {}]
        for extent, snapshot, stands in zip(
            (PlacementExtent.FULL, PlacementExtent.STEP), worlds, places, strict=True
        ):
            for entry in (gang, after):
                found = place_job_alone(snapshot, entry, extent=extent, keep=True)
                while not isinstance(found, Refusal) and found:
                    stands |= {f"{entry.id}/{task}": at for task, at in on_nodes(found).items()}
                    found = place_job_alone(snapshot, entry, extent=extent, keep=True)
        assert places[0] == places[1]
        assert worlds[0].to_json() == worlds[1].to_json()

    def test_placed_tasks_stay_and_only_the_rest_is_placed(self) -> None:
        entry = job("j", "a", role(3, 1))
        snapshot = world([node("n1", 2), node("n2", 2)], [entry])
        kept = place_job_alone(snapshot, entry, keep=True)
        assert not isinstance(kept, Refusal)
        with snapshot.statement() as statement:
            statement.release(kept[1].id)
            again = place_job_alone(snapshot, entry)
        assert list(on_nodes(again)) == ["worker/1"]

    def test_a_terminating_task_keeps_its_name(self) -> None:
        entry = job("j", "a", role(2, 1))
        snapshot = world([node("n1", 4)], [entry])
        kept = place_job_alone(snapshot, entry, keep=True)
        assert not isinstance(kept, Refusal)
        with snapshot.statement() as statement:
            gone = statement.release(kept[0].id)
            statement.allocate(replace(gone, leaving=True))
            assert refused(place_job_alone(snapshot, entry)).numbers == {
                "role": "worker",
                "asked": 2,
                "available": 1,
                "limit": 1,
            }

    def test_finished_tasks_count_and_need_no_place(self) -> None:
        entry = job("j", "a", replace(role(3, 1), ended=2))
        assert len(on_nodes(place_job_alone(world([node("n1", 1)], [entry]), entry))) == 1

    def test_what_had_no_room_is_remembered_for_like_tasks_alone(self) -> None:
        full, snapshot = RefusalCache(), world([node("n1", 2)])
        big, other = job("big", "a", role(3, 1)), job("other", "a", role(4, 1))
        refused(place_job_alone(snapshot, big, full=full))
        found = refused(place_job_alone(snapshot, other, full=full))
        assert (found.numbers["asked"], found.numbers["available"]) == (4, 2)
        assert on_nodes(place_job_alone(snapshot, job("fits", "a", role(2, 1)), full=full))

    def test_a_flavor_that_is_quota_only_gets_one_hold_per_role(self) -> None:
        entry = job("j", "a", role(3, 1), role(1, 2, name="other"))
        snapshot = world([], [entry], flavors=[flavor(placed=False)])
        assert on_nodes(place_job_alone(snapshot, entry)) == {"other/0": "", "worker/0": ""}


class TestParts:
    def test_parts_start_at_their_minimum_and_grow_evenly(self) -> None:
        entry = job(
            "j",
            "a",
            member("x", "left", 2),
            member("y", "right", 2),
            sub_gangs=(part("left", min_available=1), part("right", min_available=1)),
        )
        assert sorted(on_nodes(place_job_alone(world([node("n1", 2)], [entry]), entry))) == ["x/0", "y/0"]
        assert sorted(on_nodes(place_job_alone(world([node("n1", 3)], [entry]), entry))) == [
            "x/0",
            "x/1",
            "y/0",
        ]
        assert refused(place_job_alone(world([node("n1", 1)], [entry]), entry))

    def test_one_of_two_parts_is_enough_where_the_job_says_so(self) -> None:
        entry = job(
            "j",
            "a",
            member("x", "left", 2, None),
            member("y", "right", 2, None),
            sub_gangs=(part("top", min_parts=1), part("left", "top"), part("right", "top")),
        )
        assert sorted(on_nodes(place_job_alone(world([node("n1", 3)], [entry]), entry))) == ["x/0", "x/1"]
        assert len(on_nodes(place_job_alone(world([node("n1", 4)], [entry]), entry))) == 4


ROOMY = {
    "z1": {"r1": {"n0": 2, "n1": 2}, "r2": {"n2": 2, "n3": 2}},
    "z2": {"r3": {"n4": 2, "n5": 2}, "r4": {"n6": 2, "n7": 2}},
}


def busy(snapshot: Snapshot, *nodes: str) -> None:
    """Occupy one card of each of these nodes."""
    for name in nodes:
        placed = job(f"on-{name}", "a", role(1, 1), rules=replace(job("x").rules, node_name=name))
        run_first_tasks(snapshot, placed, 1)


class TestTopology:
    def test_a_required_domain_holds_the_whole_gang_or_refuses(self) -> None:
        three = job("j", "a", role(4, 1), topology=required("rack"))
        snapshot = racked_world(ROOMY, three)
        busy(snapshot, "n0", "n2", "n4")
        assert set(on_nodes(place_job_alone(snapshot, three)).values()) == {"n6", "n7"}
        five = job("j5", "a", role(5, 1), topology=required("rack"))
        found = refused(place_job_alone(snapshot, five))
        assert (found.numbers["level"], found.numbers["available"]) == ("rack", 4)
        assert found.help[0].numbers == {"role": "worker", "tasks": 4}

    def test_the_tightest_domain_that_holds_it_is_taken_from_the_top(self) -> None:
        one = job("j", "a", role(1, 1), topology=preferred("rack"))
        snapshot = racked_world(ROOMY, one)
        busy(snapshot, "n0", "n4", "n5", "n6")
        # z2 has less free than z1, and inside z2 rack r3 has less than r4.
        assert set(on_nodes(place_job_alone(snapshot, one)).values()) == {"n4"}

    def test_a_preferred_level_falls_back_level_by_level(self) -> None:
        snapshot = racked_world(ROOMY)
        for tasks, zones, racks in ((4, 1, 1), (6, 1, 2), (10, 2, 4)):
            entry = job(f"j{tasks}", "a", role(tasks, 1), topology=preferred("rack"))
            nodes = set(on_nodes(place_job_alone(snapshot, entry)).values())
            labels = [snapshot.fleet.nodes[snapshot.fleet.row[name]].labels for name in nodes]
            assert len({entry["zone"] for entry in labels}) == zones
            assert len({entry["rack"] for entry in labels}) <= racks

    def test_required_and_preferred_together(self) -> None:
        rule = TopologyRule(level="zone", mode=required("zone").mode, preferred_level="rack")
        fits, wide = (job(f"j{n}", "a", role(n, 1), topology=rule) for n in (4, 6))
        snapshot = racked_world(ROOMY)
        assert set(on_nodes(place_job_alone(snapshot, fits)).values()) == {"n0", "n1"}
        # Over two racks of one zone: the one with more free, or the later of equal ones, is filled first.
        assert on_nodes(place_job_alone(snapshot, wide))["worker/0"] == "n2"
        assert refused(place_job_alone(snapshot, job("j9", "a", role(9, 1), topology=rule)))

    def test_parts_have_domains_of_their_own_inside_the_jobs(self) -> None:
        host = required("kubernetes.io/hostname")
        entry = job(
            "j",
            "a",
            member("a", "left", 2, None),
            member("b", "right", 4, None),
            topology=required("zone"),
            sub_gangs=(part("left", topology=host), part("right", topology=required("rack"))),
        )
        snapshot = racked_world(ROOMY, entry)
        for row, held in enumerate(snapshot.fleet.nodes):
            assert "kubernetes.io/hostname" not in held.labels, row
        labelled = Snapshot(
            nodes=[
                replace(n, labels={**n.labels, "kubernetes.io/hostname": n.id})
                for n in snapshot.export_nodes()
            ],
            flavors=[flavor(topology=("zone", "rack", "kubernetes.io/hostname"))],
            quota_nodes=snapshot.export_quota_nodes(),
            queues=snapshot.queues.values(),
        )
        found = on_nodes(place_job_alone(labelled, entry))
        where = {name: {node for task, node in found.items() if task.startswith(name)} for name in "ab"}
        assert len(where["a"]) == 1
        assert where["b"] in ({"n0", "n1"}, {"n2", "n3"})
        assert where["a"] | where["b"] <= {"n0", "n1", "n2", "n3"}

    def test_a_gang_grows_only_in_its_required_domain(self) -> None:
        entry = job("j", "a", role(6, 1, least=2), topology=required("rack"))
        snapshot = racked_world(ROOMY, entry)
        found = on_nodes(place_job_alone(snapshot, entry))
        assert len(found) == 4 and set(found.values()) == {"n0", "n1"}

    def test_an_unknown_required_level_refuses_and_a_preferred_one_does_not(self) -> None:
        asked, liked = (job("j", "a", role(1, 1), topology=rule("row")) for rule in (required, preferred))
        snapshot = racked_world(ROOMY)
        assert refused(place_job_alone(snapshot, asked)).numbers["level"] == "row"
        assert on_nodes(place_job_alone(snapshot, liked))

    def test_nodes_outside_the_topology_are_used_last(self) -> None:
        nodes: list[Node] = [node("out", 1), node("in", 1, labels={"zone": "z", "rack": "r"})]
        pools: list[Flavor] = [flavor(topology=("zone", "rack"))]
        entry = job("j", "a", role(2, 1), topology=preferred("rack"))
        assert on_nodes(place_job_alone(world(nodes, flavors=pools), entry)) == {
            "worker/0": "in",
            "worker/1": "out",
        }
