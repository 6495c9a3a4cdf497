"""Numbers of quota pages and endpoints: totals, pending GPUs by pool, warnings, the effect of a change."""

from __future__ import annotations

import random
import uuid
from typing import Any

import pytest

from clusters.models import GpuMode
from foundation.core.quantities import Resource
from quotas.models import Quota, QuotaNode
from quotas.selectors.tables.quota import sum_workspace_quota, workspace_quota
from quotas.selectors.tables.quota_table import node_quota
from quotas.services.quota import NodeAmounts, QuotaAmount, quota_set
from quotas.services.quota_files.pool_form import amounts_of_gpus
from quotas.services.quota_preview import QuotaPreview, quota_preview
from quotas.services.quota_warnings import MORE_THAN_EXISTS, NO_JOB_STARTS
from scheduling import snapshots
from scheduling.models import GpuRequestMode
from scheduling.services import quota_effect
from tenants.models import User
from tests.builders import clusters, jobs, quotas, tenancy
from tests.builders.world import World, world
from tests.integration.quotas.department import CARDS, Department

pytestmark = pytest.mark.django_db
CORES, CPU, RAM = Resource.GPU_CORES, Resource.CPU, Resource.MEMORY


def test_nominal_and_use_of_a_workspace_include_its_queues() -> None:
    here = Department()
    Quota.unscoped.create(node=here.node_a, flavor=here.flavor, resource=CARDS, own_nominal=3)
    # A queue that lends nothing keeps its use to itself in the tree.
    Quota.unscoped.filter(node=here.queue_a.node).update(lending_limit=0)
    quotas.reserve(here.queue_a, here.flavor, CARDS, 7)

    rows = {row.queue: row for row in workspace_quota(here.adam, here.a)}

    assert (rows[""].nominal, rows[""].reserved, rows[""].borrowed) == (11, 7, 0)
    assert (rows["default"].nominal, rows["default"].reserved) == (8, 7)
    assert sum_workspace_quota(here.a, CARDS) == (11, 7)


@pytest.mark.parametrize("seed", range(20))
def test_totals_of_random_trees_equal_sums_by_hand(seed: int) -> None:
    """The oracle walks from each queue to the root; it shares no code with the selector."""
    draw = random.Random(seed)
    cell = clusters.cell()
    flavor = clusters.flavor(clusters.cluster(cell))
    folder = tenancy.folder("folder")
    nominal: dict[uuid.UUID, int | None] = {}
    used: dict[uuid.UUID, int] = {}
    teams = [tenancy.workspace(f"team-{n}", folder) for n in range(2)]
    for team in teams:
        queues = [quotas.queue(cell, team, [flavor], name=f"q{n}") for n in range(draw.randint(1, 3))]
        for node in [quotas.quota_node(cell, team), *(queue.node for queue in queues)]:
            nominal[node.pk] = draw.choice([None, 0, draw.randint(1, 9), draw.randint(1, 9)])
            lending = draw.choice([None, 0, draw.randint(0, 9)])
            quotas.quota(node, flavor, CARDS, nominal[node.pk], lending_limit=lending)
        for queue in queues:
            used[queue.node_id] = draw.randint(0, 9)
            quotas.reserve(queue, flavor, CARDS, used[queue.node_id])
    admin = tenancy.platform_admin()
    for team in teams:
        mine = [node.pk for node in QuotaNode.unscoped.filter(tenant=team)]
        amounts = [nominal[pk] for pk in mine]
        total = None if None in amounts else sum(amount or 0 for amount in amounts)
        row = next((row for row in workspace_quota(admin, team) if not row.queue), None)
        # A row that is all zero is left out.
        found = (0, 0) if row is None else (row.nominal, row.reserved)
        assert found == (total, sum(used.get(pk, 0) for pk in mine))
        assert sum_workspace_quota(team, CARDS) == found


def test_pending_gpus_count_only_in_the_pools_where_a_job_may_run() -> None:
    there = world()
    cluster = there.cluster
    l40s = clusters.flavor(cluster, "l40s", card_model="L40S", card_memory_mib=46_068)
    parts = clusters.flavor(cluster, "parts", card_model="A10", card_memory_mib=24_576, mode=GpuMode.SLICE)
    queue = quotas.queue(there.cell, there.workspace, [there.flavor, l40s, parts], name="wide", cards=8)
    slice_of = jobs.RoleOf(cards=1, mode=GpuRequestMode.SLICE, cores=30, gpu_memory=1024)
    jobs.job(queue, there.editor, roles=[jobs.RoleOf(cards=3, models=("L40S",))])
    jobs.job(queue, there.editor, roles=[jobs.RoleOf(cards=4)])
    jobs.job(queue, there.editor, roles=[slice_of])

    found = node_quota(there.platform_admin, queue.node)

    assert (found.pending_jobs, found.pending_cards) == (3, 8)
    assert dict(found.pending_flavors) == {there.flavor.pk: 4, l40s.pk: 7, parts.pk: 5}
    # CPU and memory are those of the same jobs, and of one without GPUs in every pool.
    jobs.job(queue, there.editor, roles=[jobs.RoleOf(cards=0, replicas=3, cpu=500, memory=100)])
    found = node_quota(there.platform_admin, queue.node)
    assert dict(found.pending_flavors) == {there.flavor.pk: 4, l40s.pk: 7, parts.pk: 5}
    for flavor, count in ((there.flavor, 1), (l40s, 2), (parts, 2)):
        assert found.pending_amounts[flavor.pk, Resource.CPU] == 1_000 * count + 1_500
        assert found.pending_amounts[flavor.pk, Resource.MEMORY] == 1_024 * count + 300


class Growing:
    """A new team below a root whose CPU and memory are finite, in a pool of two nodes with eight GPUs."""

    def __init__(self) -> None:
        self.there: World = world()
        self.flavor = self.there.flavor
        self.root = quotas.quota_node(self.there.cell, tenancy.root())
        self.team = tenancy.workspace("new")
        self.queue = quotas.queue(self.there.cell, self.team, [self.flavor])
        self.node = quotas.quota_node(self.there.cell, self.team)
        self.admin: User = self.there.platform_admin

    def preview(self, *amounts: QuotaAmount, node: QuotaNode | None = None, **how: Any) -> QuotaPreview:
        changes = [NodeAmounts(node or self.node, list(amounts))]
        return quota_preview(acting_user=self.admin, cell_id=self.there.cell.pk, changes=changes, **how)


def test_gpus_without_cpu_and_memory_are_warned_about_with_what_is_missing() -> None:
    here = Growing()
    Quota.unscoped.filter(node=here.root, resource__in=(CPU, RAM)).update(own_nominal=0)
    Quota.unscoped.filter(node__tenant=here.there.workspace, resource__in=(CPU, RAM)).update(lending_limit=0)
    Quota.unscoped.filter(node__tenant=here.there.other_workspace, resource__in=(CPU, RAM)).update(
        lending_limit=0
    )
    gpus = [
        amount for amount in amounts_of_gpus(here.node, here.flavor, 2) if amount.resource not in (CPU, RAM)
    ]

    found = here.preview(*gpus, on_top=True)

    assert [(w.code, w.node_id, list(w.resources)) for w in found.warnings] == [
        (NO_JOB_STARTS, here.node.pk, [CPU, RAM])
    ]
    assert "CPU, memory" in found.warnings[0].message


def test_a_queue_that_may_not_borrow_what_its_workspace_has_is_named() -> None:
    here = Growing()
    quota_set(
        acting_user=here.admin,
        node=here.node,
        amounts=amounts_of_gpus(here.node, here.flavor, 2),
        on_top=True,
    )
    for resource in (CPU, RAM):
        quotas.quota(here.queue.node, here.flavor, resource, 0, borrowing_limit=0)

    found = here.preview(QuotaAmount(here.flavor, CARDS, 3), on_top=True)

    assert [(w.node_id, list(w.resources)) for w in found.warnings] == [(here.queue.node_id, [CPU, RAM])]


def test_a_folder_whose_queues_have_unlimited_cpu_is_not_warned_about() -> None:
    """The root keeps no CPU and memory for itself; what its queues have without limit is enough."""
    here = Growing()
    Quota.unscoped.filter(node=here.root, resource__in=(CPU, RAM)).update(own_nominal=0)
    quotas.gpu_quota(here.queue.node, here.flavor, 2)
    Quota.unscoped.filter(node__is_queue=True, resource__in=(CPU, RAM)).update(own_nominal=None)
    cards = QuotaAmount(here.flavor, Resource.GPU_CARDS, 40)

    assert here.preview(cards, node=here.root, on_top=True).warnings == []

    Quota.unscoped.filter(node=here.queue.node, resource=CPU).update(own_nominal=0, borrowing_limit=0)
    found = here.preview(cards, node=here.root, on_top=True)
    assert [(w.node_id, list(w.resources)) for w in found.warnings] == [(here.queue.node_id, [CPU])]


def test_what_whole_gpus_come_to_lets_a_job_start_and_warns_of_nothing() -> None:
    here = Growing()
    amounts = amounts_of_gpus(here.node, here.flavor, 2)
    node = here.there.nodes[0]
    named = {amount.resource: amount.nominal for amount in amounts}
    assert named[CPU] == 2 * node.cpu_millicores // 8
    assert named[RAM] == 2 * node.memory_mib // 8
    assert here.preview(*amounts, on_top=True).warnings == []


def test_whole_gpus_below_an_unlimited_root_leave_cpu_and_memory_unlimited() -> None:
    here = Growing()
    Quota.unscoped.filter(node=here.root, resource__in=(CPU, RAM)).update(own_nominal=None)
    named = {amount.resource: amount.nominal for amount in amounts_of_gpus(here.node, here.flavor, 2)}
    assert (named[CPU], named[RAM], named[CORES]) == (None, None, 200)


def test_more_quota_than_gpus_is_warned_about() -> None:
    here = Growing()
    found = here.preview(QuotaAmount(here.flavor, CORES, 3200), node=here.root, on_top=True)
    assert [w.code for w in found.warnings] == [MORE_THAN_EXISTS]
    assert "32 GPUs of a100; the pool has 16" in found.warnings[0].message
    lowered = here.preview(QuotaAmount(here.flavor, CORES, 1600), node=here.root, on_top=True)
    assert lowered.warnings == []


def test_a_parent_that_is_unlimited_by_a_child_divides() -> None:
    """A tree that only ever got GPUs, and one unlimited workspace, can be given CPU one by one."""
    here = Growing()
    Quota.unscoped.filter(resource=CPU).delete()
    quotas.quota(here.there.queue.node, here.flavor, CPU, None)

    quota_set(acting_user=here.admin, node=here.node, amounts=[QuotaAmount(here.flavor, CPU, 8000)])
    quota_set(acting_user=here.admin, node=here.queue.node, amounts=[QuotaAmount(here.flavor, CPU, 8000)])

    rows = {row.queue: row for row in workspace_quota(here.admin, here.team) if row.resource is CPU}
    assert rows["default"].nominal == rows[""].nominal == 8000


def test_what_happens_while_the_effect_is_computed_is_no_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    there = world()
    reads: list[Any] = []

    def read(cell_id: uuid.UUID) -> Any:
        """A job arrives after each reading."""
        found = snapshots.read_cell(cell_id)
        reads.append(jobs.job(there.queue, there.editor))
        return found

    monkeypatch.setattr(quota_effect, "read_cell", read)
    limits = QuotaAmount(there.flavor, CARDS, 8, borrowing_limit=5)
    found = quota_preview(
        acting_user=there.platform_admin,
        cell_id=there.cell.pk,
        changes=[NodeAmounts(there.other_queue.node, [limits])],
    )
    assert len(reads) == 1
    assert [found.started.jobs, found.reclaimed.jobs, found.spared.jobs, found.delayed.jobs] == [
        [],
        [],
        [],
        [],
    ]


def test_jobs_that_wait_longer_and_jobs_that_are_spared_are_named() -> None:
    there = world()
    jobs.job(there.queue, there.editor, "large", roles=[jobs.RoleOf(cards=8)])
    Quota.unscoped.filter(node=there.queue.node, resource=CARDS).update(borrowing_limit=0)
    found = quota_preview(
        acting_user=there.platform_admin,
        cell_id=there.cell.pk,
        changes=[NodeAmounts(there.queue.node, [QuotaAmount(there.flavor, CARDS, 7)])],
    )
    assert [job.name for job in found.delayed.jobs] == ["large"]
    assert not found.started.jobs
