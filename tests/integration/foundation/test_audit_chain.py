"""The audit chain verifies, it names the first break, and PostgreSQL lets no role break it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from django.core.management import call_command
from django.db import ProgrammingError, connection, transaction

from foundation.audit import audit_log, chain
from foundation.audit.chain import Break
from foundation.core.actor import SYSTEM
from foundation.models import AuditRecord, AuditSeal
from tests.fixtures.postgres import PostgresServer


def write(count: int = 1) -> list[AuditRecord]:
    return [
        audit_log.record_action(
            SYSTEM, "job.submit", entity="job", entity_id=str(number), after={"share": 0.1, "名": "值"}
        )
        for number in range(count)
    ]


@pytest.fixture
def unguarded(db: None) -> Iterator[None]:
    """Disable the triggers that guard the tables, as a superuser can."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        yield
        cursor.execute("RESET session_replication_role")


@pytest.mark.django_db
def test_what_was_written_holds_and_grows() -> None:
    assert (chain.verify_chain().sealed, chain.verify_chain().broken) == (0, None)
    write(3)
    assert chain.verify_chain().unsealed == 3

    assert chain.seal_records(limit=2) == 2
    assert chain.seal_records() == 1
    write(1)
    assert (chain.seal_records(), chain.seal_records()) == (1, 0)

    verdict = chain.verify_chain()
    assert (verdict.sealed, verdict.broken, verdict.unsealed) == (4, None, 0)
    assert verdict.head == f"4:{AuditSeal.unscoped.get(number=4).hash}"


@pytest.mark.usefixtures("unguarded")
def test_a_record_of_a_transaction_that_ended_late_is_sealed_then() -> None:
    first, second = write(2)
    moved = AuditRecord.unscoped.filter(pk=first.pk)
    late = moved.get()
    moved.delete()
    chain.seal_records()
    late.save(force_insert=True)

    assert chain.seal_records() == 1
    assert chain.verify_chain().broken is None
    assert list(AuditSeal.unscoped.order_by("number").values_list("record_id", flat=True)) == [
        second.pk,
        first.pk,
    ]


@pytest.mark.usefixtures("unguarded")
@pytest.mark.parametrize(
    "column", ["actor_name", "action", "entity_id", "tenant_id", "before", "after", "result", "created_at"]
)
def test_the_first_changed_record_is_named(column: str) -> None:
    records = write(4)
    chain.seal_records()
    other = {
        "tenant_id": records[0].pk,
        "before": {"a": 1},
        "after": {},
        "created_at": records[0].created_at,
    }

    for row in records[2:]:
        AuditRecord.unscoped.filter(pk=row.pk).update(**{column: other.get(column, "else")})

    verdict = chain.verify_chain()
    assert (verdict.sealed, verdict.broken) == (2, Break(3, str(records[2].pk), "CHANGED"))


@pytest.mark.usefixtures("unguarded")
def test_what_is_missing_is_named() -> None:
    records = write(4)
    chain.seal_records()
    head = chain.verify_chain().head

    AuditRecord.unscoped.filter(pk=records[1].pk).delete()
    assert chain.verify_chain().broken == Break(2, str(records[1].pk), "MISSING_RECORD")
    AuditSeal.unscoped.filter(number=1).delete()
    assert chain.verify_chain().broken == Break(1, "", "MISSING_SEAL")
    AuditSeal.unscoped.all().delete()
    assert chain.verify_chain().broken is None, "an end that was cut off shows only against a noted head"
    number, _, seal = head.partition(":")
    assert chain.verify_chain((int(number), seal)).broken == Break(1, "", "MISSING_SEAL")


@pytest.mark.usefixtures("unguarded")
def test_the_command_reports_the_break_and_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = write(2)[1]
    out = tmp_path / "out.json"

    call_command("audit_verify", "--json", str(out))
    verdict = json.loads(out.read_text())
    assert (verdict["sealed"], verdict["broken"]) == (2, None)
    call_command("audit_verify", "--expect", verdict["head"])
    AuditRecord.unscoped.filter(pk=record.pk).update(action="job.cancel")
    with pytest.raises(SystemExit) as ended:
        call_command("audit_verify")

    assert ended.value.code == 1
    assert f"BROKEN at seal 2: record {record.pk}: CHANGED" in capsys.readouterr().out


@pytest.mark.server
def test_postgresql_refuses_to_change_or_remove(on_postgres: PostgresServer) -> None:
    write(1)
    chain.seal_records()

    for table in ("foundation_auditrecord", "foundation_auditseal"):
        column = "action" if table.endswith("record") else "hash"
        for statement in (f"UPDATE {table} SET {column} = ''", f"DELETE FROM {table}", f"TRUNCATE {table}"):
            with (
                pytest.raises(ProgrammingError, match="append-only"),
                transaction.atomic(),
                connection.cursor() as cursor,
            ):
                cursor.execute(statement)
    assert chain.verify_chain().broken is None


@pytest.mark.server
def test_many_writers_and_sealers_make_one_chain(on_postgres: PostgresServer) -> None:
    def work(number: int) -> None:
        try:
            for _ in range(10):
                write(1) if number % 2 else chain.seal_records()
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    chain.seal_records()

    verdict = chain.verify_chain()
    assert (verdict.sealed, verdict.broken, verdict.unsealed) == (40, None, 0)
