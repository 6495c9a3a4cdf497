"""No sequence of requests from inside a folder gives it more than was decided above it.

Random requests over the API by the admins and editors below a folder; the test computes its own sums: what
the queues below it could hold at most if no other queue held anything, and its own quota when all loans have
been returned. `ALLOTMENT_EXAMPLES=200` tries as many sequences.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import pytest
import time_machine
from rest_framework.test import APIClient

from foundation.core import clock
from foundation.core.actor import SYSTEM
from foundation.core.quantities import Resource
from quotas.models import (
    Override,
    OverrideAmount,
    Queue,
    Quota,
    QuotaNode,
    QuotaRequest,
    QuotaRevision,
)
from quotas.selectors.limits.tree import load_tree
from quotas.services.overrides.override import LoanAmount, override_create, overrides_sweep
from tenants.models import Role, Tenant
from tests.api.conftest import As
from tests.builders import clusters, quotas, tenancy

API: Final = "/api/v1"
CARDS: Final = Resource.GPU_CARDS
SEQUENCES: Final = int(os.environ.get("ALLOTMENT_EXAMPLES", "2"))
STEPS: Final = 40
ANY: Final = {"HTTP_IF_MATCH": "*"}
PEOPLE: Final = {
    "team-a": ("adam", "ed"),
    "research": ("fay", "adam", "ed", "bea"),
}
"""The attackers of each domain, whose quota must not grow."""


class Attack:
    """Research (keeps 6, may borrow 4) with Team A (8, its queue may borrow 2) and Team B (4), and Products
    (20), which lends 5 to Research."""

    def __init__(self, seed: int, domain: str, as_user: As) -> None:
        self.chance = random.Random(f"{seed} {domain}")
        self.cell = clusters.cell()
        cluster = clusters.cluster(self.cell)
        self.flavors = [clusters.flavor(cluster, name) for name in ("a100", "h100")]
        self.research, self.products = tenancy.folder("research"), tenancy.folder("products")
        self.teams = [tenancy.workspace(name, self.research) for name in ("team-a", "team-b")]
        other = tenancy.workspace("team-p", self.products)
        for flavor in self.flavors:
            quotas.quota(self._node(self.research), flavor, CARDS, 6, borrowing_limit=4)
            for team, cards, limit in ((self.teams[0], 8, 2), (self.teams[1], 4, 3), (other, 20, None)):
                queue = Queue.unscoped.filter(workspace=team).first() or quotas.queue(
                    self.cell, team, self.flavors
                )
                quotas.quota(queue.node, flavor, CARDS, cards, borrowing_limit=limit)
        override_create(
            acting_user=SYSTEM,
            lender=QuotaNode.unscoped.get(tenant=other, is_queue=True),
            borrower=self._node(self.research),
            amounts=[LoanAmount(self.flavors[0], CARDS, 5)],
            starts_at=None,
            ends_at=clock.now() + timedelta(hours=20),
        )
        roles = {
            "fay": (self.research, Role.ADMIN), "adam": (self.teams[0], Role.ADMIN),
            "ed": (self.teams[0], Role.EDITOR), "bea": (self.teams[1], Role.ADMIN),
        }  # fmt: skip
        users = {name: tenancy.user(name, *role) for name, role in roles.items()}
        self.clients = {name: as_user(user) for name, user in users.items()}
        self.people = PEOPLE[domain]
        self.domain = self._node(Tenant.unscoped.get(slug=domain))
        # The limits of a team's queues are decided above it; of a folder only its own limit is.
        self.most = self.reach() if self.domain.tenant in self.teams else self._potential()
        self.others = self.own(self._node(self.products))
        self.has = self.own(self.domain)
        self.answers: Counter[tuple[str, int]] = Counter()

    def _node(self, tenant: Tenant) -> QuotaNode:
        return quotas.quota_node(self.cell, tenant)

    # The test's own sums

    def _below(self, node: QuotaNode) -> set[Any]:
        parents = dict(QuotaNode.unscoped.values_list("pk", "parent_id"))
        found = {node.pk}
        while more := {pk for pk, above in parents.items() if above in found} - found:
            found |= more
        return found

    def own(self, node: QuotaNode) -> list[int]:
        """Return what a node and all below it would have with all loans returned, by flavor."""
        below, found = self._below(node), []
        for flavor in self.flavors:
            rows = Quota.unscoped.filter(flavor=flavor, resource=CARDS.value, node__in=below)
            has = sum(row.own_nominal or 0 for row in rows)
            lent = OverrideAmount.unscoped.filter(flavor=flavor, override__state="active")
            for row in lent.select_related("override"):
                has += row.amount * (row.override.lender_id in below)
                has -= row.amount * (row.override.borrower_id in below)
            found.append(has)
        return found

    def reach(self) -> list[int]:
        """Return the most that the domain's queues hold together while no other queue holds anything."""
        below, found = self._below(self.domain), []
        for flavor in self.flavors:
            tree, held = load_tree(self.cell.pk), 0
            key = (str(flavor.pk), CARDS.value)
            open_ones = Queue.unscoped.filter(node__in=below, closed_at=None, flavors=flavor)
            for queue in open_ones.order_by("pk"):
                more = tree.available(str(queue.node_id), key)
                assert more is not None
                if more > 0:
                    tree.add_usage(str(queue.node_id), key, more)
                    held += more
            found.append(held)
        return found

    def _potential(self) -> list[int]:
        tree = load_tree(self.cell.pk)
        keys = [(str(flavor.pk), CARDS.value) for flavor in self.flavors]
        return [tree.potential(str(self.domain.pk), key) or 0 for key in keys]

    # The requests

    def step(self) -> bool:
        """Send one request; returns whether it may have changed something."""
        kinds: Iterator[Any] = iter((
            self._set, self._set, self._set, self._file, self._lend, self._lend, self._end, self._move_end,
            self._ask, self._decide, self._decide, self._accept, self._open, self._open, self._close,
            self._flavors, self._found, self._move, self._archive, self._revert,
        ))  # fmt: skip
        act = self.chance.choice(list(kinds))
        name = self.chance.choice(self.people)
        answer = act(self.clients[name])
        if answer is None:
            return False
        self.answers[act.__name__, answer.status_code] += 1
        assert answer.status_code < 500, (act.__name__, answer.content)
        return bool(answer.status_code < 300)

    def _one(self, rows: Any) -> Any:
        found = list(rows.order_by("pk"))
        if self.chance.random() < 0.7:
            # Mostly the attackers' own things, because most requests for others are refused at once.
            below = self._below(self.domain)
            tenants = {node.tenant_id for node in QuotaNode.unscoped.filter(pk__in=below)}
            near = [row for row in found if {row.pk, *self._places(row)} & (below | tenants)]
            found = near or found
        return self.chance.choice(found) if found else None

    def _places(self, row: Any) -> set[Any]:
        names = ("node_id", "lender_id", "borrower_id", "tenant_id")
        return {getattr(row, name) for name in names if hasattr(row, name)}

    def _limit(self, high: int = 30) -> int | None:
        return self.chance.choice((0, 1, 3, 8, None, self.chance.randint(0, high)))

    def _amount(self, *names: str) -> dict[str, Any]:
        flavor = self.chance.choice(self.flavors)
        return {"flavor": flavor.name, "resource": CARDS.value} | {name: self._limit() for name in names}

    def _limits(self) -> dict[str, Any]:
        names = ("nominal", "borrowing_limit", "lending_limit")
        return self._amount(*self.chance.sample(names, self.chance.choice((1, 1, 2))))

    def _query(self) -> str:
        return self.chance.choice(("", "", "", "?dry_run=true"))

    def _set(self, client: APIClient) -> Any:
        body = {"amounts": [self._limits()], "shrink": "let_run"}
        place = f"{API}/admin/quotas/{self._one(QuotaNode.unscoped).pk}{self._query()}"
        return client.patch(place, body, format="json", **ANY)

    def _file(self, client: APIClient) -> Any:
        lines = ["tenant,queue,cluster,flavor,resource,nominal,borrowing_limit,lending_limit"]
        for _ in range(2):
            node = self._one(QuotaNode.unscoped)
            queue = node.queue.name if node.is_queue else ""
            limits = [self.chance.choice(("", "unlimited", str(self.chance.randint(0, 25)))) for _ in "123"]
            flavor = self.chance.choice(self.flavors).name
            lines.append(",".join([node.tenant.slug, queue, "", flavor, CARDS.value, *limits]))
        place = f"{API}/admin/quota-file{self._query()}"
        return client.generic("POST", place, "\n".join(lines) + "\n", content_type="text/csv")

    def _lend(self, client: APIClient) -> Any:
        lender, borrower = (self._one(QuotaNode.unscoped) for _ in "12")
        start = self.chance.choice((None, clock.now() + timedelta(hours=2)))
        body = {
            "lender": str(lender.pk),
            "borrower": str(borrower.pk),
            "amounts": [self._amount() | {"amount": self.chance.randint(1, 6)}],
            "ends_at": (clock.now() + timedelta(hours=self.chance.randint(3, 60))).isoformat(),
        } | ({"starts_at": start.isoformat()} if start else {})
        return client.post(f"{API}/admin/overrides{self._query()}", body, format="json")

    def _end(self, client: APIClient) -> Any:
        loan = self._one(Override.unscoped)
        return client.post(f"{API}/admin/overrides/{loan.pk}/end", **ANY)

    def _move_end(self, client: APIClient) -> Any:
        until = clock.now() + timedelta(hours=self.chance.randint(1, 99))
        body = {"ends_at": until.isoformat()}
        return client.patch(
            f"{API}/admin/overrides/{self._one(Override.unscoped).pk}", body, format="json", **ANY
        )

    def _team(self) -> str:
        return str(self._one(Tenant.unscoped.filter(kind="workspace")).slug)

    def _ask(self, client: APIClient) -> Any:
        until = {"until": (clock.now() + timedelta(hours=9)).isoformat()}
        body = {"amounts": [self._limits()], "reason": "more", **self.chance.choice(({}, until))}
        if self.chance.random() < 0.5:
            body |= {"queue": "default"}
        return client.post(f"{API}/workspaces/{self._team()}/quota-requests", body, format="json")

    def _decide(self, client: APIClient) -> Any:
        if (asked := self._one(QuotaRequest.unscoped)) is None:
            return None
        place = f"{API}/admin/quota-requests/{asked.pk}"
        if self.chance.random() < 0.5:
            return client.post(f"{place}/approve", {}, format="json", **ANY)
        return client.post(f"{place}/counter", {"offer": [self._limits()]}, format="json", **ANY)

    def _accept(self, client: APIClient) -> Any:
        if (asked := self._one(QuotaRequest.unscoped.filter(state="countered"))) is None:
            return None
        place = f"{API}/workspaces/{asked.node.tenant.slug}/quota-requests/{asked.pk}/accept"
        return client.post(place, HTTP_IDEMPOTENCY_KEY=str(self.chance.random()))

    def _open(self, client: APIClient) -> Any:
        flavors = self.chance.sample([flavor.name for flavor in self.flavors], self.chance.choice((1, 2)))
        body = {"name": self.chance.choice(("default", "night", "more")), "flavors": flavors}
        return client.post(f"{API}/workspaces/{self._team()}/queues", body, format="json")

    def _queue(self) -> str:
        queue = self._one(Queue.unscoped.filter(closed_at=None))
        return f"{API}/workspaces/{queue.workspace.slug}/queues/{queue.name}"

    def _close(self, client: APIClient) -> Any:
        return client.delete(self._queue(), **ANY)

    def _flavors(self, client: APIClient) -> Any:
        return client.patch(self._queue(), {"flavors": ["h100", "a100"]}, format="json", **ANY)

    def _found(self, client: APIClient) -> Any:
        parent = self._one(Tenant.unscoped.filter(kind="folder"))
        name, kind = f"New {self.chance.randint(0, 99)}", self.chance.choice(("folder", "workspace"))
        body = {"name": name, "kind": kind, "parent": str(parent.pk)}
        return client.post(f"{API}/tenants", body, format="json")

    def _move(self, client: APIClient) -> Any:
        tenant = self._one(Tenant.unscoped.exclude(parent=None))
        body = {"parent": str(self._one(Tenant.unscoped.filter(kind="folder")).pk)}
        return client.post(f"{API}/tenants/{tenant.pk}/move", body, format="json", **ANY)

    def _archive(self, client: APIClient) -> Any:
        tenant = self._one(Tenant.unscoped.exclude(parent=None))
        verb = "archive" if tenant.archived_at is None else "restore"
        return client.post(f"{API}/tenants/{tenant.pk}/{verb}", **ANY)

    def _revert(self, client: APIClient) -> Any:
        if (revision := self._one(QuotaRevision.unscoped)) is None:
            return None
        return client.post(f"{API}/admin/quota-revisions/{revision.pk}/revert", {}, format="json")


@pytest.mark.parametrize("domain", list(PEOPLE))
@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_no_node_gets_more_than_was_decided_above_it(db: None, as_user: As, seed: int, domain: str) -> None:
    with time_machine.travel("2026-05-01T08:00:00Z", tick=False) as traveller:
        attack = Attack(seed, domain, as_user)
        for number in range(STEPS):
            changed = attack.step()
            if number % 5 == 4:
                traveller.shift(timedelta(minutes=attack.chance.randint(0, 90)))
                changed = bool(overrides_sweep(now=clock.now())) or changed
            if not changed:
                continue
            told = (number, attack.answers)
            assert all(now <= most for now, most in zip(attack.reach(), attack.most, strict=True)), told
            assert attack.own(attack.domain) == attack.has, told
            assert attack.own(attack._node(attack.products)) == attack.others, told
        traveller.shift(timedelta(days=30))
        overrides_sweep(now=clock.now())
        assert attack.own(attack.domain) == attack.has
        assert any(status < 300 for _, status in attack.answers), "nothing was done at all"
