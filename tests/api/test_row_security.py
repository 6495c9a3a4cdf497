"""The second line on PostgreSQL: with the application's own checks taken away, policies on rows still hold.

The role that is taken on is no superuser and owns no table: for those the policies would not apply.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

import psycopg
import pytest
from django.apps import apps
from django.db import ProgrammingError, connection, connections, transaction
from rest_framework.test import APIClient

from foundation import audit, row_scope
from foundation.models import AuditRecord
from foundation.row_scope import EVERYTHING, NOTHING
from quotas.models import Queue, QuotaNode
from scheduling.models import Job, Task
from tenants import permissions, row_policies
from tenants.models import Member, Tenant
from tenants.permissions import Permission
from tenants.row_policies import OWN_APPS, WEB_ROLE
from tenants.row_scope import scope_of
from tests.api import access_actors
from tests.api.conftest import As
from tests.api.test_authorisation_matrix import TABLE, WHO, address, call, client_of, expected
from tests.builders import jobs, tenancy
from tests.builders.world import World, world
from tests.fixtures.postgres import PostgresServer

GLOBAL: Final = {
    "foundation.AuditSeal",
    "foundation.Hint",
    "foundation.Heartbeat",
    "tenants.Group",
    "tenants.GroupMember",
    "clusters.Cell",
    "clusters.Cluster",
    "clusters.Flavor",
    "clusters.Node",
    "clusters.Device",
    "clusters.SimulatedCluster",
    "clusters.SimulatedNode",
    "clusters.SimulatedDevice",
    "clusters.SimulatedPod",
    "scheduling.PriorityClass",
    "telemetry.TelemetryGap",
}
NAME: Final = "quite-secret"
server = pytest.mark.server


def test_every_table_has_a_policy_or_belongs_to_nobody() -> None:
    own = {model._meta.label for model in apps.get_models() if model._meta.app_label in OWN_APPS}

    protected = {model._meta.label for model in row_policies.rules()}

    assert own - protected == GLOBAL


@pytest.fixture
def bound(on_postgres: PostgresServer) -> Iterator[World]:
    """A small world on PostgreSQL, met from here on in the role of a web process."""
    made = world()
    jobs.job(made.queue, made.editor, NAME)
    tenancy.access_key(made.editor)
    tenancy.custom_role(made.workspace, "Helper", "job.view")
    audit.record(made.admin, "job.test", entity="job", entity_id="x", tenant_id=made.workspace.pk)
    options = connections.databases["default"]["OPTIONS"] | {"options": f"-c role={WEB_ROLE}"}
    connections["default"].close()
    connections.databases["default"]["OPTIONS"] = options
    del connections["default"]
    yield made


def _protected() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relrowsecurity AND relforcerowsecurity")
        return {name for (name,) in cursor.fetchall()}


@server
def test_the_policies_bind_owners_too_and_the_role_may_not_pass_them_by(bound: World) -> None:
    assert {model._meta.db_table for model in row_policies.rules()} <= _protected()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_user, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
        )
        assert cursor.fetchone() == (WEB_ROLE, False, False)


@server
def test_a_request_of_nobody_sees_nothing(bound: World) -> None:
    assert Job.unscoped.count() == 1

    with row_scope.acting(NOTHING):
        kinds = (Tenant, Member, Queue, QuotaNode, Job, Task, AuditRecord)
        assert [kind.unscoped.count() for kind in kinds] == [0] * len(kinds)


@server
def test_a_connection_that_was_never_told_anything_sees_nothing(
    bound: World, on_postgres: PostgresServer
) -> None:
    with on_postgres.connect(connection.settings_dict["NAME"]) as raw:
        raw.execute(f"SET ROLE {WEB_ROLE}")
        assert raw.execute("SELECT count(*) FROM scheduling_job").fetchone() == (0,)
        raw.execute("SET allotment.scope = 'nonsense'")
        assert raw.execute("SELECT count(*) FROM scheduling_job").fetchone() == (0,)


@server
def test_one_sees_and_changes_what_is_below_ones_roles(bound: World) -> None:
    own, other = scope_of(bound.editor), scope_of(bound.outsider)
    with row_scope.acting(own):
        job = Job.unscoped.select_related("workspace__parent").get()
        # The folders above are named, and nothing else of them is told.
        assert job.workspace.parent == tenancy.root()
        assert Task.unscoped.count() == 1
        assert set(Queue.unscoped.all()) == {bound.queue}
    with row_scope.acting(other):
        assert Job.unscoped.filter(pk=job.pk).update(name="mine") == 0
        assert set(Queue.unscoped.all()) == {bound.other_queue}
        with pytest.raises(ProgrammingError, match="row-level security"):
            jobs.job(bound.queue, bound.outsider, "planted")
        with pytest.raises(ProgrammingError, match="row-level security"):
            Job.unscoped.create(**_likeness(job), workspace=bound.workspace)


def _likeness(job: Job) -> dict[str, Any]:
    kept = ("queue_id", "submitted_by_id", "priority_class_id", "min_available", "submitted_at")
    return {"name": "planted"} | {name: getattr(job, name) for name in kept}


@server
def test_what_was_told_ends_with_the_transaction(bound: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> str:
        raw = connection.connection.execute("SELECT coalesce(current_setting('allotment.scope', true), '')")
        return str(raw.fetchone()[0])

    monkeypatch.setattr(row_scope._Process, "default", NOTHING)  # as in a web process
    connection.close()
    assert Job.unscoped.count() == 0
    own = scope_of(bound.editor)
    with row_scope.acting(own):
        assert Job.unscoped.count() == 1
        assert told() == ""  # the statement had a transaction of its own
        with transaction.atomic():
            assert Job.unscoped.count() == 1
            assert told() == own.scope
            with row_scope.whole():
                assert Queue.unscoped.count() == 2
            assert Queue.unscoped.count() == 1
        assert told() == ""


@server
def test_a_savepoint_that_is_undone_does_not_leave_the_wider_sight(bound: World) -> None:
    with row_scope.acting(EVERYTHING), transaction.atomic():
        assert Queue.unscoped.count() == 2
        with row_scope.acting(scope_of(bound.editor)):
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                assert Queue.unscoped.count() == 1
                raise ZeroDivisionError
            assert Queue.unscoped.count() == 1


@server
def test_a_failed_statement_leaves_the_connection_usable(bound: World) -> None:
    with row_scope.acting(scope_of(bound.editor)):
        with pytest.raises(ProgrammingError), connection.cursor() as cursor:
            cursor.execute("SELECT nothing FROM nowhere")
        assert Job.unscoped.count() == 1
        assert connection.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE


TO_TENANT: Final = {
    "tenants.Tenant": "pk",
    "tenants.Member": "tenant",
    "tenants.CustomRole": "tenant",
    "tenants.AccessKey": "user__memberships__tenant",
    "quotas.Queue": "workspace",
    "quotas.QuotaNode": "tenant",
    "quotas.Quota": "node__tenant",
    "scheduling.Job": "workspace",
    "scheduling.Task": "job__workspace",
    "scheduling.JobEvent": "job__workspace",
    "foundation.AuditRecord": "tenant_id",
}


def _all_of_team(team: Tenant) -> dict[str, list[Any]]:
    """The rows of a tenant by model; what is denied is written down beside it, which is no change."""
    found = {}
    for label, path in TO_TENANT.items():
        rows = apps.get_model(label)._base_manager.filter(**{path: team.pk})
        kept = rows.exclude(result=audit.DENIED) if label == "foundation.AuditRecord" else rows
        found[label] = list(kept.order_by("pk").values_list())
    return found


@pytest.fixture
def unfiltered(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Takes the application's own filter away: everybody may do everything everywhere."""

    def everything(*_: Any) -> frozenset[Permission]:
        return frozenset(Permission)

    def take() -> None:
        monkeypatch.setattr(permissions, "granted", everything)
        monkeypatch.setattr(permissions, "granted_anywhere", everything)

    return take


@server
def test_nothing_of_another_tenant_comes_out_without_the_applications_filter(
    bound: World, as_user: As, unfiltered: Callable[[], None]
) -> None:
    job = Job.unscoped.get()
    before = _all_of_team(bound.workspace)
    unfiltered()
    client = as_user(bound.outsider)

    for route, method in TABLE:
        path = address(route, bound, job)
        shown = _shown(client, method, path, route)
        typed = set(re.findall(r"[0-9a-f-]{36}", path))
        for label, rows in before.items():
            leaked = {str(row[0]) for row in rows if str(row[0]) in shown} - typed
            assert not leaked, (method, path, label)
        assert NAME not in shown, (method, path)

    assert _all_of_team(bound.workspace) == before


def _shown(client: APIClient, method: str, path: str, route: str) -> str:
    if method != "GET":
        status, answer = call(client, method, path, route), ""
        assert status < 500, (method, path, status)
        return answer
    response = client.get(path)
    assert response.status_code < 500, path
    if "{ws}" in route or "{tenant}" in route or "{node}" in route or route == "events":
        assert response.status_code == 404, (path, response.status_code)
    if response.streaming:
        return b"".join(response.streaming_content).decode() if not response.is_async else ""  # type: ignore[arg-type]
    return str(response.content, "utf-8", "replace")


@server
@pytest.mark.parametrize("who", [*WHO, *access_actors.DERIVED])
def test_the_matrix_holds_under_the_policies(who: str, bound: World, as_user: As) -> None:
    job = Job.unscoped.get()
    client = client_of(who, bound, as_user)
    wrong = {}
    for (route, method), row in TABLE.items():
        if method == "GET":
            got = call(client, method, address(route, bound, job), route)
            if got != expected(who, (route, method), row):
                wrong[route, method] = got
    assert not wrong
