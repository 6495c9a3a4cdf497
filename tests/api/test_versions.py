"""Everything that users change has a version, and a change names the version that it was made for."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Final

import pytest
from drf_spectacular.generators import SchemaGenerator

from alerts.models import AlertRule, NotificationChannel
from foundation.core import clock
from foundation.core.quantities import Resource
from quotas.models import Budget, Override, UserLimit
from scheduling.models import JobTemplate
from telemetry.models import TelemetrySource
from tests.access.tables import contents
from tests.api.conftest import As
from tests.builders import jobs, quotas, tenancy
from tests.builders.world import World

CHANGES: Final = ("patch", "put", "delete")
UNVERSIONED: Final = {
    ("delete", "/me/keys/{prefix}"): "a key that leaked is ended at once, whatever else was done to it",
    ("delete", "/workspaces/{ws}/keys/{prefix}"): "as one's own keys",
    ("delete", "/tenants/{tenant}/service-accounts/{account}"): "nothing of it changes but that it ends",
    ("delete", "/admin/groups/{group}/people/{user}"): "a bare pair: it is there or not",
    ("delete", "/admin/priority-grants/{grant}"): "a bare pair: it is there or not",
    ("delete", "/admin/prices/{price}"): "a price never changes",
    ("delete", "/admin/silences/{silence}"): "nothing of it changes but that it ends",
    ("delete", "/workspaces/{ws}/silences/{silence}"): "nothing of it changes but that it ends",
    ("delete", "/admin/policy-replays/{replay}"): "a result never changes, and one that runs is stopped",
    ("delete", "/workspaces/{ws}/jobs/{job}"): "a finished job never changes",
    ("delete", "/workspaces/{ws}/jobs/{job}/watch"): "a bare pair: it is there or not",
    ("delete", "/admin/agent-keys/{key}"): "a key that leaked is ended at once",
}
BODIES: Final[dict[str, Any]] = {
    "/tenants/{tenant}": {"name": "Team Z"},
    "/tenants/{tenant}/members/{member}": {"role": "viewer"},
    "/admin/members/{member}": {"role": "auditor"},
    "/tenants/{tenant}/roles/{role}": {"description": "other"},
    "/admin/roles/{role}": {"description": "other"},
    "/admin/users/{user}": {"is_active": False},
    "/admin/groups/{group}": {"name": "other"},
    "/admin/quotas/{node}": {
        "amounts": [{"flavor": "a100", "resource": Resource.CPU.value, "borrowing_limit": 7}]
    },
    "/admin/cells/{cell}": {"sharing": "classical"},
    "/admin/clusters/{cluster}": {"live_resize": True},
    "/admin/flavors/{cluster}/{flavor_name}": {
        "cpu_per_gpu": 8000,
        "memory_per_gpu": 65536,
        "placement": "spread",
    },
    "/workspaces/{ws}/queues/{queue}": {"backfill": False},
    "/admin/priority-classes/{name}": {"description": "other"},
    "/tenants/{tenant}/policy": {"idle_timeout_s": 600},
    "/admin/budgets/{budget}": {"gpu_hours": 7},
    "/admin/overrides/{override}": {"ends_at": (clock.now() + timedelta(hours=1)).isoformat()},
    "/workspaces/{ws}/user-limits/{limit}": {"amount": 7},
    "/workspaces/{ws}/job-templates/{template}": {"description": "other"},
    "/admin/alert-rules/{rule}": {"threshold": 7.0},
    "/workspaces/{ws}/alert-rules/{rule}": {"threshold": 7.0},
    "/admin/notification-channels/{channel}": {"enabled": False},
    "/workspaces/{ws}/notification-channels/{channel}": {"enabled": False},
    "/admin/telemetry-sources/{source}": {"enabled": False},
}


def _changes() -> dict[tuple[str, str], bool]:
    """Return every change of the schema, and whether it asks for the version."""
    paths = SchemaGenerator().get_schema(request=None, public=True)["paths"]
    return {
        (method, path.removeprefix("/api/v1")): any(
            (p["in"], p["name"], p.get("required")) == ("header", "If-Match", True)
            for p in operation["parameters"]
        )
        for path, methods in paths.items()
        for method, operation in methods.items()
        if method in CHANGES
    }


def test_every_change_asks_for_a_version_or_says_why_not() -> None:
    assert {change for change, asks in _changes().items() if not asks} == set(UNVERSIONED)


@pytest.fixture
def places(w: World) -> dict[str, str]:
    """Return one thing of each kind, by its parameter in an address."""
    jobs.priority_class("steep", 1000)
    now = clock.now()
    lent = Override.unscoped.create(
        cell=w.cell,
        lender=quotas.quota_node(w.cell, w.workspace),
        borrower=quotas.quota_node(w.cell, w.other_workspace),
        starts_at=now,
        ends_at=now + timedelta(days=1),
    )
    return {
        "tenant": str(w.workspace.pk),
        "ws": w.workspace.slug,
        "node": str(quotas.quota_node(w.cell, w.workspace).pk),
        "queue": w.queue.name,
        "cell": w.cell.name,
        "cluster": w.cluster.name,
        "flavor_name": w.flavor.name,
        "name": "steep",
        "user": str(w.editor.pk),
        "group": str(tenancy.group("ml").pk),
        "budget": str(Budget.unscoped.create(tenant=w.workspace, gpu_hours=10).pk),
        "override": str(lent.pk),
        "template": str(_template(w).pk),
        "limit": str(UserLimit.unscoped.create(workspace=w.workspace, resource="gpu.cards", amount=4).pk),
    }


def _template(w: World) -> JobTemplate:
    return JobTemplate.unscoped.create(
        workspace=w.workspace, name="usual", text="kind: batch", saved_at=clock.now()
    )


def _address(path: str, w: World, places: dict[str, str]) -> str:
    platform = path.startswith("/admin")
    own = w.editor if not platform else tenancy.user("pat", None, tenancy.Role.AUDITOR)
    values = places | {"member": str(own.memberships.get().pk)}
    if "{role}" in path:
        values["role"] = str(tenancy.custom_role(None if platform else w.workspace, "Helper", "job.view").pk)
    tenant = None if platform else w.workspace
    if "{rule}" in path:
        rule = AlertRule.unscoped.create(tenant=tenant, name="load", metric="job.pending_s", threshold=1.0)
        values["rule"] = str(rule.pk)
    if "{channel}" in path:
        made = NotificationChannel.unscoped.create(tenant=tenant, name="hook", kind="webhook")
        values["channel"] = str(made.pk)
    if "{source}" in path:
        source = TelemetrySource.unscoped.create(
            cluster=w.cluster, name="dcgm", kind="dcgm", address="http://10.0.0.1/metrics"
        )
        values["source"] = str(source.pk)
    return "/api/v1" + path.format(**values)


@pytest.mark.parametrize(
    ("method", "path"), [change for change, asks in _changes().items() if asks], ids=" ".join
)
def test_a_change_without_its_version_is_refused(
    method: str, path: str, w: World, places: dict[str, str], as_user: As
) -> None:
    client = as_user(w.platform_admin)
    url = _address(path, w, places)
    if path.endswith("/policy"):
        client.put(url, BODIES[path], headers={"If-Match": "*"})
    body = json.dumps(BODIES[path]) if method != "delete" else ""
    before, seen = contents(), client.get(url)

    def send(**headers: str) -> Any:
        return client.generic(method.upper(), url, body, content_type="application/json", headers=headers)

    assert send().status_code == 428
    assert send(**{"If-Match": '"99"'}).status_code == 412
    assert contents() == before
    done = send(**{"If-Match": seen["ETag"]})
    assert done.status_code in (200, 204), done.content
    assert contents() != before
    again = send(**{"If-Match": seen["ETag"]})
    assert again.status_code == (404 if method == "delete" else 412)
