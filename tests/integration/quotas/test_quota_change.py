"""Saving quotas: checked against the parent and the use, kept in the history, reverted."""

from __future__ import annotations

import pytest

from clusters.models import Node
from foundation.core.errors import Conflict, Invalid, PreconditionFailed
from foundation.core.quantities import Resource
from foundation.models import AuditRecord
from quotas.models import LedgerEntry, Quota, QuotaNode, QuotaRevision
from quotas.selectors.changes.quota_history import quota_history
from quotas.selectors.tables.quota_table import NodeQuota, tenant_quota_table
from quotas.services.errors import BelowUse, ExceedsParent
from quotas.services.quota import Keep, NodeAmounts, QuotaAmount, Shrink, quota_change, quota_set
from quotas.services.quota_preview import quota_preview
from quotas.services.quota_revert import quota_revert
from scheduling.models import Job, JobState
from tenants.models import Role, Tenant, User
from tests.builders import clusters, jobs, quotas, tenancy

pytestmark = pytest.mark.django_db
CARDS = Resource.GPU_CARDS


class Department:
    """A folder that keeps 10 cards, with team A (8, in its queue) and team B (4, in its queue)."""

    def __init__(self) -> None:
        self.cell = clusters.cell()
        self.flavor = clusters.flavor(clusters.cluster(self.cell))
        self.folder = tenancy.folder("research")
        self.a, self.b = (tenancy.workspace(name, self.folder) for name in ("team-a", "team-b"))
        self.node = quotas.quota_node(self.cell, self.folder)
        quotas.quota(self.node, self.flavor, CARDS, 10)
        self.queue_a = quotas.queue(self.cell, self.a, [self.flavor])
        self.queue_b = quotas.queue(self.cell, self.b, [self.flavor])
        quotas.quota(self.queue_a.node, self.flavor, CARDS, 8, borrowing_limit=2)
        quotas.quota(self.queue_b.node, self.flavor, CARDS, 4)
        self.anna: User = tenancy.user("anna", self.folder, Role.ADMIN)

    def at(self, tenant: Tenant) -> QuotaNode:
        return quotas.quota_node(self.cell, tenant)

    def cards(self, nominal: int | Keep | None, **limits: int | None) -> list[QuotaAmount]:
        return [QuotaAmount(self.flavor, CARDS, nominal, place="amounts.0.", **limits)]

    def own_nominal(self, node: QuotaNode) -> int | None:
        return Quota.unscoped.get(node=node, flavor=self.flavor, resource=CARDS).own_nominal

    def set(self, tenant: Tenant, nominal: int | None, **more: object) -> QuotaRevision | None:
        return quota_set(
            acting_user=self.anna,
            node=self.at(tenant),
            amounts=self.cards(nominal),
            **more,  # type: ignore[arg-type]
        )


@pytest.fixture
def here(db: None) -> Department:
    return Department()


def test_what_a_team_gains_leaves_its_folder(here: Department) -> None:
    here.set(here.a, 12)
    assert (
        here.own_nominal(here.at(here.a)),
        here.own_nominal(here.queue_a.node),
        here.own_nominal(here.node),
    ) == (4, 8, 6)
    here.set(here.a, 9)
    assert (here.own_nominal(here.at(here.a)), here.own_nominal(here.node)) == (1, 9)


def test_a_save_that_gives_too_much_says_both_sums_and_changes_nothing(here: Department) -> None:
    with pytest.raises(ExceedsParent) as refused:
        here.set(here.a, 19)
    assert refused.value.detail == (
        "Insufficient quota: children of Research would have 23 GPUs of a100, Research has 22 "
        "GPUs (Team A 19 GPUs, Team B 4 GPUs)."
    )
    assert refused.value.errors[0].field == "amounts.0.nominal"
    assert refused.value.numbers["has"] == 22
    assert not QuotaRevision.unscoped.exists()
    assert here.node.version == QuotaNode.unscoped.get(pk=here.node.pk).version


def test_several_nodes_are_saved_together_or_not_at_all(here: Department) -> None:
    def give(a: int, b: int) -> None:
        quota_change(
            acting_user=here.anna,
            cell_id=here.cell.pk,
            changes=[
                NodeAmounts(here.at(here.a), here.cards(a)),
                NodeAmounts(here.at(here.b), here.cards(b)),
            ],
        )

    give(8, 14)
    with pytest.raises(ExceedsParent):
        give(9, 14)
    assert (here.own_nominal(here.node), here.own_nominal(here.at(here.b))) == (0, 10)


def test_unlimited_and_zero_differ(here: Department) -> None:
    with pytest.raises(ExceedsParent):
        here.set(here.a, None)
    amounts = here.cards(Keep.AS_IS, borrowing_limit=0, lending_limit=None)
    quota_set(acting_user=here.anna, node=here.queue_a.node, amounts=amounts)
    row = Quota.unscoped.get(node=here.queue_a.node)
    assert (row.own_nominal, row.borrowing_limit, row.lending_limit) == (8, 0, None)
    amounts = here.cards(Keep.AS_IS, borrowing_limit=None, lending_limit=0)
    quota_set(acting_user=here.anna, node=here.queue_a.node, amounts=amounts)
    row.refresh_from_db()
    assert (row.borrowing_limit, row.lending_limit) == (None, 0)


@pytest.mark.parametrize("nominal", [-1, 2**62 + 1, 10**30])
def test_amounts_that_cannot_be(here: Department, nominal: int) -> None:
    with pytest.raises(Invalid) as refused:
        here.set(here.a, nominal)
    assert refused.value.errors[0].field == "amounts.0.nominal"


def test_one_limit_is_not_named_twice(here: Department) -> None:
    with pytest.raises(Invalid):
        quota_set(acting_user=here.anna, node=here.at(here.a), amounts=here.cards(1) + here.cards(2))


def test_below_its_use_only_with_a_choice(here: Department) -> None:
    here.set(here.a, 12)
    quotas.reserve(here.queue_a, here.flavor, CARDS, 10)
    with pytest.raises(BelowUse) as refused:
        here.set(here.a, 9)
    assert "Team A uses 10 GPUs of a100; the new quota is 9 GPUs." in refused.value.detail
    here.set(here.a, 9, shrink=Shrink.LET_RUN)
    assert here.own_nominal(here.at(here.a)) == 1


def test_raising_what_is_over_its_quota_needs_no_choice(here: Department) -> None:
    quotas.reserve(here.queue_a, here.flavor, CARDS, 12)
    here.set(here.a, 10)
    assert here.own_nominal(here.at(here.a)) == 2


def test_a_version_that_is_no_longer_true_changes_nothing(here: Department) -> None:
    read = here.at(here.a).version
    here.set(here.a, 9, version=read)
    with pytest.raises(PreconditionFailed):
        here.set(here.a, 10, version=read)
    assert here.own_nominal(here.at(here.a)) == 1
    assert here.at(here.a).version == read + 1


def test_saving_what_is_already_so_makes_no_history(here: Department) -> None:
    here.set(here.a, 12)
    assert here.set(here.a, 12) is None
    assert QuotaRevision.unscoped.count() == 1


def test_the_history_says_who_when_from_to_and_why(here: Department) -> None:
    here.set(here.a, 12, reason="the paper is due")
    (revision,) = quota_history(here.anna, here.folder)
    (change,) = revision.changes.all()
    assert (revision.actor_name, revision.reason) == ("anna", "the paper is due")
    assert (change.node.tenant, change.nominal_before, change.nominal_after) == (here.a, 8, 12)
    record = AuditRecord.unscoped.get(action="quota.set")
    assert record.before["a100 gpu.cards"]["nominal"] == 8
    assert record.after["a100 gpu.cards"]["nominal"] == 12


def test_a_member_sees_no_history_of_others(here: Department) -> None:
    here.set(here.b, 5)
    viewer = tenancy.user("vera", here.a, Role.VIEWER)
    assert list(quota_history(viewer, here.a)) == []


def test_a_revert_is_a_change_of_its_own(here: Department) -> None:
    revision = here.set(here.a, 12, reason="by mistake")
    assert revision is not None
    back = quota_revert(acting_user=here.anna, revision=revision, reason="it was")
    assert back is not None
    assert (back.reverts, here.own_nominal(here.node), here.own_nominal(here.at(here.a))) == (revision, 10, 0)
    again = quota_revert(acting_user=here.anna, revision=back)
    assert again is not None
    assert here.own_nominal(here.at(here.a)) == 4


def test_no_user_reverts_what_was_changed_again(here: Department) -> None:
    first = here.set(here.a, 12)
    here.set(here.a, 13)
    assert first is not None
    with pytest.raises(Conflict) as refused:
        quota_revert(acting_user=here.anna, revision=first)
    assert refused.value.code == "QUOTA_CHANGED_SINCE"


def test_draining_evicts_the_least_important(here: Department) -> None:
    first, second = clusters.nodes(here.flavor, 2)
    important = running(here, "important", first, priority=5)
    spare = running(here, "spare", second, priority=0)

    quota_set(acting_user=here.anna, node=here.queue_a.node, amounts=here.cards(4), shrink=Shrink.DRAIN)

    important.refresh_from_db()
    spare.refresh_from_db()
    assert (important.state, spare.state) == (JobState.RUNNING, JobState.EVICTING)
    assert spare.end_reason == "QUEUE_DRAINED"


def test_a_preview_names_the_evicted_jobs_and_writes_nothing(here: Department) -> None:
    running(here, "important", clusters.nodes(here.flavor, 1)[0], priority=5)
    found = quota_preview(
        acting_user=here.anna,
        cell_id=here.cell.pk,
        changes=[NodeAmounts(here.queue_a.node, here.cards(3))],
        shrink=Shrink.DRAIN,
    )
    assert [job.name for job in found.reclaimed.jobs] == ["important"]
    assert [(over.reserved, over.limit) for over in found.over_quota] == [(4, 3)]
    assert here.own_nominal(here.queue_a.node) == 8
    assert not QuotaRevision.unscoped.exists()


def test_a_preview_names_who_could_start(here: Department) -> None:
    clusters.nodes(here.flavor, 1)
    for queue in (here.queue_a, here.queue_b):
        for resource, amount in quotas.AMPLE.items():
            quotas.quota(queue.node, here.flavor, resource, amount)
        for resource in (Resource.GPU_CORES, Resource.GPU_MEMORY):
            quotas.quota(queue.node, here.flavor, resource, None)
    Quota.unscoped.filter(node=here.queue_b.node, resource=CARDS).update(borrowing_limit=0)
    jobs.job(here.queue_b, here.anna, "wide", roles=[jobs.RoleOf(cards=6)])
    found = quota_preview(
        acting_user=here.anna,
        cell_id=here.cell.pk,
        changes=[
            NodeAmounts(here.at(here.b), here.cards(6)),
            NodeAmounts(here.queue_b.node, here.cards(6)),
        ],
    )
    assert [(job.name, job.queue, job.cards) for job in found.started.jobs] == [("wide", "default", 6)]
    assert found.reclaimed.jobs == []


def test_a_preview_names_whose_jobs_would_be_taken_back(here: Department) -> None:
    (node,) = clusters.nodes(here.flavor, 1)
    limit_cards_alone(here)
    for name in ("first", "second"):
        running(here, name, node, priority=0)
    jobs.job(here.queue_b, here.anna, "wide", roles=[jobs.RoleOf(cards=8)])
    Quota.unscoped.filter(node=here.queue_b.node, resource=CARDS).update(borrowing_limit=0)
    wanted = [(here.at(here.a), 0), (here.queue_a.node, 0), (here.at(here.b), 8), (here.queue_b.node, 8)]
    found = quota_preview(
        acting_user=here.anna,
        cell_id=here.cell.pk,
        changes=[NodeAmounts(node, here.cards(cards)) for node, cards in wanted],
        shrink=Shrink.LET_RUN,
    )
    assert [job.name for job in found.reclaimed.jobs] == ["first", "second"]
    # The job starts when both have ended: the cycle reserves their GPUs for it.
    assert [job.name for job in found.started.jobs] == ["wide"]
    assert [(found.names[over.key.node_id], over.limit) for over in found.over_quota] == [
        ("Team A", 0),
        ("Team A / default", 0),
    ]


def test_a_preview_names_jobs_that_lose_tasks_above_their_minimum(here: Department) -> None:
    (node,) = clusters.nodes(here.flavor, 1)
    limit_cards_alone(here)
    elastic = jobs.job(here.queue_a, here.anna, "elastic", roles=[jobs.RoleOf(replicas=8, min_replicas=4)])
    jobs.allocate(elastic, node)
    quotas.reserve(here.queue_a, here.flavor, CARDS, 8)
    jobs.job(here.queue_b, here.anna, "wide", roles=[jobs.RoleOf(cards=4)])
    Quota.unscoped.filter(node=here.queue_b.node, resource=CARDS).update(borrowing_limit=0)
    wanted = [(here.at(here.a), 4), (here.queue_a.node, 4), (here.at(here.b), 4), (here.queue_b.node, 4)]
    found = quota_preview(
        acting_user=here.anna,
        cell_id=here.cell.pk,
        changes=[NodeAmounts(node, here.cards(cards)) for node, cards in wanted],
        shrink=Shrink.LET_RUN,
    )
    assert [job.name for job in found.scaled_down.jobs] == ["elastic"]
    assert [job.name for job in found.started.jobs] == ["wide"]
    assert not found.reclaimed.jobs


def limit_cards_alone(here: Department) -> None:
    """Give both queues unlimited quota of everything but cards."""
    for queue in (here.queue_a, here.queue_b):
        for resource in (Resource.CPU, Resource.MEMORY, Resource.GPU_CORES, Resource.GPU_MEMORY):
            quotas.quota(queue.node, here.flavor, resource, None)


def running(here: Department, name: str, node: Node, *, priority: int) -> Job:
    """Return a running job of team A that holds four cards."""
    rank = jobs.priority_class(f"p{priority}", priority)
    job = jobs.job(here.queue_a, here.anna, name, roles=[jobs.RoleOf(cards=4)], priority=rank)
    jobs.allocate(job, node)
    entry = LedgerEntry.unscoped.get_or_create(node=here.queue_a.node, flavor=here.flavor, resource=CARDS)[0]
    entry.reserved += 4
    entry.save()
    return job


def test_the_table_shows_own_distributed_and_reserved_quota(here: Department) -> None:
    quotas.reserve(here.queue_a, here.flavor, CARDS, 9)
    quotas.reserve(here.queue_b, here.flavor, CARDS, 1)
    own, a, b = tenant_quota_table(here.anna, here.folder, here.cell)
    (row,) = own.rows
    assert (row.nominal, row.own_nominal, row.distributed, row.reserved) == (22, 10, 12, 10)
    assert (row.borrowed, row.lent) == (0, 0)
    # The folder's own quota is used first, so no team lends.
    assert [(n.name, *amounts(n)) for n in (a, b)] == [("Team A", 8, 1, 0), ("Team B", 4, 0, 0)]


def test_the_table_shows_who_borrows_and_who_lends(here: Department) -> None:
    Quota.unscoped.filter(node=here.node).update(own_nominal=0)
    c = tenancy.workspace("team-c", here.folder)
    queue_c = quotas.queue(here.cell, c, [here.flavor])
    quotas.quota(queue_c.node, here.flavor, CARDS, 4, lending_limit=1)
    quotas.reserve(here.queue_a, here.flavor, CARDS, 11)
    found = tenant_quota_table(here.anna, here.folder, here.cell)
    assert [amounts(node)[1:] for node in found] == [(0, 0), (3, 0), (0, 2), (0, 1)]
    (queue,) = tenant_quota_table(here.anna, c, here.cell)[1:]
    assert amounts(queue) == (4, 0, 1)


def test_a_team_below_what_it_has_borrows_nothing_though_its_queue_does(here: Department) -> None:
    here.set(here.a, 12)
    quotas.reserve(here.queue_a, here.flavor, CARDS, 10)
    own, queue = tenant_quota_table(here.anna, here.a, here.cell)
    assert (amounts(own)[1:], amounts(queue)[1:]) == ((0, 0), (2, 0))


def amounts(node: NodeQuota) -> tuple[int | None, int, int]:
    """Return nominal, borrowed and lent of a node's only row."""
    (row,) = node.rows
    return row.nominal, row.borrowed, row.lent


def test_a_preview_that_takes_too_long_says_so(here: Department, monkeypatch: pytest.MonkeyPatch) -> None:
    running(here, "important", clusters.nodes(here.flavor, 1)[0], priority=5)
    monkeypatch.setattr("scheduling.engine_input.preview_time.PREVIEW_S", -1.0)
    found = quota_preview(
        acting_user=here.anna,
        cell_id=here.cell.pk,
        changes=[NodeAmounts(here.queue_a.node, here.cards(3))],
        shrink=Shrink.DRAIN,
    )
    assert found.timed_out and not found.reclaimed.jobs
    # Results that don't need the engine are complete all the same.
    assert [(over.reserved, over.limit) for over in found.over_quota] == [(4, 3)]
