"""A job of several roles fits whenever some choice of a flavor for each role fits."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.engine.model import (
    Charge,
    Flavor,
    Instant,
    Job,
    Queue,
    Quota,
    QuotaNode,
    Reason,
    Request,
    Role,
)
from scheduling.engine.quota.assign import assign_flavors
from scheduling.engine.quota.assignment import Assignment, AssignmentMode
from scheduling.engine.state.snapshot import Snapshot
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
from tests.unit.scheduling.engine.properties.laws import law

NAMES = "abc"
CPU = "cpu"


def assign(
    own: dict[str, int], used: dict[str, int], sizes: list[int], usable: set[tuple[int, str]]
) -> Assignment:
    """Assign flavors of a queue with these CPU quotas to a job with one role per size; `usable` are the
    flavors of each role."""
    given_quotas = tuple(Quota(flavor=name, resource=CPU, own_nominal=amount) for name, amount in own.items())
    usage = tuple(Charge(name, CPU, amount) for name, amount in used.items() if amount)
    snapshot = Snapshot(
        flavors=[Flavor(id=name) for name in NAMES],
        quota_nodes=[QuotaNode(id="q", quotas=given_quotas, usage=usage)],
        queues=[Queue(id="q", quota_node="q", flavors=tuple(NAMES))],
    )
    roles = tuple(
        Role(name=f"{place}", replicas=size, request=Request(cpu=1)) for place, size in enumerate(sizes)
    )
    return assign_flavors(
        snapshot,
        snapshot.queues["q"],
        Job(id="j", queue="q", roles=roles, submitted_at=Instant(0.0)),
        oracle=None,
        fair=False,
        allowed=lambda role, resource, flavor: (int(role), flavor) in usable,
        reassign_roles=True,
    )


@law
@given(
    own=st.fixed_dictionaries({name: st.integers(0, 6) for name in NAMES}),
    used=st.fixed_dictionaries({name: st.integers(0, 2) for name in NAMES}),
    sizes=st.lists(st.integers(1, 4), min_size=2, max_size=4),
    data=st.data(),
)
def test_a_job_fits_if_some_choice_of_flavors_fits(
    own: dict[str, int], used: dict[str, int], sizes: list[int], data: st.DataObject
) -> None:
    pairs = [(place, name) for place in range(len(sizes)) for name in NAMES]
    usable = data.draw(st.sets(st.sampled_from(pairs)), "usable flavors by role")
    fits = any(
        all((place, name) in usable for place, name in enumerate(choice))
        and all(
            used[name] + sum(size for size, chosen in zip(sizes, choice, strict=True) if chosen == name)
            <= own[name]
            for name in set(choice)
        )
        for choice in product(NAMES, repeat=len(sizes))
    )
    found = assign(own, used, sizes, usable)
    assert (found.mode is AssignmentMode.FIT) is fits
    if fits:
        assert all(used[key.flavor] + amount <= own[key.flavor] for key, amount in found.usage.items())


def test_the_first_choice_is_kept_where_every_role_fits() -> None:
    found = assign({"a": 5, "b": 5, "c": 0}, {}, [2, 3], {(0, "a"), (0, "b"), (1, "a"), (1, "b")})
    assert [role.flavors for role in found.roles] == [("a",), ("a",)]


def test_a_refusal_is_about_the_first_choice_if_no_other_is_better() -> None:
    found = assign({"a": 3, "b": 0, "c": 0}, {"a": 1}, [2, 3], {(0, "a"), (0, "b"), (1, "a")})
    assert found.refusal is not None
    assert (found.refusal.reason, found.refusal.numbers["asked"]) == (Reason.EXCEEDS_MAX_QUOTA, 5)


@pytest.mark.parametrize("limit", [1, 0])
def test_a_role_leaves_the_only_flavor_that_another_can_use(limit: int) -> None:
    """The helper asks for CPU that only the nodes of one pool have."""
    pools = [flavor(name, node_labels={"pool": name}) for name in ("a100", "h100")]
    nodes = [node("l", 2, labels={"pool": "a100"}), node("s", 2, labels={"pool": "h100"}, cpu=4_000)]
    waiting = job("j", "a", role(), role(name="helper", cpu=32_000))
    limits = {"a": (*quotas(1), *quotas(limit, flavors=["h100"]))}
    queues = [queue("a", flavors=("a100", "h100"))]
    result = cycle(world(nodes, [waiting], flavors=pools, teams=limits, queues=queues))
    if limit:
        assert started(result) == ["j"]
    else:
        assert outcome(result, "j").reason is Reason.EXCEEDS_MAX_QUOTA
