"""The positions that pages show are the order in which the engine considers the jobs."""

from __future__ import annotations

import random
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters.models import BackendKind, Cluster
from foundation.core import clock
from foundation.core.errors import Conflict, PermissionDenied
from foundation.models import AuditRecord
from quotas.models import Queue, Strategy
from scheduling import snapshots
from scheduling.engine import model as em
from scheduling.engine.actions.queue_cursor import QueueCursor
from scheduling.engine.cycle import start_session
from scheduling.engine_input.config import engine_config
from scheduling.engine_input.job_history import claim_content
from scheduling.models import Allocation, Claim, Job, JobEvent, JobState, UserUsage
from scheduling.selectors.jobs.exchangeable import exchangeable_jobs
from scheduling.selectors.jobs.job import job_position
from scheduling.selectors.jobs.row import job_rows
from scheduling.selectors.pending.queue_order import read_queue_order
from scheduling.services.jobs.job_exchange import exchange_jobs
from tenants.models import User
from tests.builders import jobs, tenancy
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


def _fill(here: World, draw: random.Random) -> None:
    """Create different pending jobs of several users, some with past usage, some with GPUs."""
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
    """Return the pending jobs in the order of a cycle that begins now."""
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


@pytest.mark.parametrize("shares", [True, False])
@pytest.mark.parametrize("strategy", list(Strategy))
@pytest.mark.parametrize("seed", range(3))
def test_a_draft_gets_the_position_at_which_it_waits_once_submitted(
    seed: int, strategy: Strategy, *, shares: bool
) -> None:
    here = world()
    _fill(here, random.Random(seed))
    Queue.unscoped.filter(pk=here.queue.pk).update(strategy=strategy, user_shares=shares)
    here.queue.refresh_from_db()
    for user in (here.editor, *(row.user for row in UserUsage.unscoped.select_related("user")[:2])):
        for name, priority in (("normal", 0), ("high", 100)):
            waiting, before = read_queue_order([here.queue.pk]).count_before_new(
                here.queue.pk, user_id=user.pk, priority=priority
            )

            job = jobs.job(here.queue, user, priority=jobs.priority_class(name, priority))

            order = _engine_order(here.queue)
            assert (waiting, before) == (len(order) - 1, order.index(job.pk))


def test_a_list_of_some_jobs_shows_their_places_among_all() -> None:
    here = world()
    now = clock.now()
    first, _second, third = (
        jobs.job(here.queue, here.editor, submitted_at=now - timedelta(minutes=ago)) for ago in (3, 2, 1)
    )
    assert read_queue_order([here.queue.pk]).find_places([third.pk, first.pk]) == {first.pk: 1, third.pk: 3}


@pytest.mark.parametrize("seed", range(6))
def test_two_jobs_of_a_user_exchange_their_places_and_no_other_moves(seed: int) -> None:
    here, draw = world(), random.Random(seed)
    _fill(here, draw)
    for job in Job.unscoped.filter(queue=here.queue, state=JobState.QUEUED):  # no two at one moment
        at = job.submitted_at - timedelta(seconds=draw.uniform(0, 50))
        Job.unscoped.filter(pk=job.pk).update(submitted_at=at)
    same = clock.now() - timedelta(minutes=9)
    for number in range(3):  # of one request, with one time
        roles = [jobs.RoleOf(cpu=100 + number)]
        jobs.job(here.queue, here.editor, f"same-{number}", roles=roles, submitted_at=same)
    Queue.unscoped.filter(pk=here.queue.pk).update(user_shares=draw.random() < 0.5)
    for _ in range(12):
        order = _engine_order(here.queue)
        rows = {job.pk: job for job in Job.unscoped.filter(pk__in=order)}
        pairs = [
            (first, second)
            for first in order
            for second in order
            if first != second and _is_equivalent(rows[first], rows[second])
        ]
        first, second = draw.choice(pairs)
        others = {pk: row.order_at for pk, row in rows.items() if pk not in (first, second)}
        exchange_jobs(acting_user=here.platform_admin, job=rows[first], other=rows[second])
        expected = [{first: second, second: first}.get(pk, pk) for pk in order]
        assert _engine_order(here.queue) == expected
        assert list(read_queue_order([here.queue.pk]).jobs.values_list("pk", flat=True)) == expected
        changed = {row.pk for row in Job.unscoped.filter(pk__in=others) if row.order_at != others[row.pk]}
        assert all(rows[pk].submitted_at == same for pk in changed), "but those of the same moment"
    assert {row.submitted_at for row in Job.unscoped.filter(name__startswith="same-")} == {same}


def _is_equivalent(one: Job, other: Job) -> bool:
    equivalent = all(getattr(one, name) == getattr(other, name) for name in ("submitted_by_id", "priority"))
    return equivalent and not Claim.unscoped.filter(job__in=[one.pk, other.pk]).exists()


def test_places_are_exchanged_with_own_jobs_alone_and_the_change_is_recorded() -> None:
    here, now = world(), clock.now()

    def pending(name: str, user: User, ago: int, **fields: Any) -> Job:
        roles, at = [jobs.RoleOf(cpu=1000 + 10 * ago + len(name))], now - timedelta(minutes=ago)
        return jobs.job(here.queue, user, name, roles=roles, submitted_at=at, **fields)

    own, later = pending("own-9", here.editor, 9), pending("own-5", here.editor, 5)
    high = pending("high", here.editor, 1, priority=jobs.priority_class("high", 100))
    foreign = pending("foreign", here.admin, 7)
    rests = pending("rests", here.editor, 6, state=JobState.SUSPENDED)
    for other in (high, rests, own):
        with pytest.raises(Conflict):
            exchange_jobs(acting_user=here.editor, job=own, other=other)
    with pytest.raises(PermissionDenied):
        exchange_jobs(acting_user=here.editor, job=own, other=foreign)
    with pytest.raises(Conflict):
        exchange_jobs(acting_user=here.admin, job=own, other=foreign)
    assert exchangeable_jobs(viewer=here.viewer, job=own) == [later]
    own_engine = Cluster.unscoped.filter(pk=here.cluster.pk)
    own_engine.update(backend=BackendKind.KUEUE)
    assert exchangeable_jobs(viewer=here.viewer, job=own) == [], "the scheduler of the cluster orders them"
    with pytest.raises(Conflict, match="own scheduler"):
        exchange_jobs(acting_user=here.editor, job=own, other=later)
    own_engine.update(backend=BackendKind.SIMULATED)

    with CaptureQueriesContext(connection) as asked:
        exchange_jobs(acting_user=here.editor, job=own, other=later)
    assert len(asked) <= 20
    assert _engine_order(here.queue) == [high.pk, later.pk, foreign.pk, own.pk]
    events = {event.job_id: event.numbers for event in JobEvent.unscoped.filter(code="exchanged")}
    assert events == {own.pk: {"other": "own-5"}, later.pk: {"other": "own-9"}}
    audited = AuditRecord.unscoped.get(action="job.exchange")
    assert (audited.actor_name, audited.after) == (here.editor.username, {"name": "own-9", "other": "own-5"})

    # A job that was submitted at the same moment as one of the two would be passed by one of them.
    pending("twin", here.admin, 9)
    own.refresh_from_db()
    with pytest.raises(Conflict, match="same moment"):
        exchange_jobs(acting_user=here.editor, job=own, other=later)
