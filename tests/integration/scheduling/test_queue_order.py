"""The positions that pages show are the order in which the engine considers the jobs."""

from __future__ import annotations

import random
import uuid
from datetime import timedelta

import pytest

from foundation.core import clock
from quotas.models import Queue, Strategy
from scheduling import snapshots
from scheduling.engine import model as em
from scheduling.engine.actions.queue_cursor import QueueCursor
from scheduling.engine.cycle import start_session
from scheduling.engine_input.config import engine_config
from scheduling.engine_input.job_history import claim_content
from scheduling.models import Allocation, Claim, Job, JobState, UserUsage
from scheduling.selectors.jobs.job import job_position
from scheduling.selectors.jobs.row import job_rows
from scheduling.selectors.pending.queue_order import read_queue_order
from tests.builders import jobs, tenancy
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


def _fill(here: World, draw: random.Random) -> None:
    """Pending jobs of several users, none like another; some users have used something, some hold GPUs."""
    users = [tenancy.user(f"user-{number}", None) for number in range(5)]
    now = clock.now()
    for user in users[:4]:
        UserUsage.unscoped.create(
            queue=here.queue, user=user, at=now - timedelta(minutes=draw.randint(0, 4)),
            consumed={"gpu.cores": draw.choice((0.0, 50.0, 120.0)), "cpu": draw.choice((0.0, 4000.0))},
        )  # fmt: skip
    for user, node in zip(draw.sample(users, 2), here.nodes, strict=False):
        held = jobs.job(here.queue, user, roles=[jobs.RoleOf(cards=draw.randint(0, 2))])
        jobs.allocate(held, node)
        Allocation.unscoped.filter(task__job=held).update(charge={"gpu.cores": 100, "cpu": 2000})
        Job.unscoped.filter(pk=held.pk).update(admitted_at=now - timedelta(minutes=draw.randint(0, 8)))
    for number in range(24):
        made = jobs.job(
            here.queue, draw.choice(users), roles=[jobs.RoleOf(cpu=1000 + number)],
            priority=jobs.priority_class(*draw.choice((("normal", 0), ("high", 100)))),
            submitted_at=now - timedelta(minutes=draw.randint(1, 6)),
        )  # fmt: skip
        if draw.random() < 0.1:
            claim = em.Claim(job=str(made.pk), allocations=(), leaving=(), until=em.Instant(0))
            Claim.unscoped.create(job=made, content=claim_content(claim), expires_at=now)


def _engine_order(queue: Queue) -> list[uuid.UUID]:
    """The pending jobs in the order in which a cycle that begins now would take them."""
    snapshot = snapshots.cell_snapshot(queue.cell_id).snapshot
    session = start_session(snapshot, engine_config(), em.Instant(clock.now().timestamp()))
    cursor = QueueCursor(session, snapshot.queues[str(queue.pk)])
    return [uuid.UUID(job.id) for job in cursor.remaining_candidates()]


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("seed", range(4))
def test_positions_are_the_order_of_the_engine(seed: int, strategy: Strategy, *, shares: bool) -> None:
    here = world()
    _fill(here, random.Random(seed))
    Queue.unscoped.filter(pk=here.queue.pk).update(strategy=strategy, user_shares=shares)
    here.queue.refresh_from_db()

    order = _engine_order(here.queue)

    assert len(order) == 24
    assert list(read_queue_order([here.queue.pk]).jobs.values_list("pk", flat=True)) == order
    pending = list(Job.unscoped.filter(queue=here.queue, state=JobState.QUEUED).select_related("workspace"))
    rows = job_rows(viewer=here.viewer, jobs=pending)
    assert [rows[pk].position for pk in order] == list(range(1, 25))
    for job in pending:
        shown = job_position(job=job)
        assert shown is not None
        assert order[shown.position] == job.pk
        assert shown.cards_ahead == shown.position, "each job before it asks for one GPU"
        assert shown.waiting == 24


def test_a_list_of_some_jobs_shows_their_places_among_all() -> None:
    here = world()
    now = clock.now()
    first, _second, third = (
        jobs.job(here.queue, here.editor, submitted_at=now - timedelta(minutes=ago)) for ago in (3, 2, 1)
    )
    assert read_queue_order([here.queue.pk]).find_places([third.pk, first.pk]) == {first.pk: 1, third.pk: 3}
