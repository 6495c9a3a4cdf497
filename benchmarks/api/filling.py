"""Writes millions of rows with few statements: random seeds are expanded to jobs, roles and tasks.

Indexes are dropped before and created again afterwards, which is several times as fast as updating them.
Foreign keys are not checked, because every row refers to an existing one. Keys begin with the time, as the
platform's do (UUIDv7), and rows are written in the order of time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from django.db import connection

from scheduling.models import Job, JobRole, Task

# One seed per job: queue, user, submission time and state. The cube gives most jobs to the first queues.
_SEEDS: Final = """
CREATE TEMPORARY TABLE seed AS
SELECT at, p.queue_id, p.workspace_id, person.user_id,
    CASE WHEN fate < %(queued)s THEN 'queued' WHEN fate < %(suspended)s THEN 'suspended'
         WHEN fate < %(running)s THEN 'running' WHEN fate < 0.750 THEN 'succeeded'
         WHEN fate < 0.920 THEN 'failed' ELSE 'cancelled' END AS state,
    (ARRAY['train', 'tune', 'eval', 'sweep', 'embed', 'serve'])[1 + n %% 6] || '-' ||
    (ARRAY['llama', 'resnet', 'bert', 'vit', 'whisper', 'clip', 'gpt'])[1 + n %% 7] || '-' ||
    to_hex(n) AS name,
    class.id AS priority_class_id, md5(n::text) AS chance,
    lpad(to_hex((extract(epoch FROM at) * 1000)::bigint), 12, '0') AS moment
FROM (
    SELECT n, random() AS fate, floor(%(queues)s * power(random(), 3)) AS place,
        1 + floor(%(people)s * power(random(), 2)) AS person,
        now() - power(random(), 2) * interval '365 days' AS at
    FROM generate_series(1, %(jobs)s) n
) draw
JOIN (SELECT row_number() OVER (ORDER BY t.slug, q.name) - 1 AS place, q.id AS queue_id, q.workspace_id
      FROM quotas_queue q JOIN tenants_tenant t ON t.id = q.workspace_id) p USING (place)
JOIN (SELECT row_number() OVER (PARTITION BY tenant_id ORDER BY id) AS person, tenant_id, user_id
      FROM tenants_member WHERE tenant_id IS NOT NULL) person
  ON person.tenant_id = p.workspace_id AND person.person = draw.person
JOIN scheduling_priorityclass class ON class.name = CASE WHEN n %% 20 = 0 THEN 'high' ELSE 'normal' END
ORDER BY at
"""
_SUSPENDED: Final = 0.002
_LIVE: Final = "('queued', 'suspended', 'running')"
_WAITING: Final = "('queued', 'suspended')"


def _key(kind: str) -> str:
    """Return the SQL of the key of a seed's row; `kind`, its fourth group's start, distinguishes tables."""
    return f"(s.moment || '7' || substr(s.chance, 1, 3) || '{kind}' || substr(s.chance, 4, 15))::uuid"


_JOB: Final = {
    "id": _key("8"),
    "created_at": "s.at",
    "workspace_id": "s.workspace_id",
    "queue_id": "s.queue_id",
    "submitted_by_id": "s.user_id",
    "name": "s.name",
    "priority_class_id": "s.priority_class_id",
    "state": "s.state",
    "submitted_at": "s.at",
    "reason": "CASE WHEN s.state = 'queued' THEN 'NO_QUOTA' ELSE '' END",
    "reason_at": "CASE WHEN s.state = 'queued' THEN s.at END",
    "admitted_at": f"CASE WHEN s.state NOT IN {_WAITING} THEN s.at + interval '3 minutes' END",
    "started_at": f"CASE WHEN s.state NOT IN {_WAITING} THEN s.at + interval '4 minutes' END",
    "finished_at": f"CASE WHEN s.state NOT IN {_LIVE} THEN s.at + interval '2 hours' END",
    "end_reason": "CASE s.state WHEN 'failed' THEN 'TASK_FAILED' WHEN 'cancelled' THEN 'CANCELLED' "
    "ELSE '' END",
}
_ROLE: Final = {"id": _key("9"), "created_at": "s.at", "job_id": _JOB["id"]}
_TASK: Final = {
    "id": _key("a"),
    "created_at": "s.at",
    "job_id": _JOB["id"],
    "role_id": _ROLE["id"],
    "state": f"CASE WHEN s.state IN {_WAITING} THEN 'waiting' "
    "WHEN s.state = 'running' THEN 'running' ELSE 'succeeded' END",
}
_TABLES: Final[tuple[tuple[str, Any, dict[str, str]], ...]] = (
    ("jobs", Job, _JOB),
    ("roles", JobRole, _ROLE),
    ("tasks", Task, _TASK),
)


def fill_jobs(
    like: Job,
    *,
    queues: int,
    people: int,
    jobs: int,
    report: Callable[[str], None],
    queued: float = 0.01,
    running: float = 0.01,
) -> None:
    """Write so many jobs like a given one, which has one role with one task.

    `queued` and `running` are the parts of the jobs in these states.
    """
    counts: dict[str, float] = {"queues": queues, "people": people, "jobs": jobs}
    suspended = queued + _SUSPENDED
    parts = {"queued": queued, "suspended": suspended, "running": suspended + running}
    with connection.cursor() as cursor:
        cursor.execute("SET synchronous_commit = off")
        report("drawing jobs")
        cursor.execute(_SEEDS, counts | parts)
        for name, model, own in _TABLES:
            report(f"writing {name}")
            again = _without_indexes(cursor, model._meta.db_table)
            cursor.execute(_copies(model, own), [like.pk])
            for number, statement in enumerate(again, start=1):
                report(f"indexing {name}, {number} of {len(again)}")
                cursor.execute(statement)
        cursor.execute("DROP TABLE seed")
        report("cleaning and counting")
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("CHECKPOINT")


def _without_indexes(cursor: Any, table: str) -> list[str]:
    """Drop the indexes and constraints that slow writing down; return the statements that restore them."""
    cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
    cursor.execute(
        "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index i WHERE indrelid = "
        "%s::regclass AND NOT EXISTS (SELECT 1 FROM pg_constraint c WHERE c.conindid = i.indexrelid)",
        [table],
    )
    found = cursor.fetchall()
    for name, _ in found:
        cursor.execute(f"DROP INDEX {name}")
    return [*(statement for _, statement in found), f"ALTER TABLE {table} ENABLE TRIGGER ALL"]


def _copies(model: Any, own: dict[str, str]) -> str:
    columns = [field.column for field in model._meta.concrete_fields]
    values = ", ".join(own.get(column, f't."{column}"') for column in columns)
    table, names = model._meta.db_table, ", ".join(f'"{column}"' for column in columns)
    key = "id" if model is Job else "job_id"
    return (
        f"INSERT INTO {table} ({names}) SELECT {values} FROM seed s CROSS JOIN {table} t WHERE t.{key} = %s"  # noqa: S608
    )
