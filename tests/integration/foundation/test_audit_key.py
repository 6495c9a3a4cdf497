"""Write access to the database without the key cannot change the audit unnoticed."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.conf import LazySettings
from django.core.management import call_command
from django.db import IntegrityError, connection, transaction

from allotment.setup.checks import check_audit_head
from foundation.audit import audit_log, chain, chain_heads
from foundation.audit.chain import Break
from foundation.core.actor import SYSTEM
from foundation.models import AuditRecord, AuditSeal
from foundation.tasks import seal_audit

pytestmark = pytest.mark.usefixtures("keeper", "heads_file")


@pytest.fixture
def keeper(db: None) -> Iterator[None]:
    """Act with every right on the database: triggers are disabled."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        yield
        cursor.execute("RESET session_replication_role")


@pytest.fixture
def heads_file(settings: LazySettings, tmp_path: Path) -> Path:
    settings.ALLOTMENT_AUDIT_HEADS = str(tmp_path / "noted" / "heads")
    return Path(settings.ALLOTMENT_AUDIT_HEADS)


def write(count: int) -> list[AuditRecord]:
    return [
        audit_log.record_action(SYSTEM, "job.submit", entity="job", entity_id=str(n)) for n in range(count)
    ]


def recompute(key: Callable[[str, int, AuditRecord], str]) -> None:
    """Replace every seal by one over the present records."""
    before = ""
    for seal in AuditSeal.unscoped.order_by("number"):
        before = key(before, seal.number, AuditRecord.unscoped.get(pk=seal.record_id))
        AuditSeal.unscoped.filter(pk=seal.pk).update(hash=before)


def plain(before: str, number: int, record: AuditRecord) -> str:
    content = chain._content(record)
    return hashlib.sha256(
        json.dumps([before, number, content], sort_keys=True, separators=(",", ":")).encode()
    ).hexdigest()


@pytest.mark.parametrize(
    "forge",
    [
        plain,
        lambda *made: chain.seal_digest(b"", *made),
        lambda *made: chain.seal_digest(b"guess" * 20, *made),
    ],
    ids=["plain", "empty-key", "other-key"],
)
def test_a_chain_that_was_computed_anew_does_not_verify(
    forge: Callable[[str, int, AuditRecord], str],
) -> None:
    records = write(3)
    chain.seal_records()
    AuditRecord.unscoped.filter(pk=records[1].pk).update(actor_name="somebody else")
    recompute(forge)
    assert chain.verify_chain().broken == Break(1, str(records[0].pk), "CHANGED")


def test_a_seal_of_a_key_that_is_not_configured_is_named() -> None:
    records = write(2)
    chain.seal_records()
    AuditSeal.unscoped.filter(number=2).update(key_id="00000000")
    assert chain.verify_chain().broken == Break(2, str(records[1].pk), "UNKNOWN_KEY")


def test_a_seal_without_a_key_cannot_be_stored() -> None:
    record = write(1)[0]
    with pytest.raises(IntegrityError), transaction.atomic():
        AuditSeal.unscoped.create(number=1, record_id=record.pk, hash="0" * 64, key_id="")


def test_a_key_can_be_replaced_and_old_seals_still_verify(settings: LazySettings) -> None:
    write(2)
    chain.seal_records()
    settings.ALLOTMENT_AUDIT_KEYS = ["n" * 50, *settings.ALLOTMENT_AUDIT_KEYS]
    write(2)
    chain.seal_records()
    assert (chain.verify_chain().sealed, chain.verify_chain().broken) == (4, None)
    assert AuditSeal.unscoped.values("key_id").distinct().count() == 2
    settings.ALLOTMENT_AUDIT_KEYS = settings.ALLOTMENT_AUDIT_KEYS[:1]
    assert chain.verify_chain().broken == Break(
        1, str(AuditSeal.unscoped.get(number=1).record_id), "UNKNOWN_KEY"
    )


def test_the_key_is_not_in_the_database(settings: LazySettings) -> None:
    write(1)
    chain.seal_records()
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        texts = []
        for table in tables:
            cursor.execute(f'SELECT * FROM "{table}"')
            texts.append(str(cursor.fetchall()))
    assert not any(key in text for key in settings.ALLOTMENT_AUDIT_KEYS for text in texts)


def cut(records: list[AuditRecord]) -> None:
    """Remove records and their seals from the end without computing anything: the rest verifies."""
    AuditSeal.unscoped.filter(record_id__in=[record.pk for record in records]).delete()
    AuditRecord.unscoped.filter(pk__in=[record.pk for record in records]).delete()


def test_an_end_that_was_cut_off_is_noticed_and_stays_noticed(heads_file: Path) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        records = write(4)
        seal_audit()
        assert check_audit_head().ok
        cut(records[2:])
        assert chain.verify_chain().broken is None
        for _ in range(3):
            write(2)
            traveller.shift(120)
            seal_audit()
            assert not check_audit_head().ok
    assert len(heads_file.read_text().splitlines()) == 1
    with pytest.raises(SystemExit):
        call_command("audit_verify")


def test_the_head_is_noted_once_a_minute_and_when_it_is_new(heads_file: Path) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        seal_audit()
        assert not heads_file.exists()
        for wait_s, lines in ((0, 1), (5, 1), (70, 2), (70, 3)):
            traveller.shift(wait_s)
            write(1)
            # The time of the file is the machine's, which the test does not move.
            if heads_file.exists():
                os.utime(heads_file, (chain_heads.clock.now().timestamp() - wait_s,) * 2)
            seal_audit()
            assert len(heads_file.read_text().splitlines()) == lines
        seal_audit()
        assert len(heads_file.read_text().splitlines()) == 3


def test_the_command_reads_heads_out_of_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = write(3)
    chain.seal_records()
    log = tmp_path / "worker.log"
    lines = (f'{{"event": "audit head", "head": "{seal}:{row.hash}"}}' for seal, row in _seals().items())
    log.write_text("\n".join(["{}", *lines, "12:34:56 nothing"]))
    call_command("audit_verify", "--heads", str(log))
    cut(records[2:])
    with pytest.raises(SystemExit) as ended:
        call_command("audit_verify", "--heads", str(log))
    assert ended.value.code == 1
    assert "BROKEN: the head 3 was noted earlier and is not in the chain" in capsys.readouterr().out


def test_a_restored_database_is_accepted_once_and_on_record() -> None:
    records = write(3)
    seal_audit()
    cut(records[1:])
    assert not check_audit_head().ok
    call_command("audit_verify", "--accept")
    assert check_audit_head().ok
    seal_audit()
    call_command("audit_verify")
    kept = AuditRecord.unscoped.get(action="audit.accept")
    assert (kept.before["head"].split(":")[0], kept.after["head"].split(":")[0]) == ("3", "1")


def _seals() -> dict[int, Any]:
    return {seal.number: seal for seal in AuditSeal.unscoped.all()}
