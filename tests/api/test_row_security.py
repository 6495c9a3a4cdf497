"""The second line on PostgreSQL: with the application's own checks removed, row policies still hold.

The role of these tests is no superuser and owns no table, because policies don't apply to those.
"""

from __future__ import annotations

from typing import Any, Final

import psycopg
import pytest
from django.apps import apps
from django.db import ProgrammingError, connection, transaction

from foundation.models import AuditRecord
from foundation.sql import row_scope
from foundation.sql.row_scope import EVERYTHING, NOTHING
from quotas.models import Queue, QuotaNode
from scheduling.models import Job, Task
from tenants.access import row_policies
from tenants.access.row_policies import OWN_APPS, WEB_ROLE
from tenants.access.row_scope import scope_of
from tenants.models import Member, Tenant
from tests.builders import jobs, tenancy
from tests.builders.world import World
from tests.fixtures.postgres import PostgresServer

GLOBAL: Final = {
    "foundation.AuditSeal",
    "foundation.Hint",
    "foundation.Heartbeat",
    "foundation.Installation",
    "foundation.Measure",
    "tenants.Group",
    "tenants.GroupMember",
    "clusters.Cell",
    "clusters.Cluster",
    "clusters.Flavor",
    "clusters.Node",
    "clusters.Device",
    "clusters.ForeignPod",
    "clusters.NodeCordon",
    "clusters.NodeEvent",
    "clusters.SimulatedCluster",
    "clusters.SimulatedNode",
    "clusters.SimulatedDevice",
    "clusters.SimulatedPod",
    "scheduling.PriorityClass",
    "scheduling.CellForecast",
    "scheduling.PolicyReplay",
    "telemetry.AgentKey",
    "telemetry.GpuEvent",
    "telemetry.NodeAgent",
    "telemetry.MeasuredProgress",
    "telemetry.PendingBucket",
    "telemetry.Price",
    "telemetry.SourceNode",
    "telemetry.SourceStatus",
    "telemetry.TelemetryGap",
    "telemetry.TelemetrySource",
}
server = pytest.mark.server


def test_every_table_has_a_policy_or_belongs_to_no_tenant() -> None:
    own = {model._meta.label for model in apps.get_models() if model._meta.app_label in OWN_APPS}

    protected = {model._meta.label for model in row_policies.all_rules()}

    assert own - protected == GLOBAL


def _protected() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT relname FROM pg_class WHERE relrowsecurity AND relforcerowsecurity")
        return {name for (name,) in cursor.fetchall()}


@server
def test_the_policies_bind_owners_too_and_the_role_may_not_pass_them_by(bound: World) -> None:
    assert {model._meta.db_table for model in row_policies.all_rules()} <= _protected()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_user, rolsuper, rolbypassrls FROM pg_roles WHERE rolname = current_user"
        )
        assert cursor.fetchone() == (WEB_ROLE, False, False)


@server
def test_a_request_without_a_user_sees_nothing(bound: World) -> None:
    assert Job.unscoped.count() == 1

    with row_scope.use_scope(NOTHING):
        kinds = (Tenant, Member, Queue, QuotaNode, Job, Task, AuditRecord)
        assert [kind.unscoped.count() for kind in kinds] == [0] * len(kinds)


@server
def test_a_connection_without_a_scope_sees_nothing(bound: World, on_postgres: PostgresServer) -> None:
    with on_postgres.connect_database(connection.settings_dict["NAME"]) as raw:
        raw.execute(f"SET ROLE {WEB_ROLE}")
        assert raw.execute("SELECT count(*) FROM scheduling_job").fetchone() == (0,)
        raw.execute("SET allotment.scope = 'nonsense'")
        assert raw.execute("SELECT count(*) FROM scheduling_job").fetchone() == (0,)


@server
def test_one_sees_and_changes_what_is_below_ones_roles(bound: World) -> None:
    own, other = scope_of(bound.editor), scope_of(bound.outsider)
    with row_scope.use_scope(own):
        job = Job.unscoped.select_related("workspace__parent").get()
        # The folders above are named, and show nothing else.
        assert job.workspace.parent == tenancy.root()
        assert Task.unscoped.count() == 1
        assert set(Queue.unscoped.all()) == {bound.queue}
    with row_scope.use_scope(other):
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
def test_the_scope_ends_with_the_transaction(bound: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def scope_setting() -> str:
        raw = connection.connection.execute("SELECT coalesce(current_setting('allotment.scope', true), '')")
        return str(raw.fetchone()[0])

    monkeypatch.setattr(row_scope._ProcessScope, "default", NOTHING)  # as in a web process
    connection.close()
    assert Job.unscoped.count() == 0
    own = scope_of(bound.editor)
    with row_scope.use_scope(own):
        assert Job.unscoped.count() == 1
        assert scope_setting() == ""  # the statement had a transaction of its own
        with transaction.atomic():
            assert Job.unscoped.count() == 1
            assert scope_setting() == own.scope
            with row_scope.whole():
                assert Queue.unscoped.count() == 2
            assert Queue.unscoped.count() == 1
        assert scope_setting() == ""


@server
def test_a_savepoint_that_is_undone_does_not_leave_the_wider_sight(bound: World) -> None:
    with row_scope.use_scope(EVERYTHING), transaction.atomic():
        assert Queue.unscoped.count() == 2
        with row_scope.use_scope(scope_of(bound.editor)):
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                assert Queue.unscoped.count() == 1
                raise ZeroDivisionError
            assert Queue.unscoped.count() == 1


@server
def test_a_failed_statement_leaves_the_connection_usable(bound: World) -> None:
    with row_scope.use_scope(scope_of(bound.editor)):
        with pytest.raises(ProgrammingError), connection.cursor() as cursor:
            cursor.execute("SELECT nothing FROM nowhere")
        assert Job.unscoped.count() == 1
        assert connection.connection.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
