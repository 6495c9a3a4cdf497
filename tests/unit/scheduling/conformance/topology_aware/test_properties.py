"""Invariants of every placement, for any cluster."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling.conformance.kueue.topology_aware import (
    NODE_LABEL,
    DomainGangPlacer,
    Failure,
    Misfit,
    Placement,
    RoleRequest,
    SliceLayer,
    TopologyOptions,
)
from scheduling.engine.model import TopologyMode

from .grounds import LEVELS, ground

places = st.builds("b{}/r{}".format, st.integers(1, 2), st.integers(1, 3))
clusters = st.lists(st.tuples(places, st.integers(0, 6)), min_size=1, max_size=9).map(
    lambda listed: {f"{place}/x{number}": cpu for number, (place, cpu) in enumerate(listed)}
)
options = st.builds(TopologyOptions, mixed_profile=st.booleans(), balanced=st.booleans())
modes = st.sampled_from(TopologyMode)


@st.composite
def roles(draw: st.DrawFn) -> RoleRequest:
    mode = draw(modes)
    level = draw(st.integers(0, 2))
    size = draw(st.sampled_from([1, 1, 2, 4]))
    layers: tuple[SliceLayer, ...] = ()
    if size > 1:
        coarse = draw(st.integers(level if mode is not TopologyMode.UNCONSTRAINED else 0, 2))
        layers = (SliceLayer(LEVELS[coarse], size),)
        if coarse < 2 and draw(st.booleans()):
            layers += (SliceLayer(NODE_LABEL, draw(st.sampled_from([1, 2]))),)
    return RoleRequest(
        name="w",
        tasks=size * draw(st.integers(1, 6)),
        per_task={"cpu": draw(st.integers(1, 2))},
        mode=mode,
        level=None if mode is TopologyMode.UNCONSTRAINED else LEVELS[level],
        layers=layers,
    )


def held_by(placement: Placement, per_task: int) -> Counter[str]:
    return Counter({share.domain[0]: share.tasks * per_task for share in placement.shares})


def domains(cores: dict[str, int], placement: Placement, level: int) -> Counter[str]:
    """Tasks per domain of a level."""
    path_of = {path.rsplit("/", 1)[1]: path for path in cores}
    counted: Counter[str] = Counter()
    for share in placement.shares:
        counted["/".join(path_of[share.domain[0]].split("/")[: level + 1])] += share.tasks
    return counted


@given(cores=clusters, role=roles(), chosen=options)
@settings(max_examples=300, deadline=None)
def test_a_placement_satisfies_every_constraint(
    cores: dict[str, int], role: RoleRequest, chosen: TopologyOptions
) -> None:
    outcome = DomainGangPlacer(ground(cores), chosen).place_roles([role])["w"]
    if isinstance(outcome, Failure):
        assert outcome.misfit is Misfit.NO_ROOM
        return
    assert outcome.tasks == role.tasks
    free = {path.rsplit("/", 1)[1]: cpu for path, cpu in cores.items()}
    held = held_by(outcome, role.per_task["cpu"])
    assert all(held[name] <= free[name] for name in held)
    if role.mode is TopologyMode.REQUIRED and role.level is not None:
        assert len(domains(cores, outcome, LEVELS.index(role.level))) == 1
    for layer in role.layers:
        counts = domains(cores, outcome, LEVELS.index(layer.level)).values()
        assert all(count % layer.size == 0 for count in counts)


@given(cores=clusters, role=roles(), chosen=options)
@settings(max_examples=300, deadline=None)
def test_a_role_is_refused_only_for_want_of_room(
    cores: dict[str, int], role: RoleRequest, chosen: TopologyOptions
) -> None:
    outcome = DomainGangPlacer(ground(cores), chosen).place_roles([role])["w"]
    tasks = {path: cpu // role.per_task["cpu"] for path, cpu in cores.items()}
    groups = [(LEVELS.index(layer.level), layer.size) for layer in reversed(role.layers)]
    room = Counter(tasks)
    for level, size in groups:
        room = rounded(room, level, size)
    together = LEVELS.index(role.level) if role.mode is TopologyMode.REQUIRED and role.level else -1
    best = max(rounded(room, together, 1).values())
    assert isinstance(outcome, Placement) == (best >= role.tasks)


def rounded(room: Counter[str], level: int, size: int) -> Counter[str]:
    """Room per domain of a level in whole groups; level -1 is everything."""
    summed: Counter[str] = Counter()
    for path, tasks in room.items():
        summed["/".join(path.split("/")[: level + 1])] += tasks
    return Counter({path: tasks // size * size for path, tasks in summed.items()})


@given(cores=clusters, workers=roles(), leader_cpu=st.integers(1, 4), chosen=options)
@settings(max_examples=300, deadline=None)
def test_a_leader_and_its_workers_share_what_is_there(
    cores: dict[str, int], workers: RoleRequest, leader_cpu: int, chosen: TopologyOptions
) -> None:
    crew = replace(workers, tasks=max(workers.tasks, 2 * (workers.tasks == 1)), companions="g")
    head = replace(crew, name="l", tasks=1, per_task={"cpu": leader_cpu}, layers=())
    both = [head, crew]
    outcome = DomainGangPlacer(ground(cores), chosen).place_roles(both)
    leader, placed = outcome["l"], outcome["w"]
    assert isinstance(leader, Failure) == isinstance(placed, Failure)
    if isinstance(leader, Failure) or isinstance(placed, Failure):
        return
    assert (leader.tasks, placed.tasks) == (1, crew.tasks)
    free = {path.rsplit("/", 1)[1]: cpu for path, cpu in cores.items()}
    held = held_by(placed, workers.per_task["cpu"]) + held_by(leader, leader_cpu)
    assert all(held[name] <= free[name] for name in held)
    if workers.mode is TopologyMode.REQUIRED and workers.level is not None:
        level = LEVELS.index(workers.level)
        assert len(domains(cores, placed, level) + domains(cores, leader, level)) == 1


@given(cores=clusters, role=roles(), chosen=options, order=st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_the_order_in_which_nodes_are_listed_does_not_matter(
    cores: dict[str, int], role: RoleRequest, chosen: TopologyOptions, order: object
) -> None:
    shuffled = list(cores.items())
    order.shuffle(shuffled)  # type: ignore[attr-defined]
    first = DomainGangPlacer(ground(cores), chosen).place_roles([role])
    assert DomainGangPlacer(ground(dict(shuffled)), chosen).place_roles([role]) == first


@given(
    cores=clusters,
    tasks=st.integers(2, 12),
    leader_cpu=st.integers(1, 4),
    mode=modes,
    level=st.integers(0, 2),
)
@settings(max_examples=300, deadline=None)
def test_a_leader_and_its_workers_are_refused_only_for_want_of_room(
    cores: dict[str, int], tasks: int, leader_cpu: int, mode: TopologyMode, level: int
) -> None:
    wanted = None if mode is TopologyMode.UNCONSTRAINED else LEVELS[level]
    crew = RoleRequest(name="w", tasks=tasks, per_task={"cpu": 1}, mode=mode, level=wanted, companions="g")
    head = replace(crew, name="l", tasks=1, per_task={"cpu": leader_cpu})
    outcome = DomainGangPlacer(ground(cores), TopologyOptions()).place_roles([head, crew])["w"]
    together = level if mode is TopologyMode.REQUIRED else -1
    hosts = [path for path, cpu in cores.items() if cpu >= leader_cpu]
    left = [Counter({**cores, host: cores[host] - leader_cpu}) for host in hosts]
    rooms = [
        rounded(room, together, 1)["/".join(host.split("/")[: together + 1])]
        for host, room in zip(hosts, left, strict=True)
    ]
    assert isinstance(outcome, Placement) == (max(rooms, default=-1) >= tasks)
