"""Invariants that PostgreSQL itself checks when a transaction commits, whichever process runs it.

Deferred triggers on every table of holdings compare the sums once per transaction, in the state at its end. A
violation is recorded beside the data and the commit continues: watching must not change what the platform
does.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

from django.db import models

from clusters.models import Device, Node
from quotas.models import LedgerEntry, Queue
from scheduling.models import Allocation, Attempt, DeviceSlice, Job


class Database(Protocol):
    """A connection of Django or of psycopg."""

    def cursor(self) -> Any:
        """Return a cursor that is closed with its block."""


_WATCHED: Final[tuple[type[models.Model], ...]] = (Allocation, DeviceSlice, LedgerEntry, Device, Node)
_TABLES: Final = {model.__name__.lower(): model._meta.db_table for model in (*_WATCHED, Attempt, Job, Queue)}

# Each yields a row, as text, for every sum that is wrong.
_LAWS: Final = """
    SELECT 'ledger ' || coalesce(l.node_id, h.node_id) || ' ' || coalesce(l.resource, h.resource)
        || ': used ' || coalesce(l.used, 0) || ', held ' || coalesce(h.held, 0) AS wrong
    FROM (SELECT * FROM {ledgerentry} WHERE used <> 0) l
    FULL JOIN (
        SELECT q.node_id, a.flavor_id, c.key AS resource, sum(c.value::bigint) AS held
        FROM {allocation} a
        JOIN {attempt} t ON t.id = a.attempt_id
        JOIN {job} j ON j.id = t.job_id
        JOIN {queue} q ON q.id = j.queue_id
        CROSS JOIN jsonb_each_text(a.charge) c
        WHERE a.released_at IS NULL AND c.value <> '0'
        GROUP BY 1, 2, 3
    ) h ON (h.node_id, h.flavor_id, h.resource) = (l.node_id, l.flavor_id, l.resource)
    WHERE l.used IS DISTINCT FROM h.held
    UNION ALL
    SELECT 'card ' || d.uuid || ': granted ' || d.cores_granted || ' %, ' || d.memory_granted || ' MiB, '
        || d.holders || ' holders'
    FROM {device} d
    LEFT JOIN (
        SELECT s.device_id, sum(s.cores) AS cores, sum(s.memory_mib) AS memory, count(*) AS holders
        FROM {deviceslice} s JOIN {allocation} a ON a.id = s.allocation_id
        WHERE a.released_at IS NULL GROUP BY 1
    ) h ON h.device_id = d.id
    WHERE (d.cores_granted, d.memory_granted, d.holders)
        <> (coalesce(h.cores, 0), coalesce(h.memory, 0), coalesce(h.holders, 0))
        OR d.cores_granted > d.cores_capacity OR d.memory_granted > d.memory_capacity
    UNION ALL
    SELECT 'node ' || n.name || ': granted ' || n.cpu_granted || ' m, ' || n.memory_granted || ' MiB'
    FROM {node} n
    LEFT JOIN (
        SELECT node_id, sum(cpu_millicores) AS cpu, sum(memory_mib) AS memory
        FROM {allocation} WHERE released_at IS NULL GROUP BY 1
    ) h ON h.node_id = n.id
    WHERE (n.cpu_granted, n.memory_granted) <> (coalesce(h.cpu, 0), coalesce(h.memory, 0))
    UNION ALL
    SELECT 'task ' || task_id || ' holds ' || count(*) || ' times'
    FROM {allocation} WHERE released_at IS NULL GROUP BY task_id HAVING count(*) > 1
"""
_INSTALL: Final = """
    CREATE TABLE law_broken (at timestamptz DEFAULT clock_timestamp(), wrong text);
    CREATE SEQUENCE law_commits;
    CREATE FUNCTION look_at_laws() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF current_setting('laws.transaction', true) = pg_current_xact_id()::text THEN
            RETURN NULL;
        END IF;
        PERFORM set_config('laws.transaction', pg_current_xact_id()::text, true), nextval('law_commits');
        INSERT INTO law_broken (wrong) SELECT wrong FROM ({laws}) AS every;
        RETURN NULL;
    END $$;
"""
_TRIGGER: Final = """
    CREATE CONSTRAINT TRIGGER laws AFTER INSERT OR UPDATE OR DELETE ON {table}
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION look_at_laws();
"""


def watch_commits(database: Database) -> None:
    """Check every commit from now on, whichever process makes it."""
    triggers = "".join(_TRIGGER.format(table=model._meta.db_table) for model in _WATCHED)
    with database.cursor() as cursor:
        cursor.execute(_INSTALL.format(laws=_LAWS.format(**_TABLES)) + triggers)


def commits_looked_at(database: Database) -> int:
    """Return how many transactions that changed holdings have committed."""
    return int(_one(database, "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM law_commits"))


def assert_every_commit_kept_the_laws(database: Database) -> None:
    """Assert that no transaction ended with a violated invariant."""
    broken = _one(database, "SELECT string_agg(at || ' ' || wrong, E'\\n') FROM law_broken")
    assert broken is None, broken


def _one(database: Database, statement: str) -> Any:
    with database.cursor() as cursor:
        cursor.execute(statement)
        (answer,) = cursor.fetchone()
    return answer
