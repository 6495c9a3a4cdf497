"""A list costs the same number of queries for 3 rows of everything and for 30."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import yaml
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from alerts.models import Alert, AlertRule, NotificationChannel, Silence, UserMessage
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import SYSTEM
from foundation.core.months import month_of
from foundation.core.quantities import Resource
from quotas.models import Budget, GpuUse, Override, OverrideAmount, QuotaRequest, UserLimit
from quotas.services.quota import QuotaAmount, quota_set
from scheduling.models import GpuRequestMode, JobEvent, JobTemplate, PriorityGrant, WorkspacePolicy
from telemetry.models import AgentKey, Price, SourceNode, SourceStatus, TelemetrySource
from tenants.models import GroupMember, Member, Role
from tests.api.conftest import As
from tests.builders import clusters, jobs, quotas, replays, tenancy
from tests.builders.jobs import RoleOf
from tests.builders.world import World

CARDS: Final = Resource.GPU_CARDS
FEW, MANY = 3, 30
SCHEMA: Final = Path(__file__).parents[2] / "docs" / "openapi.yaml"
STREAMS: Final = ("/events/stream", "/logs", "/stream")
"""Addresses that are not answered from rows of the database, or that don't end."""


class Filled:
    """The small world with a given number of everything; `names` replace the parameters of addresses."""

    def __init__(self, w: World) -> None:
        self.w, self.number = w, 0
        self.team = tenancy.folder("teams")
        self.job = jobs.job(w.queue, w.editor, "first", roles=[RoleOf(replicas=1)])
        self.node = quotas.quota_node(w.cell, w.workspace)
        self.group = tenancy.group("all")
        card = w.nodes[0].devices.order_by("pk")[0]
        self.limit = UserLimit.unscoped.create(workspace=w.workspace, resource=CARDS.value, amount=40)
        self.replay = replays.replay(w.cell)
        self.names: dict[str, Any] = {
            "ws": w.workspace.slug, "tenant": w.workspace.pk, "job": self.job.pk, "node": self.node.pk,
            "group": self.group.pk, "uuid": card.uuid, "name": w.nodes[0].name, "limit": self.limit.pk,
            "replay": self.replay.pk,
        }  # fmt: skip

    def fill(self, until: int) -> None:
        while self.number < until:
            self.number += 1
            self._accounts(self.number)
            self._quotas(self.number)
            self._work(self.number)
            self._alerts(self.number)

    def _accounts(self, n: int) -> None:
        w = self.w
        person = tenancy.user(f"person-{n}", w.workspace, Role.VIEWER)
        role = tenancy.custom_role(w.workspace, f"role-{n}", "job.view")
        tenancy.custom_role(None, f"platform-role-{n}", "tenant.view")
        group = tenancy.group(f"group-{n}", person, w.editor)
        tenancy.group_member(group, w.workspace, Role.EDITOR)
        tenancy.group_member(group, None, Role.PLATFORM_VIEWER)
        tenancy.group_member(self.group, tenancy.workspace(f"own-{n}"), Role.VIEWER)
        GroupMember.unscoped.create(group=self.group, user=person)
        robot = tenancy.service_account(f"robot-{n}", w.workspace)
        Member.unscoped.create(user=robot, tenant=w.workspace, custom_role=role)
        for owner in (robot, w.platform_admin):
            tenancy.access_key(owner)
        for tenant in (w.workspace, None):
            audit_log.record_action(
                w.admin, "job.test", entity="job", entity_id=str(n), tenant_id=tenant.pk if tenant else None
            )

    def _quotas(self, n: int) -> None:
        w, now = self.w, clock.now()
        folder = tenancy.folder(f"folder-{n}", self.team)
        team = tenancy.workspace(f"work-{n}", folder)
        queue = quotas.queue(w.cell, team, [w.flavor], cards=1)
        quotas.queue(w.cell, w.workspace, [w.flavor], name=f"queue-{n}", cards=1)
        clusters.cell(f"cell-{n}")
        pool = clusters.flavor(clusters.cluster(w.cell, f"cluster-{n}"), f"pool-{n}")
        clusters.node(pool, f"extra-{n}", cards=1)
        source = TelemetrySource.unscoped.create(
            cluster=w.cluster, name=f"source-{n}", kind="dcgm", address="http://10.0.0.1/metrics"
        )
        SourceStatus.unscoped.create(source=source)
        SourceNode.unscoped.create(source=source, node=f"extra-{n}", at_ms=n)
        amount = QuotaAmount(w.flavor, CARDS, 100 + 10 * n)
        quota_set(acting_user=SYSTEM, node=self.node, amounts=[amount], on_top=True)
        loan = Override.unscoped.create(
            cell=w.cell, lender=quotas.quota_node(w.cell, folder), borrower=self.node, state="active",
            starts_at=now - timedelta(hours=1), ends_at=now + timedelta(days=1),
        )  # fmt: skip
        OverrideAmount.unscoped.create(override=loan, flavor=w.flavor, resource=CARDS.value, amount=1)
        person = tenancy.user(f"limited-{n}", w.workspace, Role.EDITOR)
        for node in (self.node, queue.node):
            QuotaRequest.unscoped.create(
                node=node, asker=person, reason=f"wish-{n}", expires_at=now + timedelta(days=1), current=[],
                asked=[{
                    "cluster": w.cluster.name, "flavor": w.flavor.name, "resource": CARDS.value,
                    "nominal": 200,
                }],
            )  # fmt: skip
        for tenant in (team, folder):
            Budget.unscoped.create(tenant=tenant, gpu_hours=n)
            WorkspacePolicy.unscoped.create(tenant=tenant, idle_timeout_s=600, version=1)
        UserLimit.unscoped.create(workspace=w.workspace, user=person, resource=CARDS.value, amount=n)
        Budget.unscoped.create(tenant=w.workspace, flavor=pool, gpu_hours=n)
        Price.unscoped.create(flavor=pool, effective_at=now, gpu_hour=n)
        GpuUse.unscoped.create(node=w.queue.node, flavor=pool, month=month_of(now), core_ms=n)
        rank = jobs.priority_class(f"rank-{n}", n)
        for tenant in (w.workspace, team):
            PriorityGrant.unscoped.create(tenant=tenant, priority_class=rank)

    def _work(self, n: int) -> None:
        w = self.w
        made = jobs.job(w.queue, w.editor, f"job-{n}", roles=[RoleOf(cards=1)])
        part = RoleOf(cards=1, cores=3, gpu_memory=100, mode=GpuRequestMode.SLICE)
        jobs.allocate(jobs.job(w.queue, w.editor, f"held-{n}", roles=[part]), w.nodes[0])
        role = self.job.roles.get()
        role.tasks.create(job=self.job, index=n)
        replays.replay(w.cell, team=str(w.workspace.pk))
        JobTemplate.unscoped.create(
            workspace=w.workspace,
            name=f"usual-{n}",
            text="kind: batch",
            saved_by=w.editor,
            saved_at=clock.now(),
        )
        for job in (self.job, made):
            JobEvent.unscoped.create(job=job, code="queued", at=clock.now())

    def _alerts(self, n: int) -> None:
        w, now = self.w, clock.now()
        for tenant in (w.workspace, None):
            facts = {"tenant": tenant, "metric": "job.pending_s", "threshold": n}
            rule = AlertRule.unscoped.create(name=f"rule-{n}", **facts)
            channel = NotificationChannel.unscoped.create(tenant=tenant, name=f"hook-{n}", kind="webhook")
            rule.channels.add(channel)
            seen = {"subject": str(n), "label": f"job-{n}", "state": "firing", "started_at": now}
            Alert.unscoped.create(
                rule=rule, rule_name="r", comparison="above", severity="info", **facts, **seen
            )
            Silence.unscoped.create(
                tenant=tenant, rule=rule, starts_at=now, ends_at=now + timedelta(hours=1), created_by=w.admin
            )
        UserMessage.unscoped.bulk_create(
            UserMessage(user=user, tenant=w.workspace, kind="job", event="failed", facts=job, source=str(n))
            for user in (w.admin, w.platform_admin)
            for job in ({"job": f"job-{n}"},)
        )
        AgentKey.unscoped.create(node=w.nodes[0], prefix=f"key-{n}", secret_hash="x", expires_at=now)


def lists() -> list[str]:
    """Return the addresses of all lists, as the schema names them."""
    schema = yaml.load(SCHEMA.read_text(), yaml.CSafeLoader)
    return [
        path
        for path, methods in schema["paths"].items()
        if any(
            (p["in"], p["name"]) == ("query", "limit") for p in methods.get("get", {}).get("parameters", ())
        )
        and not path.endswith((*STREAMS, "/usage/report"))  # its rows are sums
    ]


def test_no_list_asks_the_database_more_often_for_more_rows(w: World, as_user: As) -> None:
    filled, places = Filled(w), lists()
    clients = {"operator": as_user(w.platform_admin), "admin": as_user(w.admin)}
    asks = [(name, place) for place in places for name in clients if "{" in place or name == "operator"]
    assert len(places) > 30
    filled.fill(FEW)
    few = {(name, place): _asked(clients[name], filled, place, warm=True) for name, place in asks}
    filled.fill(MANY)
    many = {(name, place): _asked(clients[name], filled, place) for name, place in asks}

    assert {each: (few[each][1], found) for each, (_, found) in many.items() if found > few[each][1]} == {}
    assert {each: rows for each, (rows, _) in many.items() if each[0] == "operator" and rows < MANY} == {}


def _asked(client: APIClient, filled: Filled, place: str, *, warm: bool = False) -> tuple[int, int]:
    """Return the number of rows of an answer and of the queries for it."""
    address = place.format_map(filled.names)
    if warm:
        client.get(address)  # fills what is cached between requests
    with CaptureQueriesContext(connection) as asked:
        answer = client.get(address, {"limit": 100})
    assert answer.status_code in (200, 403, 404), (address, answer.content)
    return len(answer.json().get("items", ())), len(asked)
