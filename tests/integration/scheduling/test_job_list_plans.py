"""A page of many jobs is read from an index in its order: PostgreSQL sorts nothing for it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Final

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation.core import clock
from foundation.web.listing import parse_condition
from scheduling.models import Job, JobDeletion, JobState, JobTag
from scheduling.selectors.jobs.job import job_list
from scheduling.selectors.jobs.job_filter import COLUMNS, JobFilter
from scheduling.selectors.jobs.row import queue_work, queues_work
from tenants.models import Tenant, User
from tests.builders import jobs
from tests.builders.world import World, world
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.server
COUNT: Final = 6000


@pytest.fixture
def w(on_postgres: PostgresServer) -> World:
    """A workspace of 6,000 jobs in one queue; two thirds have succeeded, and have a tag."""
    made = world()
    first = jobs.job(made.queue, made.editor, "job-0", state=JobState.SUCCEEDED)
    fields = {
        field.attname: getattr(first, field.attname)
        for field in Job._meta.concrete_fields
        if field.name != "id"
    }
    now = clock.now()
    Job.unscoped.bulk_create(
        Job(
            **fields
            | {
                "name": f"job-{number}",
                "submitted_at": now - timedelta(minutes=number),
                "state": JobState.FAILED if number % 3 == 0 else JobState.SUCCEEDED,
            }
        )
        for number in range(1, COUNT)
    )
    tagged = Job.unscoped.filter(state=JobState.SUCCEEDED)
    JobTag.unscoped.bulk_create(tag for job in tagged for tag in JobTag.of_job(job, ["many"]))
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return made


def delete_jobs(w: World) -> None:
    """Delete a third of the jobs, before PostgreSQL has counted them."""
    gone = Job.unscoped.filter(state=JobState.FAILED).values_list("pk", flat=True)
    JobDeletion.unscoped.bulk_create(JobDeletion(job_id=pk) for pk in gone)


def find_nodes(plan: dict[str, Any]) -> set[str]:
    """The types of a plan's nodes."""
    return {plan["Node Type"]}.union(*(find_nodes(part) for part in plan.get("Plans", [])))


def most_rows(plan: dict[str, Any]) -> int:
    """The most rows that a node of a plan gave or left out."""
    own = max(plan["Actual Rows"], plan.get("Rows Removed by Filter", 0))
    return max([own, *(most_rows(part) for part in plan.get("Plans", []))])


def list_plans(viewer: User, workspace: Tenant | None, filters: JobFilter) -> list[set[str]]:
    """The plans of the statements that look for the keys of a page."""
    with CaptureQueriesContext(connection) as sent:
        assert job_list(viewer=viewer, workspace=workspace, filters=filters).items
    plans = []
    for query in sent.captured_queries:
        if 'AS "pk"' in query["sql"] and " LIMIT " in query["sql"]:
            with connection.cursor() as cursor:
                cursor.execute(f"EXPLAIN (FORMAT JSON) {query['sql']}")
                found = cursor.fetchone()[0]
            plans.append(find_nodes((json.loads(found) if isinstance(found, str) else found)[0]["Plan"]))
    return plans


@pytest.mark.parametrize("deleted", [False, True])
def test_no_page_of_jobs_is_sorted(w: World, deleted: bool) -> None:
    if deleted:
        delete_jobs(w)
    cases = {
        "none": JobFilter(),
        "queue": JobFilter(queue=w.queue.name),
        "state": JobFilter(states=["succeeded"]),
        "mine": JobFilter(mine=True),
        "submitter": JobFilter(submitted_by=w.editor.username),
        "tag": JobFilter(conditions=[parse_condition("tags==many", COLUMNS)]),
    }
    for name, filters in cases.items():
        plans = list_plans(w.editor, w.workspace, filters)
        assert plans, name
        assert [plan for plan in plans if {"Sort", "Hash Join"} & plan] == [], name


@pytest.mark.parametrize("deleted", [False, True])
def test_no_page_of_the_jobs_of_all_workspaces_is_sorted(w: World, deleted: bool) -> None:
    """PostgreSQL may sort those of one moment (incremental sort), not all jobs."""
    if deleted:
        delete_jobs(w)
    for filters in (JobFilter(), JobFilter(states=["succeeded"])):
        plans = list_plans(w.platform_admin, None, filters)
        assert plans and not any({"Sort", "Hash Join"} & plan for plan in plans), filters


def test_the_work_of_queues_is_counted_without_the_jobs_that_succeeded(w: World) -> None:
    jobs.job(w.queue, w.editor, "waiting", state=JobState.QUEUED)
    since = clock.now() - timedelta(days=30)
    with CaptureQueriesContext(connection) as sent:
        found = queues_work(viewer=w.platform_admin, queues=[w.queue], failed_since=since)[w.queue.pk]
    assert (found.waiting, found.running, found.failed) == (1, 0, 0)
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sent.captured_queries[-1]['sql']}")
        read = cursor.fetchone()[0]
    plan = (json.loads(read) if isinstance(read, str) else read)[0]["Plan"]
    assert most_rows(plan) <= COUNT // 3 + 1


def test_deleted_jobs_are_neither_listed_nor_counted_as_failed(w: World) -> None:
    since = clock.now() - timedelta(days=30)
    Job.unscoped.filter(state=JobState.FAILED).update(finished_at=clock.now())
    failed = Job.unscoped.filter(state=JobState.FAILED).count()
    assert queue_work(viewer=w.editor, workspace=w.workspace, failed_since=since)[w.queue.pk].failed == failed
    delete_jobs(w)
    assert queue_work(viewer=w.editor, workspace=w.workspace, failed_since=since)[w.queue.pk].failed == 0
    page = job_list(viewer=w.editor, workspace=w.workspace, limit=200)
    assert {item.state for item in page.items} == {JobState.SUCCEEDED}
    gone = job_list(viewer=w.editor, workspace=w.workspace, filters=JobFilter(deleted=True), limit=200)
    assert {item.state for item in gone.items} == {JobState.FAILED}
