"""Many rows, each with values of its own, in one statement: on both databases, with guards that hold."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.db import DatabaseError, IntegrityError, connection, transaction

from clusters.models import Device
from foundation.sql.bulk import Guard, insert_rows, update_rows
from quotas.models import Queue
from scheduling.models import Attempt, Job, JobEvent, JobState
from tests.builders import clusters, jobs, quotas, tenancy

pytestmark = pytest.mark.django_db
THEN = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)


def cards(count: int) -> list[Device]:
    pool = clusters.flavor(clusters.cluster(clusters.cell()))
    return list(Device.unscoped.filter(node=clusters.node(pool, cards=count)).order_by("index"))


def queue() -> Queue:
    return quotas.queue(clusters.cell(), tenancy.workspace("team-a"))


def some_jobs(count: int) -> list[Job]:
    user, here = tenancy.user("ed"), queue()
    return [jobs.job(here, user, f"job-{number}") for number in range(count)]


def test_each_kind_of_value_arrives_as_it_would_by_saving() -> None:
    made = some_jobs(3)
    values: list[tuple[Any, ...]] = [
        (JobState.RUNNING, THEN, 7, {"a": ["é", None, 1.5]}, True, None),
        (JobState.QUEUED, None, 0, {}, False, 'it\'s 100 %s; \\ "quoted"'),
        (JobState.FAILED, THEN + timedelta(days=1), 2**31 - 1, [], True, ""),
    ]
    names = ("state", "started_at", "failures", "placement", "preemptible", "end_reason")
    with pytest.raises(IntegrityError), transaction.atomic():
        update_rows(Job, names, [(job.pk, *row) for job, row in zip(made, values, strict=True)])
    values[0] = (*values[0][:-1], "TIME_LIMIT")
    rows = [(job.pk, *row) for job, row in zip(made, values, strict=True)]
    assert update_rows(Job, names, rows) == {job.pk for job in made}
    for job, row in zip(made, values, strict=True):
        assert Job.unscoped.values_list(*names).get(pk=job.pk) == row


def test_only_the_named_rows_and_fields_are_written() -> None:
    first, second, third = some_jobs(3)
    update_rows(Job, ["failures"], [(first.pk, 4), (third.pk, 5)])
    found = Job.unscoped.order_by("name").values_list("failures", "version", "name")
    assert list(found) == [(4, 0, "job-0"), (0, 0, "job-1"), (5, 0, "job-2")]
    assert second.failures == 0


def test_a_row_whose_guard_fails_is_the_only_one_left_out() -> None:
    made = some_jobs(3)
    Job.unscoped.filter(pk=made[1].pk).update(version=9)
    guard = Guard(same=("version", "state"), where={"started_at": None, "preemptible": True})
    rows = [(job.pk, JobState.ADMITTED, 1, 0, JobState.QUEUED) for job in made]
    assert update_rows(Job, ["state", "version"], rows, guard=guard) == {made[0].pk, made[2].pk}
    assert Job.unscoped.values_list("state", "version").get(pk=made[1].pk) == ("queued", 9)
    Job.unscoped.filter(pk=made[0].pk).update(preemptible=False)
    rows = [(job.pk, JobState.RUNNING, 2, 1, JobState.ADMITTED) for job in made]
    assert update_rows(Job, ["state", "version"], rows, guard=guard) == {made[2].pk}


def test_amounts_are_added_within_the_capacity_of_each_row() -> None:
    first, second, third, fourth = cards(4)
    Device.unscoped.filter(pk=second.pk).update(cores_granted=60)
    Device.unscoped.filter(pk=fourth.pk).update(cores_foreign=2**31 - 1)
    guard = Guard(where={"healthy": True}, within={"cores_granted": ("cores_capacity", "cores_foreign")})
    rows = [(first.pk, 100, 1), (second.pk, 41, 1), (third.pk, 40, 2), (fourth.pk, 70, 1)]
    done = update_rows(Device, ["cores_granted", "holders"], rows, add=True, guard=guard)
    assert done == {first.pk, third.pk}
    found = Device.unscoped.order_by("index").values_list("cores_granted", "holders")
    assert list(found) == [(100, 1), (60, 0), (40, 2), (0, 0)]
    update_rows(Device, ["cores_granted"], [(first.pk, -30), (third.pk, -40)], add=True)
    assert list(found.all()) == [(70, 1), (60, 0), (0, 2), (0, 0)]


def test_a_constraint_of_the_table_refuses_the_whole_statement() -> None:
    first, second = cards(2)
    with pytest.raises(IntegrityError), transaction.atomic():
        update_rows(Device, ["holders"], [(first.pk, 1), (second.pk, -1)], add=True)
    assert not Device.unscoped.filter(holders__gt=0).exists()


def test_rows_can_be_found_by_another_key() -> None:
    made = some_jobs(2)
    for job in made:
        Attempt.unscoped.create(job=job, number=1, epoch=1, admitted_at=THEN, ended_at=THEN)
        Attempt.unscoped.create(job=job, number=2, epoch=1, admitted_at=THEN)
    rows = [(job.pk, THEN + timedelta(seconds=n)) for n, job in enumerate(made)]
    live = Guard(where={"ended_at": None})
    assert update_rows(Attempt, ["started_at"], rows, key="job", guard=live) == {job.pk for job in made}
    started = dict(Attempt.unscoped.filter(number=2).values_list("job", "started_at"))
    assert started == dict(rows)
    assert not Attempt.unscoped.filter(number=1, started_at__isnull=False).exists()


def test_the_number_of_statements_does_not_grow_with_the_rows(django_assert_num_queries: Any) -> None:
    made = cards(120)
    with django_assert_num_queries(1):
        done = update_rows(Device, ["holders"], [(card.pk, n) for n, card in enumerate(made)])
    assert len(done) == 120
    assert list(Device.unscoped.order_by("index").values_list("holders", flat=True)) == list(range(120))
    with django_assert_num_queries(0):
        assert update_rows(Device, ["holders"], []) == set()


def test_more_rows_than_a_statement_takes_are_written_in_several() -> None:
    made = cards(1100)
    rows = [(card.pk, n, n) for n, card in enumerate(made)]
    assert len(update_rows(Device, ["holders", "cores_capacity"], rows)) == 1100
    assert list(Device.unscoped.order_by("index").values_list("holders", flat=True)) == list(range(1100))


def test_the_same_row_twice_is_refused() -> None:
    (card,) = cards(1)
    with pytest.raises(ValueError, match="twice"):
        update_rows(Device, ["holders"], [(card.pk, 1), (card.pk, 2)])


def test_a_text_that_is_too_long_is_not_cut_short_silently() -> None:
    (job,) = some_jobs(1)
    try:
        with transaction.atomic():
            update_rows(Job, ["end_reason"], [(job.pk, "x" * 41)])
    except DatabaseError:
        assert Job.unscoped.get(pk=job.pk).end_reason == ""
    else:  # SQLite knows no lengths
        assert Job.unscoped.get(pk=job.pk).end_reason == "x" * 41


def test_new_rows_are_what_saving_them_would_have_made() -> None:
    user, here, rank = tenancy.user("ed"), queue(), jobs.priority_class()

    def fresh(name: str, **fields: Any) -> Job:
        return Job(
            workspace=here.workspace, queue=here, name=name, submitted_by=user, priority_class=rank,
            submitted_at=THEN, min_available=1, **fields,
        )  # fmt: skip

    odd = {"placement": {"a": ["é", None, 1.5, {}]}, "end_reason": 'it\'s 100 %s; \\ "quoted"\n'}
    given: list[dict[str, Any]] = [{}, {**odd, "state": JobState.FAILED, "started_at": THEN, "failures": 7}]
    saved = [fresh(f"saved-{number}", **fields) for number, fields in enumerate(given)]
    for job in saved:
        job.save(force_insert=True)
    with time_machine.travel(THEN, tick=False):
        made = [fresh(f"made-{number}", **fields) for number, fields in enumerate(given)]
        insert_rows(made)

    names = [f.attname for f in Job._meta.concrete_fields if f.name not in ("id", "created_at", "name")]
    for one, other in zip(saved, made, strict=True):
        found = [Job.unscoped.values_list(*names).get(pk=job.pk) for job in (one, other)]
        assert found[0] == found[1]
        assert not other._state.adding
    assert set(Job.unscoped.filter(name__startswith="made").values_list("created_at", flat=True)) == {THEN}


def test_keys_of_new_rows_may_come_from_the_database() -> None:
    job = some_jobs(1)[0]
    insert_rows(
        JobEvent(job=job, at=THEN, code=f"code-{number}", numbers={"n": number}) for number in range(3)
    )
    insert_rows([])
    events = JobEvent.unscoped.order_by("id").values_list("code", "numbers", "at", "actor")
    assert list(events) == [(f"code-{number}", {"n": number}, THEN, "") for number in range(3)]


def test_what_a_constraint_or_a_column_does_not_take_is_not_inserted() -> None:
    job = some_jobs(1)[0]
    same = Attempt(job=job, number=1, epoch=1, admitted_at=THEN)
    insert_rows([same])
    with pytest.raises(IntegrityError), transaction.atomic():
        insert_rows([Attempt(job=job, number=2, epoch=1, admitted_at=THEN, id=same.pk)])
    if connection.vendor == "postgresql":
        with pytest.raises(DatabaseError), transaction.atomic():
            insert_rows([JobEvent(job=job, at=THEN, code="x" * 41)])
    assert Attempt.unscoped.count() == 1
