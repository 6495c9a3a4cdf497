"""The database adds node time up as plain Python does, to the millisecond, on SQLite and on PostgreSQL."""

from __future__ import annotations

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import combinations
from operator import attrgetter
from typing import Any, Final

import pytest
import time_machine

from foundation.core.months import to_ms
from scheduling.metering.node_time import NodeTime, NodeTimeRow, node_time_rows, sum_node_times
from scheduling.models import Allocation, Attempt
from tenants.models import Tenant
from tests.builders import jobs
from tests.builders.world import World, world
from tests.fixtures.postgres import PostgresServer

NOW: Final = datetime(2026, 4, 20, 12, 0, 0, 123_456, tzinfo=UTC)
KEYS: Final = {
    "workspace_id": "attempt.job.workspace_id",
    "queue_id": "attempt.job.queue_id",
    "user_id": "attempt.job.submitted_by_id",
    "job_id": "attempt.job_id",
    "flavor_id": "flavor_id",
}


def make_jobs() -> World:
    """Jobs of two workspaces with random times, some of them without a fraction of a second."""
    dice = random.Random(7)

    def draw(since: datetime) -> datetime:
        at = since + timedelta(microseconds=dice.randrange(20 * 86_400 * 10**6))
        return at.replace(microsecond=dice.choice([at.microsecond, 0, 999_999, 1000]))

    found = world()
    with time_machine.travel(NOW, tick=False):
        for _ in range(30):
            queue, user = dice.choice([(found.queue, found.editor), (found.other_queue, found.outsider)])
            size = jobs.RoleOf(cards=0, cpu=dice.choice([500, 4000]), memory=dice.randint(1, 900), replicas=2)
            job = jobs.job(queue, user, roles=[size])
            attempt, admitted = jobs.allocate(job, found.nodes[0]), draw(NOW - timedelta(days=40))
            Attempt.unscoped.filter(pk=attempt.pk).update(admitted_at=admitted)
            for held in Allocation.unscoped.filter(attempt=attempt):
                held.granted_at = dice.choice([None, draw(admitted)])
                held.released_at = dice.choice([None, draw(held.granted_at or admitted)])
                held.save(update_fields=["granted_at", "released_at"])
    return found


def add_up(start: int, end: int, by: Sequence[str], **only: Any) -> dict[tuple[Any, ...], NodeTime]:
    """The node time by these ids, from each allocation."""
    sums: dict[tuple[Any, ...], NodeTime] = {}
    for held in Allocation.unscoped.select_related("attempt__job"):
        begin = max(start, to_ms(held.granted_at or held.attempt.admitted_at))
        length = min(end, to_ms(held.released_at or NOW)) - begin
        if length > 0 and all(attrgetter(KEYS[name])(held) in values for name, values in only.items()):
            key = tuple(attrgetter(KEYS[name])(held) for name in by)
            before = sums.get(key, NodeTime())
            cpu, memory = length * held.cpu_millicores, length * held.memory_mib
            sums[key] = NodeTime(before.cpu + cpu, before.memory + memory)
    return sums


@pytest.mark.django_db
def test_sums_are_those_over_each_allocation() -> None:
    check_sums(make_jobs())


@pytest.mark.server
def test_sums_are_the_same_on_postgres(on_postgres: PostgresServer) -> None:
    check_sums(make_jobs())


def check_sums(made: World) -> None:
    month = [to_ms(datetime(2026, number, 1, tzinfo=UTC)) for number in (3, 4, 5)]
    instant = to_ms(Allocation.unscoped.exclude(released_at=None)[0].released_at or NOW)
    periods = [(month[0], month[1]), (month[1], month[2]), (instant, instant + 1), (month[0], instant)]
    for (start, end), by in [(period, by) for period in periods for by in combinations(KEYS, 2)]:
        rows = [NodeTimeRow(tuple(row.keys), row.time) for row in node_time_rows(start, end, by, now=NOW)]
        true = add_up(start, end, by)
        found = {key: NodeTime() for key in true}
        for row in rows:
            before = found[tuple(row.keys)]
            found[tuple(row.keys)] = NodeTime(before.cpu + row.time.cpu, before.memory + row.time.memory)
        assert found == true, (start, end, by)
        assert sum_node_times(rows, 1) == {
            key: time for (key,), time in add_up(start, end, by[1:]).items()
        }, by
    whole = (month[0], month[2])
    mine = {"user_id": [made.editor.pk]}
    narrowed = sum_node_times(node_time_rows(*whole, ["job_id"], now=NOW, **mine))
    assert narrowed
    assert narrowed == {key: time for (key,), time in add_up(*whole, ["job_id"], **mine).items()}
    there = Tenant.unscoped.filter(pk=made.other_queue.workspace_id)
    seen = sum_node_times(node_time_rows(*whole, ["workspace_id"], now=NOW, workspaces=there))
    assert seen.keys() == {made.other_queue.workspace_id}
