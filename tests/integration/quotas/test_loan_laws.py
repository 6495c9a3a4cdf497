"""Invariants of loans, on random sequences of lending, distributing, reverting and moving.

When the last loan has ended, every quota is back, whatever happened meanwhile: no loan returned less than was
lent, no folder has more or less than before, and no end of a loan took from a node's own quota. At no moment
does a folder own more than it had and was given from above.
The test computes its own sums. `ALLOTMENT_EXAMPLES=500` tries as many sequences.
"""

from __future__ import annotations

import os
import random
import uuid
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
import time_machine
from django.db import transaction

from foundation.core import clock
from foundation.core.actor import SYSTEM
from foundation.core.errors import AllotmentError
from quotas.models import (
    Override,
    OverrideAmount,
    OverrideState,
    PassedQuota,
    Quota,
    QuotaNode,
    QuotaRevision,
)
from quotas.services.overrides.override import (
    LoanAmount,
    override_create,
    override_end,
    override_move_end,
    overrides_sweep,
)
from quotas.services.queues.queue_delete import queue_delete
from quotas.services.quota import QuotaAmount, quota_set
from quotas.services.quota_revert import quota_revert
from tenants.models import Tenant
from tenants.services.tenant_move import tenant_move
from tests.builders import clusters, quotas, tenancy
from tests.integration.quotas.department import CARDS

pytestmark = pytest.mark.django_db
T0: Final = datetime(2026, 5, 1, 8, tzinfo=UTC)
SEQUENCES: Final = int(os.environ.get("ALLOTMENT_EXAMPLES", "8"))
STEPS: Final = 25
STEP: Final = {
    "lend": 5, "pass": 6, "divide": 3, "end": 1, "revert": 1, "sweep": 2, "move": 1, "create": 1, "delete": 1,
    "move_end": 1, "destroy": 1,
}  # fmt: skip
"""The kinds of steps, with their weights."""
RUNNING: Final = OverrideState.ACTIVE


class Company:
    """Research (10 cards of its own; teams a and b, the folder c with team d) and Products (12; e and f)."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cell = clusters.cell()
        self.flavor = clusters.flavor(clusters.cluster(self.cell))
        self.folders = [tenancy.folder("research"), tenancy.folder("products")]
        below = tenancy.folder("c", self.folders[0])
        for tenant, cards in ((self.folders[0], 10), (self.folders[1], 12), (below, 6)):
            self._keep(quotas.quota_node(self.cell, tenant), cards)
        self.teams: list[Tenant] = []
        for name, parent, cards in (("a", 0, 8), ("b", 0, 4), ("d", 2, 5), ("e", 1, 6), ("f", 1, 2)):
            team = tenancy.workspace(name, [*self.folders, below][parent])
            for queue, share in (("default", cards - 1), ("night", 1)):
                made = quotas.queue(self.cell, team, [self.flavor], name=queue)
                self._keep(made.node, share)
            self.teams.append(team)
        self.tops = [quotas.quota_node(self.cell, folder).pk for folder in self.folders]
        self.floor = self.own()
        self.expected = {top: self.floor[top] for top in self.tops}
        self.done: Counter[str] = Counter()

    def _keep(self, node: QuotaNode, cards: int) -> None:
        quotas.quota(node, self.flavor, CARDS, cards)

    def sums(self, lent: Counter[uuid.UUID]) -> dict[uuid.UUID, int]:
        """Return what each node and all below it keep, with `lent` added to what each node keeps."""
        own = dict(Quota.unscoped.filter(resource=CARDS.value).values_list("node_id", "own_nominal"))
        parents = dict(QuotaNode.unscoped.values_list("pk", "parent_id"))
        found: Counter[uuid.UUID] = Counter()
        for node in parents:
            at: uuid.UUID | None = node
            while at is not None:
                found[at] += own.get(node, 0) + lent[node]
                at = parents[at]
        return {node: found[node] for node in parents}

    def own(self) -> dict[uuid.UUID, int]:
        """Return what each node would have if all loans were returned."""
        lent: Counter[uuid.UUID] = Counter()
        for row in OverrideAmount.unscoped.filter(override__state=RUNNING).select_related("override"):
            lent[row.override.lender_id] += row.amount
            lent[row.override.borrower_id] -= row.amount
        return self.sums(lent)

    def own_without_passed(self) -> dict[uuid.UUID, int]:
        """Return what each node would have if what was passed on had been returned as well."""
        lent: Counter[uuid.UUID] = Counter()
        for row in PassedQuota.unscoped.all():
            lent[row.source_id] += row.amount
            lent[row.target_id] -= row.amount
        passed, none = self.sums(lent), self.sums(Counter())
        return {node: has + passed[node] - none[node] for node, has in self.own().items()}

    def step(self) -> None:
        kind = self.chance.choices(list(STEP), list(STEP.values()))[0] if self.done["lend"] else "lend"
        expected, own = dict(self.expected), self.own()
        try:
            with transaction.atomic():
                getattr(self, f"_{kind}")()
        except AllotmentError:
            self.expected = expected
            assert self.own() == own
            return
        self.done[kind] += 1
        now = self.own()
        assert {top: now[top] for top in self.tops} == self.expected, kind
        if kind in ("lend", "move_end"):
            assert now == own, kind
        if kind not in ("lend", "end", "sweep", "move_end"):
            # An admin may give a node less, and borrowed quota ends with its loan: both lower the floor below
            # which the end of a loan may not bring a node.
            own = self.own_without_passed()
            self.floor = {node: min(self.floor.get(node, has), has, own[node]) for node, has in now.items()}

    def _node(self) -> QuotaNode:
        rows = QuotaNode.unscoped.filter(parent__isnull=False).exclude(queue__closed_at__isnull=False)
        return self.chance.choice(list(rows.select_related("tenant__parent").order_by("pk")))

    def _folder(self) -> QuotaNode:
        rows = QuotaNode.unscoped.filter(children__is_queue=False, parent__isnull=False).distinct()
        return self.chance.choice(list(rows.select_related("tenant__parent").order_by("pk")))

    def _pass(self) -> None:
        """Pass all or a part of what a borrower keeps to a node below it."""
        rows = QuotaNode.unscoped.filter(
            parent__borrowed_in__state=RUNNING, quotas__resource=CARDS.value
        ).exclude(queue__closed_at__isnull=False)
        nodes = list(rows.select_related("tenant__parent", "parent").distinct().order_by("pk"))
        node = self.chance.choice(nodes) if nodes else self._node()
        own = Quota.unscoped.filter(node=node.parent, resource=CARDS.value).first()
        part = self.chance.choice((1, 2, 2)) * (own.own_nominal or 0) // 2 if own else 0
        amount = self.sums(Counter())[node.pk] + part
        quota_set(acting_user=SYSTEM, node=node, amounts=[QuotaAmount(self.flavor, CARDS, amount)])

    def _lend(self) -> None:
        rows = Quota.unscoped.filter(own_nominal__gt=0, resource=CARDS.value).order_by("pk")
        row = self.chance.choice(list(rows))
        lender = QuotaNode.unscoped.select_related("tenant__parent").get(pk=row.node_id)
        own = row.own_nominal or 0
        start = self.chance.choice((None, clock.now() + timedelta(hours=self.chance.randint(1, 4))))
        override_create(
            acting_user=SYSTEM,
            lender=lender,
            borrower=self.chance.choice((self._node(), self._folder())),
            amounts=[LoanAmount(self.flavor, CARDS, self.chance.randint(1, own))],
            starts_at=start,
            ends_at=clock.now() + timedelta(hours=self.chance.randint(5, 30)),
        )

    def _divide(self) -> None:
        node = self._node()
        if node.pk not in self.tops:
            has = self.sums(Counter())[node.pk]
            amount = max(0, has + self.chance.randint(-10, 10))
            quota_set(acting_user=SYSTEM, node=node, amounts=[QuotaAmount(self.flavor, CARDS, amount)])

    def _create(self) -> None:
        """Create quota from nothing, in a folder or below it."""
        node, more = self._node(), self.chance.randint(1, 3)
        amounts = [QuotaAmount(self.flavor, CARDS, self.sums(Counter())[node.pk] + more)]
        quota_set(acting_user=SYSTEM, node=node, amounts=amounts, on_top=True)
        self._expect_at(node.pk, more)

    def _expect_at(self, node: uuid.UUID, more: int) -> None:
        parents = dict(QuotaNode.unscoped.values_list("pk", "parent_id"))
        at: uuid.UUID | None = node
        while at is not None:
            if at in self.expected:
                self.expected[at] += more
            at = parents[at]

    def _end(self) -> None:
        if rows := list(Override.unscoped.order_by("pk")):
            override_end(acting_user=SYSTEM, override=self.chance.choice(rows))

    def _move_end(self) -> None:
        if rows := list(Override.unscoped.order_by("pk")):
            until = clock.now() + timedelta(hours=self.chance.randint(0, 40))
            override_move_end(acting_user=SYSTEM, override=self.chance.choice(rows), ends_at=until)

    def _destroy(self) -> None:
        """Take quota out of the tree, in a folder or below it."""
        node = self._node()
        less = self.chance.randint(0, self.sums(Counter())[node.pk])
        amounts = [QuotaAmount(self.flavor, CARDS, self.sums(Counter())[node.pk] - less)]
        quota_set(acting_user=SYSTEM, node=node, amounts=amounts, on_top=True)
        self._expect_at(node.pk, -less)

    def _revert(self) -> None:
        rows = list(QuotaRevision.unscoped.filter(on_top=False).order_by("pk"))
        if rows:
            quota_revert(acting_user=SYSTEM, revision=self.chance.choice(rows))

    def _sweep(self) -> None:
        overrides_sweep(now=clock.now())

    def _move(self) -> None:
        team = Tenant.unscoped.get(pk=self.chance.choice(self.teams).pk)
        node = quotas.quota_node(self.cell, team).pk
        has = self.sums(Counter())[node]
        self._expect_at(node, -has)
        try:
            tenant_move(acting_user=SYSTEM, tenant=team, parent=self.chance.choice(self.folders))
        finally:
            self._expect_at(node, has)

    def _delete(self) -> None:
        node = self._node()
        if node.is_queue and node.queue.name == "night":
            queue_delete(acting_user=SYSTEM, queue=node.queue)


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_when_the_last_loan_has_ended_everything_is_back(seed: int) -> None:
    with time_machine.travel(T0, tick=False) as traveller:
        company = Company(seed)
        for _ in range(STEPS):
            traveller.shift(timedelta(minutes=company.chance.randint(0, 90)))
            company.step()
        traveller.shift(timedelta(days=30))
        overrides_sweep(now=clock.now())
        overrides_sweep(now=clock.now())

    open_states = (OverrideState.PLANNED, RUNNING)
    assert not Override.unscoped.filter(state__in=open_states).exists()
    assert [loan.returned for loan in Override.unscoped.all() if loan.returned] == []
    assert not PassedQuota.unscoped.exists()
    has = company.sums(Counter())
    assert {top: has[top] for top in company.tops} == company.expected
    assert {node: (has[node], least) for node, least in company.floor.items() if has[node] < least} == {}
