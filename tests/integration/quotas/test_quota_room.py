"""The amounts that tables show as available to nodes, against the quota tree that admits jobs."""

from __future__ import annotations

from uuid import UUID

import pytest

from foundation.core.actor import SYSTEM
from foundation.core.quantities import Resource
from quotas.models import LedgerEntry, Quota, QuotaNode
from quotas.models.quota_key import find_tree_key
from quotas.selectors.limits.pool_limits import pool_limits
from quotas.selectors.limits.tree import load_tree, read_bounds
from quotas.selectors.tables.quota_row import QuotaRow
from quotas.selectors.tables.quota_table import QuotaTable, node_quota
from scheduling.engine.model import Charge
from scheduling.engine.quota.shortage import describe_shortage
from tests.integration.quotas.test_quota_tree import RandomWorld
from tests.unit.scheduling.engine.builders import job, queue, role

pytestmark = pytest.mark.django_db
BOUNDED = {305, 306, 308, 310, 311}
"""In these worlds a workspace borrows less than is stored."""
LENDING = {339, 341}
"""In these worlds a queue lends a part of its nominal, and has some left."""

LENT_BUT_USABLE = {341}
"""In these worlds a queue can use its nominal although a part of it is lent, or less of it than is free."""


def draw_bounds(made: RandomWorld) -> None:
    """Give some limits of borrowing, and leave some queues without a decision."""
    for quota in Quota.unscoped.order_by("pk"):
        quota.borrowing_limit = made.draw.choice([None, 0, made.draw.randint(0, 400)])
        quota.save()
    for node in QuotaNode.unscoped.filter(is_queue=True).order_by("pk"):
        node.limits_decided = made.draw.random() < 0.5
        node.save()


@pytest.mark.parametrize("seed", range(300, 312))
def test_tables_say_what_the_tree_admits(seed: int) -> None:
    made = RandomWorld(seed)
    draw_bounds(made)
    assert (seed in BOUNDED) == bool(read_bounds(list(QuotaNode.unscoped.all())))
    nodes = list(QuotaNode.unscoped.order_by("pk").values_list("pk", flat=True))
    tree = load_tree(made.cell.pk)
    for flavors in (None, [made.flavors[0].pk]):
        wanted = made.draw.sample(nodes, min(3, len(nodes)))
        rows = QuotaTable(made.cell.pk, flavors=flavors).compute_rows(dict.fromkeys(wanted, ""))
        assert any(rows.values())
        for pk, of in rows.items():
            for row in of:
                assert flavors is None or row.flavor.pk in flavors
                key = find_tree_key(row.flavor.pk, row.resource)
                expected = (tree.available(str(pk), key), tree.potential(str(pk), key))
                shown = tuple(None if amount is None else max(0, amount) for amount in expected)
                assert (row.available, row.potential) == shown


def admit_reserved(made: RandomWorld) -> None:
    """Reserve only what the tree admits, queue by queue."""
    drawn = list(LedgerEntry.unscoped.order_by("pk"))
    LedgerEntry.unscoped.update(reserved=0)
    tree = load_tree(made.cell.pk)
    for entry in drawn:
        node, key = str(entry.node_id), find_tree_key(entry.flavor_id, entry.resource)
        most = tree.available(node, key)
        entry.reserved = entry.reserved if most is None else min(entry.reserved, max(0, most))
        tree.add_usage(node, key, entry.reserved)
        entry.save()


@pytest.mark.parametrize("seed", range(330, 342))
def test_nominal_is_what_a_node_reserves_lends_and_leaves_free(seed: int) -> None:
    made = RandomWorld(seed)
    draw_bounds(made)
    if seed % 2:
        admit_reserved(made)
    nodes = dict(QuotaNode.unscoped.values_list("pk", "is_queue"))
    rows = QuotaTable(made.cell.pk).compute_rows(dict.fromkeys(nodes, ""))
    lending = 0
    for pk, row in ((pk, row) for pk, of in rows.items() for row in of):
        if row.nominal is None or row.free is None or row.own_free is None:
            assert (row.nominal, row.free, row.own_free) == (None, None, None)
            continue
        assert row.reserved - row.borrowed + row.lent + row.free == row.nominal
        assert row.available is None or row.own_free + (row.borrowable or 0) == row.available
        if nodes[pk] and seed % 2:
            # A queue can reserve all that is free; others don't reserve more than all have together.
            assert row.own_free >= row.free
            lending += row.lent > 0 and row.free > 0
    assert bool(lending) == (seed in LENDING)


@pytest.mark.parametrize("seed", range(330, 342))
def test_reserving_the_nominal_part_of_what_is_available_borrows_nothing(seed: int) -> None:
    made = RandomWorld(seed)
    draw_bounds(made)
    if seed % 2:
        admit_reserved(made)
    queues = dict.fromkeys(QuotaNode.unscoped.filter(is_queue=True).values_list("pk", flat=True), "")

    def find_row(node: UUID, key: tuple[UUID, Resource]) -> QuotaRow:
        rows = QuotaTable(made.cell.pk).compute_rows({node: ""})[node]
        return next(row for row in rows if (row.flavor.pk, row.resource) == key)

    rows, differs = QuotaTable(made.cell.pk).compute_rows(queues), 0
    for pk, row in ((pk, row) for pk, of in rows.items() for row in of[:2]):
        if not row.available or row.own_free is None:
            continue
        key = row.flavor.pk, row.resource
        entry, _made = LedgerEntry.unscoped.get_or_create(node_id=pk, flavor_id=key[0], resource=key[1])
        for more in {row.own_free, row.available}:
            LedgerEntry.unscoped.filter(pk=entry.pk).update(reserved=row.reserved + more)
            assert find_row(pk, key).borrowed == row.borrowed + more - row.own_free
        LedgerEntry.unscoped.filter(pk=entry.pk).update(reserved=row.reserved)
        stated = describe_shortage(
            queue("q"),
            job("j", "q", role(1, 1)),
            Charge("pool", key[1].value, row.available + 1),
            used=row.reserved,
            counted=row.reserved,
            nominal=row.nominal,
            available=row.available,
            limit=row.potential,
        )
        assert (stated.numbers["own_free"], stated.numbers["borrowable"]) == (row.own_free, row.borrowable)
        differs += row.own_free != row.free
    assert bool(differs) == (seed in LENT_BUT_USABLE), seed


@pytest.mark.parametrize("seed", range(320, 326))
def test_forms_say_what_tables_say(seed: int) -> None:
    made = RandomWorld(seed)
    draw_bounds(made)
    nodes = QuotaNode.unscoped.select_related("tenant__parent", "queue").order_by("pk")
    for node in made.draw.sample(list(nodes), 3):
        shown = node_quota(SYSTEM, node)
        for flavor in made.flavors:
            form = pool_limits(SYSTEM, node, flavor)
            rows = {row.resource: row for row in shown.rows if row.flavor.pk == flavor.pk}
            assert (form.name, form.queue) == (shown.name, shown.queue)
            assert rows
            for resource, limits in form.limits.items():
                row = rows.get(resource) or QuotaRow(queue="", flavor=flavor, resource=resource)
                expected = (row.nominal, row.borrowing_limit, row.lending_limit)
                assert (limits.nominal, limits.borrowing_limit, limits.lending_limit) == expected
