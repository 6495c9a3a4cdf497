"""The access matrix under the policies on rows, and with nothing but them between the tenants."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any, Final

import pytest
from django.apps import apps
from rest_framework.test import APIClient

from foundation import audit, clock
from foundation.quantities import Resource
from quotas.models import Budget, Override, OverrideAmount, QuotaRequest, UserLimit
from quotas.services.quota import quota_set
from quotas.services.quota_plan import Keep, QuotaAmount
from scheduling.models import Job, JobState, MemoryResize, PriorityGrant, WorkspacePolicy
from tenants import permissions, row_policies
from tenants.models import Role, Tenant, User
from tenants.permissions import Permission
from tests.api import access_actors
from tests.api.conftest import SECRET, As
from tests.api.test_authorisation_matrix import TABLE, WHO, address, call, client_of, expected
from tests.builders import jobs, quotas, tenancy
from tests.builders.world import World

server = pytest.mark.server
_OF_NODE: Final = ("Quota", "LedgerEntry", "GpuUse", "QuotaChange", "QuotaRequest")
_OF_JOB: Final = ("JobRole", "Task", "Attempt", "Claim", "Decision", "JobEvent")
_OF_ALLOCATION: Final = ("DeviceSlice", "MemoryResize")
_OF_CHANNEL: Final = ("Reading", "Tick", "RollUp")
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
    "quotas.Budget": "tenant",
    "quotas.UserLimit": "workspace",
    **{f"quotas.{name}": "node__tenant" for name in _OF_NODE},
    "scheduling.Job": "workspace",
    "scheduling.PriorityGrant": "tenant",
    "scheduling.WorkspacePolicy": "tenant",
    "scheduling.UserUsage": "queue__workspace",
    "scheduling.Allocation": "attempt__job__workspace",
    **{f"scheduling.{name}": "allocation__attempt__job__workspace" for name in _OF_ALLOCATION},
    **{f"scheduling.{name}": "job__workspace" for name in _OF_JOB},
    "telemetry.Channel": "workspace_id",
    **{f"telemetry.{name}": "channel__workspace_id" for name in _OF_CHANNEL},
    "foundation.AuditRecord": "tenant_id",
}
# Accounts of people belong to the platform, and a kept answer to who got it.
OF_NOBODY: Final = {"tenants.User", "foundation.IdempotencyKey"}


def test_the_way_to_the_tenant_is_known_for_every_protected_table() -> None:
    assert {model._meta.label for model in row_policies.rules()} - OF_NOBODY == set(TO_TENANT)


def _all_of_team(team: Tenant) -> dict[str, list[Any]]:
    """The rows of a tenant by model; what is denied is written down beside it, which is no change."""
    found = {}
    for label, path in TO_TENANT.items():
        rows = apps.get_model(label)._base_manager.filter(**{path: team.pk})
        kept = rows.exclude(result=audit.DENIED) if label == "foundation.AuditRecord" else rows
        found[label] = list(kept.order_by("pk").values_list())
    return found


def _filled(w: World) -> dict[str, str]:
    """One more row of each kind that an address can name, by what stands for it there."""
    team, node = w.workspace, quotas.quota_node(w.cell, w.workspace)
    now = clock.now()
    more = [QuotaAmount(w.flavor, Resource.CPU, Keep.AS_IS, 1000)]
    revision = quota_set(acting_user=w.platform_admin, node=node, amounts=more, version=None)
    assert revision is not None
    steep = jobs.priority_class("steep", 1000)
    above = quotas.quota_node(w.cell, tenancy.root())
    lent = Override.unscoped.create(
        cell=w.cell,
        lender=node,
        borrower=above,
        starts_at=now,
        ends_at=now + timedelta(days=1),
        state="active",
    )
    OverrideAmount.unscoped.create(override=lent, flavor=w.flavor, resource="gpu.cards", amount=1)
    asked = QuotaRequest.unscoped.create(
        node=node, asker=w.editor, reason="more", asked=[], current=[], expires_at=now + timedelta(days=1)
    )
    WorkspacePolicy.unscoped.create(tenant=team, idle_timeout_s=600)
    held = jobs.allocate(jobs.job(w.queue, w.editor, "held"), w.nodes[0]).allocations.get()
    MemoryResize.unscoped.create(
        allocation=held, asked_by="nobody", from_mib=1, to_mib=2, deadline_at=now + timedelta(minutes=2)
    )
    robot = tenancy.service_account("robot", team)
    made = {
        "member": w.editor.memberships.get(),
        "role": team.custom_roles.get(),
        "budget": Budget.unscoped.create(tenant=team, gpu_hours=10),
        "limit": UserLimit.unscoped.create(workspace=team, resource="gpu.cards", amount=4),
        "grant": PriorityGrant.unscoped.create(tenant=team, priority_class=steep),
        "revision": revision,
        "override": lent,
        "quota_request": asked,
        "node": node,
    }
    names = {name: str(row.pk) for name, row in made.items()}
    return names | {"prefix": w.editor.access_keys.get().prefix, "account": robot.username}


def _strangers(w: World) -> dict[str, User]:
    """Who is no member of the tenant that the addresses name, and could as well be."""
    return {
        "admin elsewhere": w.outsider,
        "viewer elsewhere": tenancy.user("vic", w.other_workspace, Role.VIEWER),
        "member of nothing": tenancy.user("nick"),
    }


@server
def test_nothing_comes_out_nor_changes_without_the_applications_filter(
    bound: World, as_user: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    job, places, strangers = Job.unscoped.get(), _filled(bound), _strangers(bound)
    before = _all_of_team(bound.workspace)
    ids = {str(row[0]) for rows in before.values() for row in rows}

    # The application's own filter is taken away: everybody may do everything everywhere.
    monkeypatch.setattr(permissions, "granted", lambda *_: frozenset(Permission))
    monkeypatch.setattr(permissions, "granted_anywhere", lambda *_: frozenset(Permission))
    wrong = []
    for who, user in strangers.items():
        client = as_user(user)
        client.raise_request_exception = False
        for route, method in TABLE:
            path = address(route, bound, job, **places)
            if fault := _fault(client, method, path, route, ids):
                wrong.append((who, method, path, fault))
            if method != "GET" and _all_of_team(bound.workspace) != before:
                pytest.fail(f"{who}: {method} {path} changed something")
    assert not wrong
    assert _all_of_team(bound.workspace) == before


def _fault(client: APIClient, method: str, path: str, route: str, ids: set[str]) -> str:
    answer = call(client, method, path, route)
    if answer.status_code >= 500:
        return str(answer.status_code)
    named = re.findall(r"\{(?:ws|tenant|node|member|role|budget|limit|grant|revision|override)\}", route)
    if (named or route == "events") and answer.status_code not in (400, 404):
        return f"{answer.status_code} where there is nothing in sight"
    if answer.streaming:
        shown = "" if answer.is_async else b"".join(answer.streaming_content).decode()
    else:
        shown = str(answer.content, "utf-8", "replace")
    typed = set(re.findall(r"[0-9a-f-]{36}", path))
    leaked = [each for each in ids - typed if each in shown]
    return f"tells {leaked}" if leaked or SECRET in shown else ""


@server
@pytest.mark.parametrize("who", [*WHO, *access_actors.DERIVED])
def test_the_matrix_holds_under_the_policies(who: str, bound: World, as_user: As) -> None:
    job = Job.unscoped.get()
    client = client_of(who, bound, as_user)
    wrong = {}
    for (route, method), row in TABLE.items():
        Job.unscoped.exclude(pk=job.pk).delete()
        Job.unscoped.filter(pk=job.pk).update(state=JobState.QUEUED)
        got = call(client, method, address(route, bound, job), route).status_code
        if got != expected(who, (route, method), row):
            wrong[route, method] = got
    assert not wrong
