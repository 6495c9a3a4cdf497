"""The index of parts of names answers what reading all visible names would."""

from __future__ import annotations

import pytest

from foundation.sql import row_scope
from scheduling.models import Job
from scheduling.selectors.jobs.job import job_list
from scheduling.selectors.jobs.job_filter import JobFilter
from scheduling.selectors.jobs.name_search import jobs_named
from scheduling.selectors.jobs.search import job_find
from tenants.access.row_scope import scope_of
from tenants.models import User
from tests.builders import jobs
from tests.builders.world import World, world
from tests.fixtures.postgres import PostgresServer

pytestmark = pytest.mark.server
NAMES = ("train-llama-1", "train-llama-2", "train-bert-1", "a-100")


@pytest.fixture
def w(on_postgres: PostgresServer) -> World:
    made = world()
    for name in NAMES:
        jobs.job(made.queue, made.editor, name)
    jobs.job(made.other_queue, made.outsider, "train-llama-3")
    return made


def test_a_part_finds_the_names_that_have_it(w: World) -> None:
    def found(part: str) -> set[str]:
        page = job_list(viewer=w.viewer, workspace=w.workspace, filters=JobFilter(name=part))
        return {job.name for job in page.items}

    parts = ("llama", "train", "in-ll", "1", "a", "nothing", "%", "_", "LLAMA", "\\")
    assert {part: found(part) for part in parts} == {
        part: {name for name in NAMES if part.lower() in name} for part in parts
    }


def test_what_many_have_is_left_to_the_list(w: World) -> None:
    assert jobs_named(w.workspace.pk, "train", most=3) is None
    assert len(jobs_named(w.workspace.pk, "train", most=4) or []) == 3


def test_names_of_all_workspaces_are_searched_as_far_as_they_are_in_sight(w: World) -> None:
    def found(who: User, part: str) -> set[str]:
        with row_scope.use_scope(scope_of(who)):
            keys = jobs_named(None, part, most=9)
            return set(Job.unscoped.filter(pk__in=keys or []).values_list("name", flat=True))

    parts = ("llama", "train", "1", "nothing", "%", "_")
    every = (*NAMES, "train-llama-3")
    assert {part: found(w.platform_admin, part) for part in parts} == {
        part: {name for name in every if part in name} for part in parts
    }
    assert found(w.viewer, "llama") == {"train-llama-1", "train-llama-2"}
    assert found(w.outsider, "llama") == {"train-llama-3"}
    assert {job.name for job in job_find(viewer=w.platform_admin, text="LLAMA", limit=9)} == found(
        w.platform_admin, "llama"
    )
    with row_scope.use_scope(row_scope.NOTHING):
        assert jobs_named(None, "llama", most=9) == []


def test_names_of_others_are_not_searched(w: World) -> None:
    found = {}
    for who in (w.viewer, w.outsider, w.platform_admin):
        with row_scope.use_scope(scope_of(who)):
            found[who] = jobs_named(w.workspace.pk, "bert", most=9)
    with row_scope.use_scope(row_scope.NOTHING):
        assert jobs_named(w.workspace.pk, "bert", most=9) == []

    assert [len(found[who] or []) for who in (w.viewer, w.outsider, w.platform_admin)] == [1, 0, 1]
