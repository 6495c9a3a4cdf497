"""What a viewer reads of jobs."""

from __future__ import annotations

from datetime import timedelta

import pytest

from foundation.core import clock
from foundation.core.errors import NotFound, PermissionDenied
from scheduling.models import JobState
from scheduling.selectors.jobs.job import count_live_jobs, job_get, job_list, job_position
from scheduling.selectors.jobs.job_filter import JobFilter
from tenants.models import Role
from tests.builders import jobs, tenancy
from tests.builders.world import World, world


@pytest.fixture
def w(db: None) -> World:
    return world()


def test_the_whole_platform_is_for_those_who_may_see_it(w: World) -> None:
    jobs.job(w.queue, w.editor)
    jobs.job(w.other_queue, w.outsider)

    assert len(job_list(viewer=w.platform_admin).items) == 2
    with pytest.raises(PermissionDenied):
        job_list(viewer=w.editor)
    with pytest.raises(NotFound):
        job_list(viewer=w.editor, workspace=w.other_workspace)


def test_an_auditor_sees_tenants_but_no_jobs(w: World) -> None:
    auditor = tenancy.user("audrey", None, Role.AUDITOR)

    with pytest.raises(PermissionDenied):
        job_list(viewer=auditor, workspace=w.workspace)


def test_pending_jobs_and_those_that_hold_quota_are_live(w: World) -> None:
    assert count_live_jobs(viewer=w.viewer, workspace=w.workspace) == 0
    for state in JobState:
        jobs.job(w.queue, w.editor, state=state)
        jobs.job(w.other_queue, w.outsider, state=state)
    jobs.job(w.other_queue, w.outsider, state=JobState.QUEUED)

    # The counts differ, so that one of them is wrong if the jobs of another workspace are counted.
    assert count_live_jobs(viewer=w.viewer, workspace=w.workspace) == len(JobState) - 4
    assert count_live_jobs(viewer=w.outsider, workspace=w.other_workspace) == len(JobState) - 3
    with pytest.raises(NotFound):
        count_live_jobs(viewer=w.viewer, workspace=w.other_workspace)


def test_of_several_jobs_with_a_name_the_live_one_is_meant(w: World) -> None:
    old = clock.now() - timedelta(hours=1)
    jobs.job(w.queue, w.editor, "train", state=JobState.FAILED, submitted_at=old)
    live = jobs.job(w.queue, w.editor, "train")

    assert job_get(viewer=w.viewer, workspace=w.workspace, ref="train") == live


def test_position_counts_higher_priority_first_and_then_who_came_first(w: World) -> None:
    at = clock.now()
    high = jobs.priority_class("high", 100)
    mine = jobs.job(w.queue, w.editor, submitted_at=at)
    jobs.job(w.queue, w.editor, submitted_at=at - timedelta(minutes=1))
    jobs.job(w.queue, w.editor, submitted_at=at + timedelta(minutes=1), priority=high)
    jobs.job(w.queue, w.editor, submitted_at=at + timedelta(minutes=1))
    jobs.job(w.queue, w.editor, state=JobState.RUNNING)
    jobs.job(w.other_queue, w.outsider, submitted_at=at - timedelta(minutes=1))

    position = job_position(job=mine)

    assert position is not None
    assert (position.position, position.waiting, position.cards_ahead) == (2, 4, 2)


def test_paging_by_name_neither_repeats_nor_hides(w: World) -> None:
    for name in ("d", "a", "c", "b"):
        jobs.job(w.queue, w.editor, name)
    seen: list[str] = []
    cursor = None
    while True:
        page = job_list(
            viewer=w.viewer, workspace=w.workspace, filters=JobFilter(), sort="-name", cursor=cursor, limit=3
        )
        seen += [job.name for job in page.items]
        cursor = page.next
        if cursor is None:
            break
    assert seen == ["d", "c", "b", "a"]
