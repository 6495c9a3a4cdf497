"""Row policies alone separate the tenants: the application's own checks are removed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.apps import apps
from django.db import connections

from foundation.audit import audit_log
from tenants.access import permissions, row_policies
from tenants.access.permissions import Permission
from tenants.access.row_policies import WEB_ROLE
from tenants.models import Tenant
from tests.access.actors import ACTORS
from tests.access.asking import Answer, send, undone
from tests.access.covering import API
from tests.access.table import Ask
from tests.access.world import AccessWorld, build
from tests.fixtures.postgres import PostgresServer

server = pytest.mark.server
_OF_NODE: Final = ("Quota", "LedgerEntry", "GpuUse", "QuotaChange", "QuotaRequest")
_OF_JOB: Final = (
    "JobRole", "Task", "Attempt", "Claim", "Decision", "JobEvent", "IdleStretch", "StartPrediction",
    "JobDeletion",
)  # fmt: skip
_OF_ALLOCATION: Final = ("DeviceSlice", "MemoryResize", "SliceUse")
_OF_CHANNEL: Final = ("Reading", "Tick", "RollUp", "RolledMinute", "RolledTenMinutes", "RolledTwoHours")
TO_TENANT: Final = {
    "tenants.Tenant": "pk",
    "tenants.Member": "tenant",
    "tenants.CustomRole": "tenant",
    "tenants.AccessKey": "user__memberships__tenant",
    "quotas.Queue": "workspace",
    "quotas.QueueFlavor": "queue__workspace",
    "quotas.QuotaNode": "tenant",
    "quotas.QuotaRevision": "changes__node__tenant",
    "quotas.Override": "lender__tenant",
    "quotas.OverrideAmount": "override__lender__tenant",
    "quotas.PassedQuota": "source__tenant",
    "quotas.Budget": "tenant",
    "quotas.UserLimit": "workspace",
    **{f"quotas.{name}": "node__tenant" for name in _OF_NODE},
    "scheduling.Job": "workspace",
    "scheduling.JobTemplate": "workspace",
    "scheduling.JobTag": "workspace",
    "scheduling.UsageInterval": "workspace_id",
    "scheduling.MountedClaim": "workspace",
    "telemetry.MeasuredUse": "workspace_id",
    "telemetry.StoredReport": "workspace_id",
    "scheduling.PriorityGrant": "tenant",
    "scheduling.WorkspacePolicy": "tenant",
    "scheduling.UserUsage": "queue__workspace",
    "scheduling.StartEstimate": "workspace",
    "scheduling.Allocation": "attempt__job__workspace",
    **{f"scheduling.{name}": "allocation__attempt__job__workspace" for name in _OF_ALLOCATION},
    **{f"scheduling.{name}": "job__workspace" for name in _OF_JOB},
    "telemetry.Channel": "workspace_id",
    "telemetry.GpuProcess": "workspace_id",
    **{f"telemetry.{name}": "channel__workspace_id" for name in _OF_CHANNEL},
    "foundation.AuditRecord": "tenant_id",
    **{f"alerts.{name}": "tenant" for name in ("Alert", "AlertRule", "NotificationChannel", "Silence")},
    "alerts.Notification": "channel__tenant",
    "alerts.RuleChannel": "rule__tenant",
    "alerts.UserMessage": "tenant",
    "alerts.JobWatch": "job__workspace",
}
# Accounts of people belong to the platform, and a stored answer belongs to its caller.
OF_NOBODY: Final = {"tenants.User", "foundation.IdempotencyKey"}


def test_the_way_to_the_tenant_is_known_for_every_protected_table() -> None:
    assert {model._meta.label for model in row_policies.all_rules()} - OF_NOBODY == set(TO_TENANT)


STRANGERS: Final = ("neighbour", "sibling-admin", "stranger")
"""Users that are no members of the tenant in the address, and could be."""
_PEOPLE: Final = "api/v1/admin/users"
"""Accounts of people belong to the platform, so no row policy hides them."""
_ABOVE: Final = "api/v1/admin/jobs"
"""Addresses of places: an actor without a role above workspaces is refused before the query is read."""
_PLACES: Final = re.compile(
    r"\{(?:ws|tenant|node|leaf|member|role|spare_role|budget|limit|template|alert_rule|alert_channel|silence|grant|revision|override|job|held)\}"
)


@pytest.fixture
def bound(on_postgres: PostgresServer) -> Iterator[AccessWorld]:
    """Yield the world on PostgreSQL, from here on in the role of a web process."""
    made = build()
    options = connections.databases["default"]["OPTIONS"] | {"options": f"-c role={WEB_ROLE}"}
    connections["default"].close()
    connections.databases["default"]["OPTIONS"] = options
    del connections["default"]
    yield made


def _all_of_team(team: Tenant) -> dict[str, list[Any]]:
    """Return the rows of a tenant by model, without the records of denials."""
    found = {}
    for label, path in TO_TENANT.items():
        rows = apps.get_model(label)._base_manager.filter(**{path: team.pk})
        kept = rows.exclude(result=audit_log.DENIED) if label == "foundation.AuditRecord" else rows
        found[label] = list(kept.order_by("pk").values_list())
    return found


@server
@pytest.mark.parametrize("who", STRANGERS)
def test_nothing_comes_out_nor_changes_without_the_applications_filter(
    bound: AccessWorld, who: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = bound.here.tenant
    before = _all_of_team(team)
    # The number of a record is no secret, and the policies show the tenants above the own one.
    ids = {str(row[0]) for rows in before.values() for row in rows if not isinstance(row[0], int)}
    ids |= {
        secret
        for secret, rights in bound.here.secrets.items()
        if any(place != "root" for _right, place in rights)
    }

    # The application's own filter is removed: every user may do everything everywhere.
    for name in ("permissions_on", "permissions_anywhere", "_coverable"):
        monkeypatch.setattr(permissions, name, lambda *_: frozenset(Permission))
    wrong = []
    for ask in API:
        with undone():
            answer = send(bound, ACTORS[who], ask)
            fault = "" if ask.open or ask.route.startswith(_PEOPLE) else _fault(ask, answer, ids)
            if (
                ask.method != "GET"
                and answer.tables - {"foundation_auditrecord"}
                and _all_of_team(team) != before
            ):
                fault = "changed something"
        if fault:
            wrong.append(f"{ask}: {fault}")
    assert not wrong, "\n".join(wrong)


def _fault(ask: Ask, answer: Answer, ids: set[str]) -> str:
    if answer.status >= 500:
        return str(answer.status)
    if ask.route == _ABOVE and answer.status == 403:
        return ""
    if _PLACES.search(ask.route + ask.query) and answer.status not in (400, 404):
        return f"{answer.status} where there is nothing in sight"
    leaked = [each for each in ids if each in answer.text and each not in answer.asked]
    return f"tells {leaked}" if leaked else ""
