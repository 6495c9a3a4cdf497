"""Queries that are written into SQL once answer as their querysets do, on both database systems."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from typing import Any

import pytest
from django.db import DataError, connection
from django.db.models import QuerySet
from django.test.utils import CaptureQueriesContext

from foundation.kept import Kept
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


def test_models_come_with_what_they_refer_to(w: World) -> None:
    kept = Kept(_of_workspace)
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
    kept_job = kept.first(w.workspace.pk, "alpha")
    assert kept_job is not None
    assert [getattr(kept_job, name) for name in fields] == [getattr(again, name) for name in fields]
    assert kept.first(w.workspace.pk, "gamma") is None


def test_tuples_of_a_union(w: World) -> None:
    def shape(one: uuid.UUID, other: uuid.UUID) -> QuerySet[Any, Any]:
        rows = Tenant.unscoped.order_by()
        first, second = (rows.filter(pk=pk).values_list("pk", "slug", "archived_at") for pk in (one, other))
        return first.union(second, all=True)

    values = (w.workspace.pk, w.other_workspace.pk)

    assert sorted(Kept(shape)(*values)) == sorted(tuple(row) for row in shape(*values))


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
def test_what_is_asked_again_is_planned_once(on_postgres: PostgresServer) -> None:
    kept = Kept(lambda slug: Tenant.unscoped.filter(slug=slug).order_by().values_list("pk"))
    for _ in range(4):
        kept("team-a")
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

    kept: Kept[Job] = Kept(shape)
    made = [jobs.job(w.queue, w.editor).pk for _ in range(9)]

    for count in range(10):
        assert {job.pk for job in kept.for_any(made[:count])} == set(made[:count])
    assert len(shapes) == 1
    few = kept.for_any(made)
    assert len({id(job.queue) for job in few}) == 1 == Queue.unscoped.filter(pk=few[0].queue_id).count()
