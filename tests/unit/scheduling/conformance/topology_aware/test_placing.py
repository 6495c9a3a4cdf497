"""The rules of topology placement, one small cluster each."""

from __future__ import annotations

from dataclasses import replace

import pytest

from scheduling.conformance.kueue.topology_aware import (
    NODE_LABEL,
    DomainGangPlacer,
    Failure,
    FlavorTopology,
    LayerRoom,
    Misfit,
    NodePreference,
    Placement,
    RoleRequest,
    Share,
    SliceLayer,
    Stock,
    TopologyOptions,
    Usage,
    build_tree,
    place_across,
    replace_leaf,
    usage_of,
)
from scheduling.engine.model import (
    AffinityOperator,
    Expression,
    PlacementRules,
    Taint,
    Toleration,
    TolerationOperator,
    TopologyMode,
)

from .grounds import LEVELS, ONE_CORE, ground, node, placed, spots

REQUIRED, PREFERRED = TopologyMode.REQUIRED, TopologyMode.PREFERRED
TWO_BLOCKS = {"b1/r1/x1": 2, "b1/r1/x2": 2, "b1/r2/x3": 3, "b2/r1/x4": 4}


def role(
    tasks: int, mode: TopologyMode = REQUIRED, level: str | None = "rack", **rest: object
) -> RoleRequest:
    return RoleRequest(name="w", tasks=tasks, per_task=ONE_CORE, mode=mode, level=level, **rest)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("request_", "where"),
    [
        pytest.param(role(4), {"x1": 2, "x2": 2}, id="of equal racks the earlier one"),
        pytest.param(role(3), {"x3": 3}, id="the rack with the least room that takes all"),
        pytest.param(
            role(5, PREFERRED), {"x1": 2, "x3": 3}, id="no rack takes five: the finest coarser level does"
        ),
        pytest.param(
            role(9, PREFERRED),
            {"x1": 2, "x3": 3, "x4": 4},
            id="no block either: the roomiest nodes of both",
        ),
        pytest.param(
            role(1, TopologyMode.UNCONSTRAINED, None), {"x1": 1}, id="unconstrained uses up leftovers"
        ),
        pytest.param(
            role(4, REQUIRED, "block", layers=(SliceLayer("rack", 2),)),
            {"x4": 4},
            id="slices in one rack each",
        ),
        pytest.param(
            role(6, REQUIRED, "block", layers=(SliceLayer("rack", 3), SliceLayer(NODE_LABEL, 1))),
            {"x1": 2, "x2": 1, "x3": 3},
            id="three to a rack in two racks",
        ),
    ],
)
def test_where_a_role_goes(request_: RoleRequest, where: dict[str, int]) -> None:
    assert placed(ground(TWO_BLOCKS), request_) == {"w": where}


@pytest.mark.parametrize(
    ("request_", "misfit", "fitting", "needed"),
    [
        (role(5), Misfit.NO_ROOM, 4, 5),
        (role(12, PREFERRED), Misfit.NO_ROOM, 11, 12),
        (role(1, REQUIRED, "zone"), Misfit.UNKNOWN_LEVEL, 0, 0),
        (role(2, layers=(SliceLayer("zone", 2),)), Misfit.UNKNOWN_SLICE_LEVEL, 0, 0),
        (role(2, layers=(SliceLayer("rack", 0),)), Misfit.NO_SLICE_SIZE, 0, 0),
        (role(2, layers=(SliceLayer("block", 2),)), Misfit.SLICE_LEVEL_TOO_COARSE, 0, 0),
        (role(3, layers=(SliceLayer("rack", 2),)), Misfit.UNEVEN_SLICES, 0, 3),
        (role(4, layers=(SliceLayer("rack", 4), SliceLayer("zone", 2))), Misfit.UNKNOWN_LAYER_LEVEL, 0, 0),
        (role(4, layers=(SliceLayer("rack", 4), SliceLayer("rack", 2))), Misfit.LAYER_NOT_FINER, 0, 0),
        (
            role(4, layers=(SliceLayer("rack", 4), SliceLayer(NODE_LABEL, 3))),
            Misfit.LAYER_DOES_NOT_DIVIDE,
            3,
            4,
        ),
    ],
)
def test_why_a_role_is_not_placed(request_: RoleRequest, misfit: Misfit, fitting: int, needed: int) -> None:
    failure = placed(ground(TWO_BLOCKS), request_)["w"]
    assert isinstance(failure, Failure)
    assert (failure.misfit, failure.fitting, failure.needed) == (misfit, fitting, needed)


def test_a_topology_without_nodes_has_no_domains() -> None:
    failure = placed(ground({}), role(1))["w"]
    assert isinstance(failure, Failure)
    assert (failure.misfit, failure.level) == (Misfit.NO_DOMAINS, "rack")


def test_room_that_a_finer_layer_cannot_use_does_not_count() -> None:
    layers = (SliceLayer("rack", 4), SliceLayer(NODE_LABEL, 2))
    failure = placed(ground({"b1/r1/x1": 3, "b1/r1/x2": 1}), role(4, layers=layers))["w"]
    assert isinstance(failure, Failure)
    assert failure.layers == (LayerRoom("rack", 0, 1), LayerRoom(NODE_LABEL, 1, 2))


def test_each_leaf_is_refused_for_one_reason() -> None:
    taint = Taint("down")
    nodes = [
        node("b/r/a", 1, (taint,)),
        node("b/r/b", 4),
        node("b/r/c", 0),
        node("b/r/d", 4),
        node("b/r/e", 4, mem=1),
    ]
    rules = PlacementRules(
        node_selector={"block": "b"},
        node_affinity=((Expression(NODE_LABEL, AffinityOperator.NOT_IN, ("b",)),),),
    )
    request = replace(role(9), per_task={"cpu": 1, "mem": 2}, rules=rules)
    failure = placed(Stock(build_tree(LEVELS, nodes), nodes), request)["w"]
    assert isinstance(failure, Failure)
    seen = failure.exclusions
    assert (seen.leaves, seen.selector, seen.affinity, seen.outside) == (5, 0, 1, 0)
    assert (seen.taints, seen.resources) == ({taint: 1}, {"cpu": 1, "mem": 2})


def test_a_tolerated_taint_refuses_no_pod() -> None:
    nodes = [node("b/r/a", 1, (Taint("gpu", "yes"),))]
    stock = Stock(build_tree(LEVELS, nodes), nodes)
    tolerant = PlacementRules(tolerations=(Toleration("gpu", TolerationOperator.EXISTS),))
    assert placed(stock, role(1, rules=tolerant)) == {"w": {"a": 1}}
    placer = DomainGangPlacer(stock, TopologyOptions(), tolerations=tolerant.tolerations)
    assert isinstance(placer.place_roles([role(1)])["w"], Placement)


def test_preferences_count_only_when_heeded() -> None:
    likes = NodePreference(10, (Expression("rack", AffinityOperator.IN, ("r2",)),))
    request = role(1, REQUIRED, NODE_LABEL, preferences=(likes,))
    stock = ground({"b1/r1/x1": 1, "b1/r2/x2": 9})
    assert placed(stock, request) == {"w": {"x1": 1}}
    assert placed(stock, request, options=TopologyOptions(heed_preferences=True)) == {"w": {"x2": 1}}


def test_a_leader_is_placed_with_its_workers() -> None:
    leader = RoleRequest(name="l", tasks=1, per_task={"cpu": 2}, mode=REQUIRED, level="rack", companions="g")
    workers = replace(role(2), companions="g")
    stock = ground({"b1/r1/x1": 3, "b1/r2/x2": 4, "b1/r3/x3": 9})
    assert placed(stock, leader, workers) == {"w": {"x2": 2}, "l": {"x2": 1}}


def test_a_leader_goes_only_where_its_own_rules_allow() -> None:
    rules = PlacementRules(node_selector={NODE_LABEL: "x2"})
    leader = replace(role(1), name="l", companions="g", rules=rules)
    found = placed(ground({"b1/r1/x1": 3, "b1/r1/x2": 3}), leader, replace(role(3), companions="g"))
    assert found["l"] == {"x2": 1}


@pytest.mark.parametrize("tasks", [(2, 3), (1, 2, 3)])
def test_companions_are_one_leader_and_its_workers(tasks: tuple[int, ...]) -> None:
    roles = [replace(role(count), name=str(count), companions="g") for count in tasks]
    for failure in placed(ground(TWO_BLOCKS), *roles).values():
        assert isinstance(failure, Failure)
        assert failure.misfit is Misfit.NOT_ONE_LEADER


def test_later_roles_see_what_earlier_ones_took_and_stop_at_a_failure() -> None:
    first, second = replace(role(3), name="a"), replace(role(3), name="b")
    third, last = replace(role(5), name="c"), replace(role(1), name="d")
    found = placed(ground(TWO_BLOCKS), first, second, third, last)
    assert (found["a"], found["b"]) == ({"x3": 3}, {"x1": 2, "x2": 1})
    assert isinstance(found["c"], Failure)
    assert "d" not in found


def test_held_room_counts_unless_the_question_is_about_an_empty_topology() -> None:
    stock = ground({"b1/r1/x1": 4})
    held = Usage(("x1",), {"cpu": 3}, 1)
    stock.hold_usages([held])
    assert not stock.fits_all([Usage(("x1",), ONE_CORE, 2)])
    assert isinstance(placed(stock, role(2))["w"], Failure)
    assert isinstance(
        DomainGangPlacer(stock, TopologyOptions(), if_empty=True).place_roles([role(4)])["w"], Placement
    )
    stock.release_usages([held])
    assert stock.fits_all([Usage(("x1",), ONE_CORE, 4)])
    assert not stock.fits_all([Usage(("x1",), ONE_CORE, 2), Usage(("x1",), ONE_CORE, 3)])
    assert not stock.fits_all([Usage(("gone",), ONE_CORE, 1)])
    assert isinstance(placed(stock, role(2), assumed=[held])["w"], Failure)


def test_flavors_on_the_same_nodes_do_not_take_the_same_room_twice() -> None:
    grounds = {name: FlavorTopology(ground({"b1/r1/x1": 4, "b1/r1/x2": 4})) for name in ("east", "west")}
    asked = {
        "west": [replace(role(3, REQUIRED, NODE_LABEL), name="b")],
        "east": [role(3, REQUIRED, NODE_LABEL)],
    }
    found = place_across(grounds, asked, TopologyOptions())
    assert [spots(outcome) for outcome in found.values() if isinstance(outcome, Placement)] == [
        {"x1": 3},
        {"x2": 3},
    ]


def test_groups_of_nodes_are_each_flavors_own() -> None:
    grounds = {name: FlavorTopology(ground({"b1/r1/x1": 4}, LEVELS[:2])) for name in ("east", "west")}
    found = place_across(
        grounds, {"east": [role(4)], "west": [replace(role(4), name="b")]}, TopologyOptions()
    )
    assert all(isinstance(outcome, Placement) for outcome in found.values())


def test_no_flavor_is_asked_after_one_that_failed() -> None:
    grounds = {name: FlavorTopology(ground({"b1/r1/x1": 4})) for name in ("east", "west")}
    found = place_across(
        grounds, {"east": [role(5)], "west": [replace(role(1), name="b")]}, TopologyOptions()
    )
    assert list(found) == ["w"]


def test_what_others_hold_is_taken_from_the_node_for_good() -> None:
    stock = ground({"b1/r1/x1": 4})
    stock.occupy_node("x1", {"cpu": 3})
    stock.occupy_node("elsewhere", {"cpu": 3})
    assert isinstance(
        DomainGangPlacer(stock, TopologyOptions(), if_empty=True).place_roles([role(2)])["w"], Failure
    )


def test_an_even_spread_leaves_no_rump() -> None:
    stock = ground({"b1/r1/x1": 5, "b1/r1/x2": 4, "b1/r1/x3": 4})
    request = role(6, PREFERRED, "rack")
    assert placed(stock, request) == {"w": {"x1": 5, "x2": 1}}
    assert placed(stock, request, options=TopologyOptions(balanced=True)) == {"w": {"x2": 3, "x3": 3}}


@pytest.mark.parametrize(
    ("tasks", "where"),
    [(2, {"x1": 2}), (3, {"x1": 2, "x2": 1}), (5, {"x1": 2, "x2": 1, "x3": 2})],
    ids=["shrinks from the end", "stays", "grows beside"],
)
def test_a_running_role_keeps_its_places(tasks: int, where: dict[str, int]) -> None:
    before = Placement((NODE_LABEL,), (Share(("x1",), 2), Share(("x2",), 1)))
    request = role(tasks, TopologyMode.UNCONSTRAINED, None, previous=before)
    stock = ground({"b1/r1/x1": 2, "b1/r1/x2": 1, "b1/r1/x3": 9})
    assert placed(stock, request, options=TopologyOptions(grow_in_place=True)) == {"w": where}


def test_a_running_role_starts_afresh_when_a_place_is_gone() -> None:
    before = Placement((NODE_LABEL,), (Share(("gone",), 1),))
    request = role(1, TopologyMode.UNCONSTRAINED, None, previous=before)
    assert placed(ground({"b1/r1/x1": 1}), request, options=TopologyOptions(grow_in_place=True)) == {
        "w": {"x1": 1}
    }


def replaced(stock: Stock, request: RoleRequest, standing: dict[str, int], failed: str) -> object:
    existing = Placement((NODE_LABEL,), tuple(Share((name,), count) for name, count in standing.items()))
    stock.hold_usages(usage_of(existing, request.per_task))
    moved = replace_leaf(
        DomainGangPlacer(
            stock,
            TopologyOptions(),
        ),
        stock.tree,
        request,
        existing,
        failed,
    )
    return moved if isinstance(moved, Failure) else (spots(moved.placement), spots(moved.moved))


def test_a_failed_node_is_replaced_inside_the_required_rack() -> None:
    stock = ground({"b1/r1/x1": 1, "b1/r1/x2": 1, "b1/r1/x3": 5, "b1/r2/x4": 1})
    assert replaced(stock, role(2), {"x1": 1, "x2": 1}, "x2") == ({"x1": 1, "x3": 1}, {"x3": 1})


def test_a_broken_slice_is_completed_beside_its_rest() -> None:
    stock = ground({"b1/r1/x1": 1, "b1/r1/x2": 1, "b1/r2/x3": 1, "b1/r2/x4": 1, "b1/r2/x5": 9, "b1/r1/x6": 9})
    request = role(4, REQUIRED, "block", layers=(SliceLayer("rack", 2),))
    standing = {"x1": 1, "x2": 1, "x3": 1, "x4": 1}
    assert replaced(stock, request, standing, "x4") == ({"x1": 1, "x2": 1, "x3": 1, "x5": 1}, {"x5": 1})


def test_a_second_node_that_is_gone_makes_replacement_void() -> None:
    failure = replaced(ground({"b1/r1/x1": 9, "b1/r1/x2": 9}), role(3), {"x1": 1, "gone": 1, "x2": 1}, "x2")
    assert isinstance(failure, Failure)
    assert (failure.misfit, failure.level) == (Misfit.STALE_PLACEMENT, "gone")


def test_nothing_to_move_is_no_replacement() -> None:
    failure = replaced(ground({"b1/r1/x1": 9}), role(1), {"x1": 1}, "x9")
    assert isinstance(failure, Failure)
    assert failure.misfit is Misfit.NO_REPLACEMENT


def test_leaves_may_be_groups_of_nodes() -> None:
    stock = ground({"b1/r1/x1": 1, "b1/r1/x2": 2, "b2/r1/x3": 2}, LEVELS[:2])
    assert placed(stock, role(3)) == {"w": {"b1/r1": 3}}


def test_a_topology_has_levels() -> None:
    with pytest.raises(ValueError, match="at least one level"):
        build_tree((), [])
