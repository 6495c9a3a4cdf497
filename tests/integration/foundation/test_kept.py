"""Queries that are written into SQL once answer as their querysets do, on both database systems."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import DataError, connection
from django.db.models import F, QuerySet
from django.test.utils import CaptureQueriesContext

from foundation.sql.prepared import PreparedQuery, PreparedUpdate, read_sharing
from quotas.models import Queue
from scheduling.models import Job
from tenants.models import Tenant
from tests.builders import jobs
from tests.builders.world import World, world
from tests.fixtures.postgres import PostgresServer


@pytest.fixture(
    params=[
        pytest.param("embedded", marks=pytest.mark.django_db),
        pytest.param("postgresql", marks=pytest.mark.server),
    ]
)
def w(request: pytest.FixtureRequest) -> World:
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("on_postgres")
        assert server.process.poll() is None
    return world()


def _of_workspace(workspace: uuid.UUID, name: str) -> QuerySet[Job]:
    jobs_of = Job.unscoped.filter(workspace=workspace, name=name, state="queued").order_by("-pk")
    return jobs_of.select_related("queue__workspace", "submitted_by")


def test_rows_that_refer_to_the_same_row_share_its_model(w: World) -> None:
    jobs.job(w.queue, w.editor, "alpha")
    jobs.job(w.queue, w.admin, "beta")
    asked_for = Job.unscoped.order_by("name").select_related("queue__workspace", "submitted_by")
    with CaptureQueriesContext(connection) as asked:
        alpha, beta = found = read_sharing(asked_for)
        told = [(job.queue.workspace.slug, job.submitted_by.username) for job in found]
    assert (len(asked), told) == (1, [("team-a", "ed"), ("team-a", "adam")])
    assert found == list(asked_for)
    assert alpha.queue is beta.queue


def test_models_come_with_what_they_refer_to(w: World) -> None:
    kept = PreparedQuery(_of_workspace)
    made = jobs.job(w.queue, w.editor, "alpha")
    jobs.job(w.queue, w.editor, "beta")

    for name, found in (("alpha", [made]), ("gamma", []), ("alpha", [made])):
        with CaptureQueriesContext(connection) as asked:
            rows = kept(w.workspace.pk, name)
            told = [(job.queue.workspace.slug, job.submitted_by.username) for job in rows]
        assert rows == found
        assert told == [("team-a", "ed")] * len(found)
        assert len(asked) == 1
    again = _of_workspace(w.workspace.pk, "alpha").get()
    fields = [field.attname for field in Job._meta.concrete_fields]
    kept_job = kept.fetch_first(w.workspace.pk, "alpha")
    assert kept_job is not None
    assert [getattr(kept_job, name) for name in fields] == [getattr(again, name) for name in fields]
    assert kept.fetch_first(w.workspace.pk, "gamma") is None


def test_tuples_of_a_union(w: World) -> None:
    def shape(one: uuid.UUID, other: uuid.UUID) -> QuerySet[Any, Any]:
        rows = Tenant.unscoped.order_by()
        first, second = (rows.filter(pk=pk).values_list("pk", "slug", "archived_at") for pk in (one, other))
        return first.union(second, all=True)

    values = (w.workspace.pk, w.other_workspace.pk)

    assert sorted(PreparedQuery(shape)(*values)) == sorted(tuple(row) for row in shape(*values))


@pytest.mark.server
def test_times_are_read_as_they_were_written(on_postgres: PostgresServer) -> None:
    moments = [
        datetime(2026, 11, 22, 5, 6, 7, tzinfo=UTC),
        datetime(2026, 11, 22, 5, 6, 7, 120_000, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ]
    with connection.cursor() as cursor:
        cursor.execute("SELECT unnest(%s::timestamptz[])", [moments])
        assert [found for (found,) in cursor.fetchall()] == moments
        cursor.execute("SELECT '0044-03-15 12:00:00+00 BC'::timestamptz")
        with pytest.raises(DataError, match="BC"):
            cursor.fetchall()


@pytest.mark.server
def test_a_repeated_query_is_planned_once_and_gets_its_values_each_time(on_postgres: PostgresServer) -> None:
    kept = PreparedQuery(lambda slug: Tenant.unscoped.filter(slug=slug).order_by().values_list("pk"))
    with CaptureQueriesContext(connection) as asked:
        for _ in range(4):
            kept("team-a")
    assert ["tenants_tenant" in query["sql"] for query in asked] == [True] * 4
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%%tenants_tenant%%'"
        )
        assert cursor.fetchone() == (1,)


def test_lists_of_any_length_share_one_statement(w: World) -> None:
    shapes = []

    def shape(keys: uuid.UUID) -> QuerySet[Job]:
        shapes.append(keys)
        return Job.unscoped.filter(pk__any_of=keys).order_by("pk").select_related("queue")

    kept: PreparedQuery[Job] = PreparedQuery(shape)
    made = [jobs.job(w.queue, w.editor).pk for _ in range(9)]

    for count in range(10):
        assert {job.pk for job in kept.for_any(made[:count])} == set(made[:count])
    assert len(shapes) == 1
    few = kept.for_any(made)
    assert len({id(job.queue) for job in few}) == 1 == Queue.unscoped.filter(pk=few[0].queue_id).count()


def test_times_and_numbers_may_be_asked_for(w: World) -> None:
    kept = PreparedQuery(
        lambda before, version: (
            Job.unscoped.filter(submitted_at__lt=before, version__lte=version)
            .order_by("pk")
            .values_list("name", "submitted_at")
        )
    )
    then = datetime(2026, 11, 22, 5, 6, 7, 120_000, tzinfo=UTC)
    jobs.job(w.queue, w.editor, "early", submitted_at=then)
    jobs.job(w.queue, w.editor, "late", submitted_at=then + timedelta(microseconds=1), version=3)

    second = then + timedelta(seconds=1)
    assert kept(then, 9) == []
    assert kept(then + timedelta(microseconds=1), 9) == [("early", then)]
    assert kept(second, 2) == [("early", then)]
    assert kept(second, 2**40) == [("early", then), ("late", then + timedelta(microseconds=1))]


def test_what_is_annotated_comes_with_the_model(w: World) -> None:
    named: PreparedQuery[Any] = PreparedQuery(
        lambda workspace: (
            Job.unscoped.filter(workspace=workspace)
            .annotate(rule=F("runtime__rule"))
            .order_by("name")
            .select_related("queue")
        )
    )
    jobs.job(w.queue, w.editor, "alpha", runtime={"rule": 7})
    jobs.job(w.queue, w.editor, "beta")

    assert [(job.name, job.rule, job.queue.pk) for job in named(w.workspace.pk)] == [
        ("alpha", 7, w.queue.pk),
        ("beta", None, w.queue.pk),
    ]


def test_only_the_rows_that_are_meant_get_the_values_of_the_call(w: World) -> None:
    note = PreparedUpdate(
        lambda workspace, name, at: Job.unscoped.filter(workspace=workspace, name=name, deadline_at=None),
        lambda workspace, name, at: {"deadline_at": at, "version": F("version") + 1, "end_reason": name},
    )
    made = [jobs.job(w.queue, w.editor, name) for name in ("alpha", "beta")]
    then = datetime(2026, 11, 22, 5, 6, 7, 120_000, tzinfo=UTC)

    for job, at in zip(made, (then, then + timedelta(hours=1)), strict=True):
        assert note(w.workspace.pk, job.name, at) == 1
        assert note(w.workspace.pk, job.name, at) == 0
    assert note(w.other_workspace.pk, "alpha", then) == 0
    rows = Job.unscoped.order_by("name").values_list("deadline_at", "version", "end_reason")
    assert list(rows) == [(then, 1, "alpha"), (then + timedelta(hours=1), 1, "beta")]
