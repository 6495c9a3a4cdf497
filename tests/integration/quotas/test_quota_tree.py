"""The rows of the quota tree: their amounts in random worlds, what a viewer sees, and their cost."""

from __future__ import annotations

import random
import re
import uuid
from collections.abc import Iterable
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.models import Flavor
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import Invalid, NotFound
from foundation.core.quantities import Resource
from quotas.files import FileFormat
from quotas.models import LedgerEntry, Quota, QuotaNode, QuotaRevision
from quotas.selectors.tables.quota_table import QuotaTable
from quotas.selectors.tables.quota_tree import (
    CHILDREN_MAX,
    ROWS_FIRST,
    MoreRows,
    QuotaTreeRow,
    QuotaTreeView,
    TreeRows,
    tree_flavors,
)
from quotas.services.quota_files.quota_file import QuotaFile, quota_file_apply, quota_file_export
from tenants.models import Role, Tenant, TenantKind
from tests.builders import clusters, quotas, tenancy

pytestmark = pytest.mark.django_db
CORES, CPU, MEMORY = Resource.GPU_CORES, Resource.CPU, Resource.MEMORY
ALL = (CORES, CPU, MEMORY)


class RandomWorld:
    """A tree of folders, workspaces and queues with random quotas and reservations in two pools."""

    def __init__(self, seed: int) -> None:
        draw = self.draw = random.Random(seed)
        self.cell = clusters.cell()
        cluster = clusters.cluster(self.cell)
        self.flavors = [clusters.flavor(cluster, name) for name in ("pool-a", "pool-b")]
        folders = [tenancy.root()]
        for number in range(draw.randint(1, 4)):
            folders.append(tenancy.folder(f"folder-{number}", draw.choice(folders)))
        self.workspaces = [
            tenancy.workspace(f"team-{number}", draw.choice(folders)) for number in range(draw.randint(2, 6))
        ]
        for workspace in self.workspaces:
            for number in range(draw.randint(0, 2)):
                self._reserve(quotas.queue(self.cell, workspace, self.flavors, name=f"q{number}").node)
        for tenant in folders:
            quotas.quota_node(self.cell, tenant)
        for node in QuotaNode.unscoped.all():
            self._limit(node)

    def _limit(self, node: QuotaNode) -> None:
        for flavor in self.flavors:
            for resource in ALL:
                if self.draw.random() < 0.7:
                    amount = self.draw.choice([None, 0, *(self.draw.randint(1, 900) for _ in range(6))])
                    lending = self.draw.choice([None, None, 0, self.draw.randint(0, 300)])
                    quotas.quota(node, flavor, resource, amount, lending_limit=lending)

    def _reserve(self, node: QuotaNode) -> None:
        for flavor in self.flavors:
            for resource in ALL:
                if self.draw.random() < 0.8:
                    LedgerEntry.unscoped.create(
                        node=node, flavor=flavor, resource=resource, reserved=self.draw.randint(0, 1200)
                    )


class Oracle:
    """Computes amounts of nodes from the stored rows, by walking down from the node each time."""

    def __init__(self, flavor: Flavor, resource: Resource) -> None:
        rows = Quota.unscoped.filter(flavor=flavor, resource=resource)
        self.own = {row.node_id: row.own_nominal for row in rows}
        self.lending = {row.node_id: row.lending_limit for row in rows}
        ledger = LedgerEntry.unscoped.filter(flavor=flavor, resource=resource)
        self.entries = {entry.node_id: entry.reserved for entry in ledger}

    def children(self, node: uuid.UUID) -> list[uuid.UUID]:
        return list(QuotaNode.unscoped.filter(parent=node).values_list("pk", flat=True))

    def nominal(self, node: uuid.UUID) -> int | None:
        parts = [self.own.get(node, 0), *(self.nominal(child) for child in self.children(node))]
        return None if None in parts else sum(part or 0 for part in parts)

    def distributed(self, node: uuid.UUID) -> int | None:
        parts = [self.nominal(child) for child in self.children(node)]
        return None if None in parts else sum(part or 0 for part in parts)

    def reserved(self, node: uuid.UUID) -> int:
        return self.entries.get(node, 0) + sum(self.reserved(child) for child in self.children(node))

    def lacking(self, node: uuid.UUID) -> int | None:
        """Return what a node reserves above its own quota and what its children lend it, negative if less;
        None where the quota is unlimited.
        """
        own = self.own.get(node, 0)
        if own is None:
            return None
        found = self.entries.get(node, 0) - own
        for child in self.children(node):
            lack, lending = self.lacking(child), self.lending.get(child)
            if lack is not None:
                found += lack if lending is None else max(lack, -lending)
        return found

    def borrowed(self, node: uuid.UUID) -> int:
        return max(0, self.lacking(node) or 0)

    def spare(self, node: uuid.UUID) -> int:
        lack, lending = self.lacking(node) or 0, self.lending.get(node)
        return max(0, -lack if lending is None else min(-lack, lending))


def read_all(viewer: Actor, flavor: Flavor) -> dict[uuid.UUID, QuotaTreeRow]:
    """Return every row that a viewer can reach by opening one node after the other."""
    view = QuotaTreeView(viewer, flavor, ALL)
    found: dict[uuid.UUID, QuotaTreeRow] = {}
    ask: list[tuple[uuid.UUID, int]] = []

    def take(rows: TreeRows) -> None:
        for row in rows:
            if isinstance(row, MoreRows):
                ask.append((row.node_id, row.offset))
                continue
            assert row.node_id not in found
            found[row.node_id] = row
            if row.children and not row.is_open:
                ask.append((row.node_id, 0))

    take(view.read_first())
    while ask:
        take(view.read_children(*ask.pop()))
    return found


@pytest.mark.parametrize("seed", range(25))
def test_amounts_of_random_trees_equal_those_walked_by_hand(seed: int) -> None:
    made = RandomWorld(seed)
    for flavor in made.flavors:
        rows = read_all(tenancy.platform_admin(f"boss-{flavor.name}"), flavor)
        assert set(rows) == set(QuotaNode.unscoped.values_list("pk", flat=True))
        for resource in ALL:
            oracle = Oracle(flavor, resource)
            for pk, row in rows.items():
                found = row.amounts[resource]
                nominal, reserved = oracle.nominal(pk), oracle.reserved(pk)
                assert (found.nominal, found.reserved) == (nominal, reserved)
                assert found.own_nominal == oracle.own.get(pk, 0)
                assert found.distributed == oracle.distributed(pk)
                assert found.borrowed == oracle.borrowed(pk)
                assert 0 <= found.lent <= oracle.spare(pk)
                own = reserved - found.borrowed
                assert found.free == (None if nominal is None else nominal - own - found.lent)
                children = [rows[child].amounts[resource] for child in oracle.children(pk)]
                if children and found.own_nominal is not None:
                    # Own quota serves borrowers first, then what the children lend.
                    asked = sum(child.borrowed for child in children) - found.borrowed + found.lent
                    left = sum(oracle.spare(child) for child in oracle.children(pk))
                    lent = sum(child.lent for child in children)
                    assert lent == min(left, max(0, asked - found.own_nominal))


@pytest.mark.parametrize("seed", range(100, 110))
def test_the_tree_and_the_quota_endpoint_report_the_same(seed: int) -> None:
    made = RandomWorld(seed)
    table = QuotaTable(made.cell.pk)
    wanted = table.compute_rows(dict.fromkeys(table.nodes, ""))
    admin = tenancy.platform_admin()
    for flavor in made.flavors:
        for pk, row in read_all(admin, flavor).items():
            for one in wanted[pk]:
                if one.flavor.pk != flavor.pk:
                    continue
                found = row.amounts[one.resource]
                assert (found.nominal, found.own_nominal, found.distributed, found.reserved) == (
                    *(one.nominal, one.own_nominal, one.distributed, one.reserved),
                )
                assert (found.borrowed, found.lent) == (one.borrowed, one.lent)


@pytest.mark.parametrize("seed", range(200, 206))
def test_each_viewer_sees_and_edits_what_their_roles_say(seed: int) -> None:
    made = RandomWorld(seed)
    flavor = made.flavors[0]
    people = [(tenancy.platform_admin(), None, True)]
    for tenant in Tenant.unscoped.all():
        for role in (Role.VIEWER, Role.EDITOR, Role.ADMIN):
            name = f"{role.value}-{tenant.slug}"
            people.append((tenancy.user(name, tenant, role), tenant, role is Role.ADMIN))
    for person, tenant, divides in people:
        rows = read_all(person, flavor)
        nodes = QuotaNode.unscoped.select_related("tenant__parent")
        path = tenant.path if tenant else "/"
        assert set(rows) == {node.pk for node in nodes if node.tenant.path.startswith(path)}
        for node in nodes:
            if node.pk not in rows:
                continue
            # The workspace decides for a queue; above the tenant otherwise.
            decider = node.tenant if node.is_queue else node.tenant.parent
            above = decider.path.startswith(path) if decider else tenant is None
            assert rows[node.pk].may_edit == (divides and above)


def test_nothing_out_of_sight_is_found_or_opened() -> None:
    made = RandomWorld(7)
    one, other = made.workspaces[:2]
    seer = tenancy.user("ada", one, Role.ADMIN)
    view = QuotaTreeView(seer, made.flavors[0], ALL)
    rows, left_out = view.search_nodes("team")
    assert not left_out
    assert {row.tenant for row in rows if isinstance(row, QuotaTreeRow)} == {one.name}
    with pytest.raises(NotFound):
        view.read_children(quotas.quota_node(made.cell, other).pk)
    assert tree_flavors(tenancy.user("nobody")) == []


def test_a_deleted_queue_counts_and_is_not_shown() -> None:
    cell = clusters.cell()
    flavor = clusters.flavor(clusters.cluster(cell))
    workspace = tenancy.workspace()
    queue = quotas.queue(cell, workspace, [flavor], cards=4)
    quotas.reserve(queue, flavor, CORES, 300)
    queue.closed_at = clock.now()
    queue.save()
    rows = read_all(tenancy.platform_admin(), flavor)
    row = rows[quotas.quota_node(cell, workspace).pk]
    assert queue.node_id not in rows
    assert (row.children, row.amounts[CORES].reserved) == (0, 300)


Limits = dict[tuple[uuid.UUID, uuid.UUID, str], tuple[int | None, int | None, int | None]]


def read_limits() -> Limits:
    """Return all limits with an effect, each nominal including the children's: the contents of files.

    A node that is unlimited because a child is may be unlimited itself after an import.
    """
    rows = {(row.node_id, row.flavor_id, row.resource): row for row in Quota.unscoped.all()}
    found: Limits = {}
    for flavor in Flavor.unscoped.all():
        for resource in ALL:
            oracle = Oracle(flavor, resource)
            for pk in QuotaNode.unscoped.values_list("pk", flat=True):
                row = rows.get((pk, flavor.pk, resource.value))
                limits = (row.borrowing_limit, row.lending_limit) if row else (None, None)
                found[pk, flavor.pk, resource.value] = (oracle.nominal(pk), *limits)
    return {key: limits for key, limits in found.items() if limits != (0, None, None)}


def spoil(text: str, kind: FileFormat) -> str:
    """Return the same file with the amount of its last line made unreadable."""
    if kind is FileFormat.CSV:
        head, _line, last = text.rstrip("\n").rpartition("\n")
        cells = last.split(",")
        return "\n".join([head, ",".join([*cells[:5], "lots", *cells[6:]])])
    head, _word, tail = text.rpartition("nominal: ")
    return f"{head}nominal: lots{tail[tail.index(',') if ',' in tail else tail.index('}') :]}"


@pytest.mark.parametrize("kind", list(FileFormat))
@pytest.mark.parametrize("seed", range(600, 608))
def test_a_tree_is_the_same_after_export_and_import(seed: int, kind: FileFormat) -> None:
    RandomWorld(seed)
    admin = tenancy.platform_admin()
    LedgerEntry.unscoped.all().delete()
    before = read_limits()
    text = quota_file_export(viewer=admin, kind=kind)
    name = f"quotas.{kind.value}"
    with pytest.raises(Invalid) as refused:
        quota_file_apply(acting_user=admin, file=QuotaFile(spoil(text, kind), kind, name))
    assert re.match(rf"{name}:[0-9]+ nominal", refused.value.errors[0].field)
    assert (read_limits(), QuotaRevision.unscoped.count()) == (before, 0)

    Quota.unscoped.all().delete()
    quota_file_apply(acting_user=admin, file=QuotaFile(text, kind, name), on_top=True)
    assert read_limits() == before


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_a_spreadsheet_of_another_language_is_read(delimiter: str) -> None:
    RandomWorld(611)
    admin = tenancy.platform_admin()
    LedgerEntry.unscoped.all().delete()
    before = read_limits()
    text = quota_file_export(viewer=admin, kind=FileFormat.CSV)
    text = "\ufeff" + text.replace(",", delimiter).replace("\n", "\r\n")
    Quota.unscoped.all().delete()
    quota_file_apply(acting_user=admin, file=QuotaFile(text, FileFormat.CSV, "quotas.csv"), on_top=True)
    assert read_limits() == before


class LargeCell:
    """Many workspaces with a queue each, written in bulk."""

    def __init__(self, folders: int, teams: int) -> None:
        self.name = f"large-{folders}"
        self.cell = clusters.cell(self.name)
        cluster = clusters.cluster(self.cell, self.name)
        self.flavors = [clusters.flavor(cluster, f"pool-{number}") for number in range(2)]
        root = quotas.quota_node(self.cell, tenancy.root())
        above = self._below(tenancy.root(), root, folders, f"{self.name}-folder", TenantKind.FOLDER)
        leaves: list[QuotaNode] = []
        for index, (tenant, node) in enumerate(above):
            teams_of = self._below(tenant, node, teams, f"{self.name}-team-{index}", TenantKind.WORKSPACE)
            leaves += [
                QuotaNode(cell=self.cell, tenant=team, parent=parent, is_queue=True)
                for team, parent in teams_of
            ]
        QuotaNode.unscoped.bulk_create(leaves)
        Quota.unscoped.bulk_create(self._each(Quota, leaves, own_nominal=8, borrowing_limit=8))
        LedgerEntry.unscoped.bulk_create(self._each(LedgerEntry, leaves, reserved=9))

    def _below(
        self, tenant: Tenant, node: QuotaNode, count: int, prefix: str, kind: TenantKind
    ) -> list[tuple[Tenant, QuotaNode]]:
        tenants = [
            Tenant(slug=f"{prefix}-{n}", name=f"{prefix} {n}", kind=kind, parent=tenant) for n in range(count)
        ]
        for one in tenants:
            one.path = f"{tenant.path}{one.pk}/"
        Tenant.unscoped.bulk_create(tenants)
        nodes = [QuotaNode(cell=self.cell, tenant=one, parent=node) for one in tenants]
        QuotaNode.unscoped.bulk_create(nodes)
        return list(zip(tenants, nodes, strict=True))

    def _each(self, model: type[Any], leaves: Iterable[QuotaNode], **values: int) -> list[Any]:
        return [
            model(node=leaf, flavor=flavor, resource=resource.value, **values)
            for leaf in leaves
            for flavor in self.flavors
            for resource in Resource
        ]


def test_a_thousand_tenants_take_as_many_statements_as_ten() -> None:
    admin = tenancy.platform_admin()
    counts = []
    for folders, teams in ((2, 4), (20, 50)):
        made = LargeCell(folders, teams)
        with CaptureQueriesContext(connection) as asked:
            rows = QuotaTreeView(admin, made.flavors[0], ALL).read_first()
        counts.append(len(asked))
    assert counts[0] == counts[1] <= 12
    # The folders are shown, and as many of their workspaces as a page holds.
    assert 20 <= len(rows) <= ROWS_FIRST + CHILDREN_MAX
