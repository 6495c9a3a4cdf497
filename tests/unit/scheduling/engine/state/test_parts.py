"""Claims, usage of users, flavors and queues are added, changed and removed; the snapshot stays true."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foundation.core.quantities import Resource
from scheduling.engine import (
    ClaimPut,
    ClaimRemoved,
    Delta,
    FlavorPut,
    JobPut,
    JobRemoved,
    QueuePut,
    QuotaPut,
    Snapshot,
    SnapshotError,
    StatementError,
    UsagePut,
)
from scheduling.engine.model import (
    Allocation,
    Charge,
    Claim,
    FlavorResource,
    GpuMode,
    Instant,
    JobState,
    Quota,
    QuotaNode,
    UserUsage,
)
from tests.unit.scheduling.engine.builders import flavor, job, queue, quotas, world

CARDS, CORES = (FlavorResource("a100", name) for name in (Resource.GPU_CARDS, Resource.GPU_CORES))


def held(job_id: str, index: int = 0, *amounts: int) -> Allocation:
    charges = tuple(Charge(*CORES, amount) for amount in amounts)
    return Allocation(
        job=job_id, queue="a", role="worker", index=index, flavor="a100", node="", charges=charges
    )


def small() -> Snapshot:
    return world(jobs=[job("j", state=JobState.LIVE), job("k")], teams={"a": quotas(4), "b": quotas(4)})


def rebuilt(snapshot: Snapshot) -> Snapshot:
    again = Snapshot.from_json(snapshot.to_json())
    assert again.to_json() == snapshot.to_json()
    return again


def test_claims_and_usage_come_and_go() -> None:
    snapshot = small()
    claims = [Claim(job=name, until=Instant(5), allocations=(), leaving=()) for name in "kj"]
    usage = [UserUsage(queue=name, user="u", at=Instant(1)) for name in "ba"]
    snapshot.apply_delta(Delta((*map(ClaimPut, claims), *map(UsagePut, usage))))
    again = rebuilt(snapshot)
    assert again.claims == {one.job: one for one in claims}
    assert again.usage == {(one.queue, one.user): one for one in usage}
    assert list(again.claims) == ["j", "k"] and list(again.usage) == [("a", "u"), ("b", "u")]
    snapshot.apply_delta(
        Delta((ClaimRemoved("k"), ClaimRemoved("nobody"), ClaimPut(replace(claims[1], until=Instant(9)))))
    )
    assert {name: claim.until for name, claim in rebuilt(snapshot).claims.items()} == {"j": 9}


def test_parts_are_in_the_order_of_their_ids() -> None:
    shuffled = world(
        flavors=[flavor("z"), flavor("a100")],
        queues=[queue("b"), queue("a")],
        teams={"b": quotas(1), "a": quotas(2)},
    )
    assert list(shuffled.flavors) == ["a100", "z"]
    assert list(shuffled.queues) == ["a", "b"]
    assert [node.id for node in shuffled.export_quota_nodes()] == ["a", "b", "root"]


def test_what_a_job_is_charged_is_the_sum_of_its_tasks() -> None:
    snapshot = small()
    for task in (held("j", 0, 3, 4), held("j", 1, 5), held("k", 0, 9)):
        snapshot.add_allocation(task)
    assert snapshot.charges_of("j") == {CORES: 12}
    assert snapshot.charges_of("nobody") == {}
    assert snapshot.find_incomplete_jobs() == []


def test_removed_jobs_are_known_from_the_first() -> None:
    leaving = job("gone", state=JobState.LEAVING)
    snapshot = world(jobs=[leaving, job("j")])
    snapshot.add_allocation(held("gone"))
    snapshot.add_allocation(held("j"))
    assert snapshot.leaving_allocations() == ("gone/worker/0",)
    snapshot.apply_delta(Delta((JobPut(replace(leaving, state=JobState.LIVE)),)))
    assert snapshot.leaving_allocations() == ()
    snapshot.apply_delta(Delta((JobPut(leaving),)))
    assert snapshot.leaving_allocations() == ("gone/worker/0",)
    snapshot.apply_delta(Delta((JobRemoved("gone"), JobRemoved("nobody"))))
    assert snapshot.leaving_allocations() == ()


def test_changes_name_the_job() -> None:
    snapshot = small()

    def noted(change: object) -> list[str] | None:
        before = snapshot.job_changes.number
        if callable(change):
            change()
        return snapshot.job_changes.jobs_since(before)

    assert noted(lambda: snapshot.add_allocation(held("j"))) == ["j"]
    assert noted(lambda: snapshot.remove_allocation("j/worker/0")) == ["j"]
    assert noted(lambda: snapshot.apply_delta(Delta((JobPut(job("new")), JobRemoved("k"))))) == ["k", "new"]
    with snapshot.statement() as statement:
        statement.allocate(held("j"))
        before = snapshot.job_changes.number
    assert snapshot.job_changes.jobs_since(before) == ["j"]


@pytest.mark.parametrize(
    ("mode", "resource", "shared"),
    [
        (GpuMode.SLICE, Resource.GPU_CARDS, False),
        (GpuMode.SLICE, Resource.GPU_CORES, True),
        (GpuMode.WHOLE, Resource.GPU_CARDS, True),
    ],
)
def test_the_number_of_sliced_cards_is_no_part_of_a_share(
    mode: GpuMode, resource: Resource, shared: bool
) -> None:
    key = FlavorResource("a100", resource)
    nodes = [QuotaNode(id="all", quotas=(Quota(flavor="a100", resource=resource, own_nominal=9),))]
    snapshot = Snapshot(
        flavors=[flavor(mode=mode)],
        quota_nodes=[*nodes, QuotaNode(id="a", parent="all")],
        queues=[queue("a")],
    )
    assert snapshot.quota.share("a", {key: 3}).zero is not shared
    whole = FlavorPut(flavor(mode=GpuMode.WHOLE))
    snapshot.apply_delta(Delta((whole,)))
    assert not snapshot.quota.share("a", {key: 3}).zero
    assert not snapshot.quota.share("a", {FlavorResource("unknown", resource): 3}).zero


def test_limits_and_weights_reach_the_tree() -> None:
    limited = Quota(
        flavor="a100", resource=Resource.GPU_CARDS, own_nominal=4, borrowing_limit=1, lending_limit=2
    )
    snapshot = small()
    snapshot.apply_delta(
        Delta((QuotaPut(QuotaNode(id="a", parent="root", quotas=(limited,), weight_milli=500)),))
    )
    limits = rebuilt(snapshot).quota.limits("a", CARDS)
    assert (limits.own_nominal, limits.borrowing_limit, limits.lending_limit) == (4, 1, 2)
    assert rebuilt(snapshot).quota.weight_milli("a") == 500


def test_a_queue_may_move_to_another_leaf() -> None:
    snapshot = small()
    snapshot.apply_delta(Delta((QueuePut(queue("c", quota_node="b")),)))
    snapshot.add_allocation(replace(held("j", 0, 7), queue="c"))
    assert rebuilt(snapshot).quota.usage("b", CORES) == 7
    assert snapshot.queues["c"].quota_node == "b"
    with pytest.raises(SnapshotError, match=r"^queue d has no quota node nowhere$"):
        snapshot.apply_delta(Delta((QueuePut(queue("d", quota_node="nowhere")),)))


def test_the_other_moment_is_refused_where_there_is_none() -> None:
    snapshot = small()
    with pytest.raises(StatementError, match=r"^the future view is not open$"):
        snapshot.release_in_future(["j/worker/0"])
    with snapshot.statement() as statement:
        mark = statement.checkpoint()
        snapshot.open_future()
        with pytest.raises(
            StatementError, match=r"^changes of both views are undone only at the end of their statement$"
        ):
            statement.rollback(mark)
        snapshot.add_allocation(held("j"))
        snapshot.release_in_future(["j/worker/0", "nobody/worker/0"])
        snapshot.select_view(future=True)
        assert "j/worker/0" not in snapshot.allocations
        standing = snapshot.find_present_allocation("j/worker/0")
        assert standing is not None and standing.id == "j/worker/0"
        assert snapshot.find_present_allocation("nobody/worker/0") is None
        snapshot.select_view(future=False)
    with pytest.raises(StatementError, match=r"^the future view is not open$"):
        snapshot.release_in_future(["j/worker/0"])
    with pytest.raises(StatementError, match=r"^the future view exists inside a statement only$"):
        snapshot.open_future()
    with snapshot.statement(), pytest.raises(StatementError, match=r"^changes are not applied inside a"):
        snapshot.apply_delta(Delta())
