"""Users of one queue take turns by what they used lately, and the past fades with its half-life."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine

from foundation.core import clock
from scheduling.engine_input.config import user_shares
from scheduling.models import Job, JobState, UserUsage
from scheduling.services.cycle import cycle_run
from scheduling.services.user_usage import user_usage_sample
from tenants.models import Role, User
from tests.builders import jobs, tenancy
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db

HALF_LIFE = timedelta(seconds=user_shares().half_life_s)


def cores(user: User) -> float:
    return float(UserUsage.unscoped.get(user=user).consumed.get("gpu.cores", 0.0))


def test_use_rises_towards_what_is_held_and_fades_by_half() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        job = stage.submit("steady", jobs.RoleOf(cards=8), run_s=100_000)
        cycle_run(cell_id=stage.cell.pk)
        assert cores(stage.user) == 0  # counted from its admission on

        traveller.shift(HALF_LIFE)
        user_usage_sample(now=clock.now())
        assert cores(stage.user) == pytest.approx(400)
        traveller.shift(HALF_LIFE)
        user_usage_sample(now=clock.now())
        assert cores(stage.user) == pytest.approx(600)
        user_usage_sample(now=clock.now())  # twice at the same moment counts once
        assert cores(stage.user) == pytest.approx(600)

        job.refresh_from_db()
        stage.queue.user_shares = False
        stage.queue.save()
        traveller.shift(HALF_LIFE)
        user_usage_sample(now=clock.now())  # the queue no longer counts what is held
        assert cores(stage.user) == pytest.approx(300)


def test_a_user_who_is_forgotten_leaves_no_row() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage()
        UserUsage.unscoped.create(
            queue=stage.queue, user=stage.user, at=clock.now(), consumed={"gpu.cores": 800.0}
        )
        traveller.shift(30 * HALF_LIFE)
        user_usage_sample(now=clock.now())
        assert not UserUsage.unscoped.exists()


def two_users(stage: Stage) -> tuple[Job, Job]:
    """Return a job of a whole node of each of two users; the heavy user came first and has used a lot."""
    other = tenancy.user("eve", stage.queue.workspace, Role.EDITOR)
    UserUsage.unscoped.create(
        queue=stage.queue, user=stage.user, at=clock.now(), consumed={"gpu.cores": 100.0}
    )
    heavy = stage.submit("heavy", jobs.RoleOf(cards=8), jobs.RoleOf(name="b", cards=8))
    light = jobs.job(
        stage.queue, other, "light", roles=[jobs.RoleOf(cards=8), jobs.RoleOf(name="b", cards=8)]
    )
    return heavy, light


@pytest.mark.parametrize("counted", [True, False])
def test_the_user_who_used_less_goes_first_where_the_queue_counts_users(counted: bool) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False):
        stage = Stage()
        stage.queue.user_shares = counted
        stage.queue.save()
        heavy, light = two_users(stage)

        cycle_run(cell_id=stage.cell.pk)

        first, second = (light, heavy) if counted else (heavy, light)
        assert (state(first), state(second)) == (JobState.ADMITTED, JobState.QUEUED)


def test_many_jobs_give_a_user_no_larger_part() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Stage(cards=8)
        many = [stage.submit(f"many-{i}", jobs.RoleOf(cards=2)) for i in range(8)]
        other = tenancy.user("eve", stage.queue.workspace, Role.EDITOR)
        few = [jobs.job(stage.queue, other, f"few-{i}", roles=[jobs.RoleOf(cards=2)]) for i in range(2)]

        cycle_run(cell_id=stage.cell.pk)

        admitted = Job.unscoped.filter(state=JobState.ADMITTED)
        assert admitted.filter(pk__in=[job.pk for job in few]).count() == 2
        assert admitted.filter(pk__in=[job.pk for job in many]).count() == 2
        traveller.shift(1)
