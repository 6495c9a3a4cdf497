"""Nodes that operators cordon: the request, the cluster's answer, and concurrent changes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
import time_machine

from clusters.backends.base import NodeFact, NodeObservation, PodOutcome
from clusters.backends.registry import backend_for
from clusters.backends.simulated import faults
from clusters.backends.simulated.backend import SimulatedBackend
from clusters.models import Cluster, ClusterHealth, Node, NodeCordon, NodeEvent, SimulatedNode
from clusters.services.inventory import inventory_sync, nodes_observe
from clusters.services.node_cordon import apply_cordons, node_cordon, node_uncordon, request_cordon
from clusters.services.ownership import ClusterUnreachable
from foundation.core import clock
from foundation.core.errors import Invalid, NotFound, PermissionDenied
from foundation.models import AuditRecord, Hint
from scheduling.execution.execute import execute_cluster
from scheduling.snapshots import empty_snapshot
from tenants.models import Role, User
from tests.builders import clusters, pipeline, tenancy

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def moving() -> Iterator[time_machine.Traveller]:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        yield traveller


@pytest.fixture
def cluster() -> Cluster:
    made, _flavor = pipeline.simulated_cluster(clusters.cell(), nodes=2)
    Cluster.unscoped.update(health=ClusterHealth.HEALTHY)
    return made


@pytest.fixture
def ops(cluster: Cluster) -> User:
    return tenancy.platform_admin()


def node(name: str = "node-01") -> Node:
    return Node.unscoped.get(name=name)


def apply(cluster: Cluster) -> int:
    return apply_cordons(cluster=cluster, backend=backend_for(cluster))


def look(cluster: Cluster) -> None:
    inventory_sync(cluster=cluster, inventory=backend_for(cluster).read_inventory())


def event_codes() -> list[str]:
    rows = NodeEvent.unscoped.filter(node=node()).order_by("id")
    return [code for code in rows.values_list("code", flat=True) if code != "added"]


def in_cluster() -> bool:
    return SimulatedNode.unscoped.get(name="node-01").cordoned


def schedulable() -> bool:
    (seen,) = [one for one in empty_snapshot(node().cluster.cell_id).fleet.nodes if one.id == str(node().pk)]
    return bool(seen.schedulable)


def audited() -> list[tuple[str, str, dict[str, object]]]:
    rows = AuditRecord.unscoped.filter(entity="node").order_by("created_at", "id")
    return [(row.action, row.actor_name, row.after) for row in rows]


def test_a_cordon_holds_at_once_and_reaches_the_cluster_by_its_worker(cluster: Cluster, ops: User) -> None:
    row = node_cordon(acting_user=ops, node=node(), reason="  a fan\nfails ")
    assert row is not None and row.is_pending
    assert not in_cluster(), "a request makes no call to a cluster"
    assert node().cordoned and not schedulable()
    topics = set(Hint.unscoped.values_list("topic", "key"))
    assert ("execute", str(cluster.pk)) in {(topic, str(key)) for topic, key in topics}
    look(cluster)  # the cluster does not know of it yet
    assert node().cordoned
    assert apply(cluster) == 1
    assert apply(cluster) == 0
    look(cluster)
    assert in_cluster() and node().cordoned
    row.refresh_from_db()
    assert (row.applied_at, row.ended_at, row.reason) == (clock.now(), None, "a fan fails")
    assert event_codes() == ["cordoned"]
    after = {"name": "node-01", "cluster": "sim", "reason": "a fan fails"}
    assert audited() == [("node.cordon", ops.username, after)]


def test_a_worker_carries_it_out_under_the_lease(cluster: Cluster, ops: User) -> None:
    node_cordon(acting_user=ops, node=node())
    execute_cluster(cluster_id=cluster.pk)
    assert in_cluster()
    node_uncordon(acting_user=ops, node=node())
    execute_cluster(cluster_id=cluster.pk)
    assert not in_cluster() and not node().cordoned and schedulable()


def test_twice_is_once(cluster: Cluster, ops: User) -> None:
    first = node_cordon(acting_user=ops, node=node(), reason="a fan fails")
    assert node_cordon(acting_user=ops, node=node()) == first
    apply(cluster)
    assert node_cordon(acting_user=ops, node=node(), reason="a fan fails") == first
    assert NodeCordon.unscoped.count() == 1
    assert len(audited()) == 1
    second = node_cordon(acting_user=ops, node=node(), reason="the fan is ordered")
    assert second is not None and second != first and second.reason == "the fan is ordered"
    apply(cluster)
    assert event_codes() == ["cordoned"]
    for _ in range(2):
        node_uncordon(acting_user=ops, node=node())
    assert [action for action, _, _ in audited()] == ["node.cordon", "node.cordon", "node.uncordon"]


def test_a_node_that_takes_pods_is_not_uncordoned(ops: User) -> None:
    assert node_uncordon(acting_user=ops, node=node()) is None
    assert not NodeCordon.unscoped.exists() and not audited()


def test_a_cordon_of_another_client_is_the_same_and_has_no_request(cluster: Cluster, ops: User) -> None:
    faults.node_cordon(cluster.pk, "node-01")
    look(cluster)
    assert node().cordoned and not schedulable()
    assert node_cordon(acting_user=ops, node=node()) is None
    assert not NodeCordon.unscoped.exists()
    known = node_cordon(acting_user=ops, node=node(), reason="whoever did it: a fan fails")
    assert known is not None and known.was_cordoned
    apply(cluster)
    node_uncordon(acting_user=ops, node=node())
    assert node().cordoned, "it is open when the cluster has confirmed it"
    apply(cluster)
    assert not in_cluster() and not node().cordoned
    assert event_codes() == ["cordoned", "uncordoned"]


def test_another_client_ends_a_cordon(cluster: Cluster, ops: User, moving: time_machine.Traveller) -> None:
    node_cordon(acting_user=ops, node=node(), reason="a fan fails")
    apply(cluster)
    faults.node_uncordon(cluster.pk, "node-01")
    look(cluster)
    assert node().cordoned, "what was observed may still be of the time before"
    moving.shift(timedelta(seconds=16))
    look(cluster)
    assert not node().cordoned and schedulable()
    assert NodeCordon.unscoped.get().ended_at is not None
    assert event_codes() == ["cordoned", "uncordoned"]


def test_old_news_of_a_node_that_was_opened_does_not_close_it(cluster: Cluster, ops: User) -> None:
    node_cordon(acting_user=ops, node=node())
    apply(cluster)
    old = backend_for(cluster).read_inventory()
    node_uncordon(acting_user=ops, node=node())
    apply(cluster)
    inventory_sync(cluster=cluster, inventory=old)
    assert not node().cordoned
    assert event_codes() == ["cordoned", "uncordoned"]


def test_uncordoned_before_the_cluster_got_the_cordon(cluster: Cluster, ops: User) -> None:
    node_cordon(acting_user=ops, node=node())
    node_uncordon(acting_user=ops, node=node())
    apply(cluster)
    assert not in_cluster() and not node().cordoned
    assert not NodeCordon.unscoped.filter(ended_at__isnull=True).exists()


def answer(monkeypatch: pytest.MonkeyPatch, outcome: PodOutcome) -> None:
    monkeypatch.setattr(SimulatedBackend, "mark_schedulable", lambda *_, **__: outcome)


@pytest.mark.parametrize("before", [False, True])
def test_what_the_cluster_refuses_changes_nothing(
    cluster: Cluster, ops: User, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    if before:
        faults.node_cordon(cluster.pk, "node-01")
        look(cluster)
    answer(monkeypatch, PodOutcome.of_refusal("Forbidden", "<b>nodes</b> is forbidden: %(no)s"))
    row = node_cordon(acting_user=ops, node=node(), reason="a fan fails")
    assert row is not None
    apply(cluster)
    row.refresh_from_db()
    assert (row.refusal, row.applied_at) == ("<b>nodes</b> is forbidden: %(no)s", None)
    assert row.ended_at is not None
    assert node().cordoned is before
    assert schedulable() is not before
    assert "cordon-refused" in event_codes()


def test_an_unknown_outcome_is_asked_for_again(
    cluster: Cluster, ops: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as silent:
        answer(silent, PodOutcome.of_unknown("the answer was lost"))
        node_cordon(acting_user=ops, node=node())
        Hint.unscoped.all().delete()
        assert apply(cluster) == 0
    assert Hint.unscoped.filter(topic__startswith="execute").exists()
    assert node().cordoned and NodeCordon.unscoped.get().is_pending
    assert apply(cluster) == 1
    assert in_cluster()


def test_an_answer_that_comes_too_late_is_dropped(
    cluster: Cluster, ops: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the cluster cordons the node, it is asked for the opposite."""

    def meanwhile(*_args: object, **_named: object) -> PodOutcome:
        monkeypatch.undo()
        node_uncordon(acting_user=ops, node=node())
        faults.node_cordon(cluster.pk, "node-01")
        return PodOutcome.of_success()

    monkeypatch.setattr(SimulatedBackend, "mark_schedulable", meanwhile)
    node_cordon(acting_user=ops, node=node())
    apply(cluster)
    assert NodeCordon.unscoped.get(schedulable=False).applied_at is None
    apply(cluster)
    assert not in_cluster() and not node().cordoned


@pytest.mark.parametrize("health", [ClusterHealth.UNREACHABLE, ClusterHealth.DISOWNED])
@pytest.mark.parametrize("act", [node_cordon, node_uncordon])
def test_a_cluster_that_does_not_answer_is_asked_for_nothing(
    cluster: Cluster, ops: User, health: ClusterHealth, act: object
) -> None:
    Node.unscoped.filter(name="node-01").update(cordoned=act is node_uncordon)
    Cluster.unscoped.update(health=health)
    with pytest.raises(ClusterUnreachable, match="Cluster sim is unreachable"):
        act(acting_user=ops, node=node())  # type: ignore[operator]
    assert not NodeCordon.unscoped.exists() and not audited() and not event_codes()


def test_a_node_that_has_left(cluster: Cluster, ops: User) -> None:
    known = node()
    node_cordon(acting_user=ops, node=known)
    nodes_observe(cluster=cluster, observations=[NodeObservation("node-01", None, clock.now())])
    assert NodeCordon.unscoped.get().ended_at is not None
    with pytest.raises(NotFound):
        node_cordon(acting_user=ops, node=known)
    assert apply(cluster) == 0


def test_a_node_that_comes_back_is_what_the_cluster_says(cluster: Cluster, ops: User) -> None:
    node_cordon(acting_user=ops, node=node())
    nodes_observe(cluster=cluster, observations=[NodeObservation("node-01", None, clock.now())])
    fact = NodeFact(name="node-01", cpu_millicores=8000, memory_mib=8192)
    nodes_observe(cluster=cluster, observations=[NodeObservation("node-01", fact, clock.now())])
    assert not node().cordoned


def test_operators_of_clusters_alone(ops: User) -> None:
    workspace = tenancy.workspace("team-a")
    watcher = tenancy.user("vic")
    tenancy.member(watcher, None, Role.PLATFORM_VIEWER)
    for who in (tenancy.user("adam", workspace, Role.ADMIN), watcher):
        for drain in (False, True):
            with pytest.raises(PermissionDenied):
                request_cordon(acting_user=who, node=node(), drain=drain)
        with pytest.raises(PermissionDenied):
            node_uncordon(acting_user=who, node=node())
    assert not NodeCordon.unscoped.exists()


def test_a_reason_that_is_too_long(ops: User) -> None:
    with pytest.raises(Invalid) as caught:
        node_cordon(acting_user=ops, node=node(), reason="x" * 501)
    assert [wrong.field for wrong in caught.value.errors] == ["reason"]
    row = node_cordon(acting_user=ops, node=node(), reason="<script>\x00 " + "x" * 480)
    assert row is not None and "\x00" not in row.reason
