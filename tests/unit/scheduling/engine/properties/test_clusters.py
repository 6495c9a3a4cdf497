"""Invariants of every gang with flavors in several clusters."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from scheduling.engine import EngineConfig, Snapshot, never_fits
from scheduling.engine.model import (
    Flavor,
    Job,
    Node,
    PreemptionPolicy,
    PreemptOthers,
    PreemptWithin,
    Reason,
    Role,
)
from tests.unit.scheduling.engine.builders import (
    commit,
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
from tests.unit.scheduling.engine.properties.laws import law

CLUSTERS = ("east", "west")
MODELS = ("A100", "L40S")
NAMES = tuple(f"{cluster}-{model}" for cluster in CLUSTERS for model in MODELS)


def pools() -> list[Flavor]:
    return [
        flavor(f"{cluster}-{model}", cluster=cluster, card_model=model, node_labels={"model": model})
        for cluster in CLUSTERS
        for model in MODELS
    ]


@st.composite
def fleets(draw: st.DrawFn) -> list[Node]:
    return [
        node(
            f"{name}-{index}", draw(st.integers(1, 4)), model=name.split("-")[1],
            cluster=name.split("-")[0], labels={"model": name.split("-")[1]},
        )
        for name in NAMES
        for index in range(draw(st.integers(0, 2)))
    ]  # fmt: skip


@st.composite
def roles(draw: st.DrawFn, index: int, least_cpu: int = 0) -> Role:
    tasks = draw(st.integers(1, 3))
    models = draw(st.sampled_from([(), ("A100",), ("L40S",)]))
    least = draw(st.integers(1, tasks))
    cards, cpu = draw(st.integers(0, 3)), draw(st.integers(least_cpu, 2)) * 1000
    return role(tasks, cards, name=f"r{index}", least=least, cpu=cpu, models=models)


@st.composite
def gangs(draw: st.DrawFn, name: str, team: str = "a", least_cpu: int = 0) -> Job:
    members = [draw(roles(index, least_cpu)) for index in range(draw(st.integers(1, 3)))]
    facts = {"priority": draw(st.integers(0, 2)), "preemptible": draw(st.booleans())}
    return job(name, team, *members, at=draw(st.integers(0, 9)), **facts)


limits = st.fixed_dictionaries({name: st.integers(0, 8) for name in NAMES})
orders = st.permutations(NAMES)


def snapshot_of(
    nodes: Sequence[Node], jobs: Sequence[Job], limit: dict[str, int], order: Sequence[str]
) -> Snapshot:
    rights = PreemptionPolicy(within_queue=PreemptWithin.LOWER_PRIORITY, reclaim=PreemptOthers.ANY)
    given = tuple(quota for name in order for quota in quotas(limit[name], flavors=(name,)))
    teams = {"a": given, "b": given}
    queues = [queue(team, flavors=tuple(order), preemption=rights) for team in teams]
    return world(nodes, jobs, teams=teams, queues=queues, flavors=pools())


@law
@given(fleets(), st.data(), limits, orders)
def test_no_job_is_ever_spread_over_clusters(
    nodes: list[Node], data: st.DataObject, limit: dict[str, int], order: list[str]
) -> None:
    jobs = [data.draw(gangs(f"j{n}", team)) for n, team in enumerate(("a", "a", "b"))]
    snapshot = snapshot_of(nodes, jobs, limit, order)
    for _ in range(3):
        result = cycle(snapshot)
        commit(snapshot, result)
        for each in jobs:
            places = {snapshot.flavors[held.flavor].cluster for held in snapshot.allocations_of(each.id)}
            assert len(places) <= 1


@law
@given(fleets(), gangs("one", least_cpu=1), limits, orders)
def test_a_job_starts_if_and_only_if_one_cluster_alone_would_start_it(
    nodes: list[Node], gang: Job, limit: dict[str, int], order: list[str]
) -> None:
    result = cycle(snapshot_of(nodes, [gang], limit, order))
    alone = [
        cycle(snapshot_of(nodes, [gang], limit, [name for name in order if name.startswith(cluster)]))
        for cluster in CLUSTERS
    ]
    assert bool(started(result)) is any(started(each) for each in alone)


@law
@given(fleets(), gangs("one"), orders)
def test_a_job_can_never_run_if_no_cluster_alone_could_ever_run_it(
    nodes: list[Node], gang: Job, order: list[str]
) -> None:
    limit = dict.fromkeys(NAMES, 100)
    both = never_fits(snapshot_of(nodes, [gang], limit, order), gang, EngineConfig())
    alone = [
        never_fits(
            snapshot_of(nodes, [gang], limit, [name for name in order if name.startswith(cluster)]),
            gang,
            EngineConfig(),
        )
        for cluster in CLUSTERS
    ]
    assert (both is None) is any(each is None for each in alone)


def split(limit: int = 8) -> Snapshot:
    """A job with a role for each of two models, each of which one cluster alone has."""
    nodes = [
        node("e", model="A100", cluster="east", labels={"model": "A100"}),
        node("w", model="L40S", cluster="west", labels={"model": "L40S"}),
    ]
    gang = job("one", "a", role(1, 1, name="x", models=("A100",)), role(1, 1, name="y", models=("L40S",)))
    return snapshot_of(nodes, [gang], dict.fromkeys(NAMES, limit), NAMES)


def test_the_reason_names_the_clusters_that_were_tried() -> None:
    snapshot = split()
    told = outcome(cycle(snapshot), "one")
    assert told.reason is Reason.NEVER_FITS
    assert (told.numbers["clusters"], told.numbers["role"]) == ("east,west", "y")
    refused = never_fits(snapshot, snapshot.jobs["one"], EngineConfig())
    assert refused is not None
    assert refused.numbers["clusters"] == "east,west"


def test_a_job_that_only_both_clusters_together_have_quota_for_waits_with_that_reason() -> None:
    nodes = [node(name, model="A100", cluster=name, labels={"model": "A100"}) for name in CLUSTERS]
    limit = dict.fromkeys(NAMES, 0) | {"east-A100": 2, "west-A100": 2}
    # Of four cards each, two are left in the east and one in the west.
    before = [job(f"before-{cards}", "a", role(1, cards, models=("A100",)), at=cards) for cards in (2, 3)]
    wide = job("one", "a", role(1, 2, name="x"), role(1, 1, name="y"), at=9)
    result = cycle(snapshot_of(nodes, [*before, wide], limit, NAMES))
    assert set(started(result)) == {"before-2", "before-3"}
    told = outcome(result, "one")
    assert told.reason is not None
    assert told.numbers["clusters"] == "east,west"


def test_a_role_that_grows_stays_in_the_cluster_of_its_job() -> None:
    nodes = [
        node("e", 2, model="A100", cluster="east", labels={"model": "A100"}),
        node("w", 4, model="A100", cluster="west", labels={"model": "A100"}),
    ]
    gang = job("one", "a", role(1, 1, name="x"), role(4, 1, name="y", least=1))
    order = ("east-A100", "west-A100")
    snapshot = snapshot_of(nodes, [gang], dict.fromkeys(NAMES, 8), order)
    for _ in range(3):
        commit(snapshot, cycle(snapshot))
    places = [snapshot.flavors[held.flavor].cluster for held in snapshot.allocations_of("one")]
    assert len(set(places)) == 1
