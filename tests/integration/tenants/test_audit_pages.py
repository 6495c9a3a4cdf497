"""A page of audit records that match a text is found among the newest ones, as long as they fill it."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from foundation.audit.audit_log import DONE
from foundation.core import clock
from foundation.models import AuditRecord
from foundation.sql import keyset
from foundation.web.listing import parse_condition
from tenants.models import User
from tenants.selectors.audit import COLUMNS, AuditFilter, audit_page, audit_query
from tests.builders import tenancy
from tests.fixtures.postgres import PostgresServer


def add_records(count: int) -> User:
    """Add records of ten users in turn, several at each moment; returns a user who may read them."""
    now = clock.now()
    AuditRecord.unscoped.bulk_create(
        (
            AuditRecord(
                created_at=now - timedelta(seconds=number // 3),
                actor_name=f"user-{number % 10}",
                action="job.submit",
                entity="job",
                entity_id=str(number),
                before={},
                after={},
                result=DONE,
                address="",
                request_id="",
            )
            for number in range(count)
        ),
        batch_size=5_000,
    )
    return tenancy.platform_admin("auditor")


def filters_of(text: str) -> AuditFilter:
    return AuditFilter(conditions=[parse_condition(text, COLUMNS)])


def read_all(viewer: User, filters: AuditFilter, limit: int) -> list[str]:
    """The records of all pages."""
    found, cursor = [], None
    while True:
        records = audit_query(viewer=viewer, filters=filters)
        page, cursor = audit_page(records, cursor=cursor, limit=limit)
        found += [record.entity_id for record in page]
        if cursor is None:
            return found


@pytest.mark.django_db
@pytest.mark.parametrize("near", [1, 7, 30, 1_000])
@pytest.mark.parametrize("text", ["actor=@user-3", "actor=@nobody", "actor=@user"])
def test_pages_are_those_of_the_whole_audit(monkeypatch: pytest.MonkeyPatch, near: int, text: str) -> None:
    viewer = add_records(100)
    filters = filters_of(text)
    ordered = audit_query(viewer=viewer, filters=filters).order_by("-created_at", "-pk")
    monkeypatch.setattr(keyset, "_NEAR", near)
    assert read_all(viewer, filters, limit=4) == [record.entity_id for record in ordered]


@pytest.mark.server
def test_a_frequent_text_is_found_without_sorting_all_records(on_postgres: PostgresServer) -> None:
    viewer = add_records(20_000)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    with CaptureQueriesContext(connection) as sent:
        page, following = audit_page(
            audit_query(viewer=viewer, filters=filters_of("actor=@user-3")), cursor=None, limit=50
        )
    assert len(page) == 50 and following
    pages = [query["sql"] for query in sent.captured_queries if "UPPER" in query["sql"]]
    assert len(pages) == 1
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {pages[0]}")
        found = cursor.fetchone()[0]
    plan = (json.loads(found) if isinstance(found, str) else found)[0]["Plan"]
    assert count_read(plan) <= keyset._NEAR + 10


def count_read(plan: dict[str, Any]) -> int:
    """Return how many rows the scans of a plan have read from the table."""
    read = plan["Actual Rows"] + plan.get("Rows Removed by Filter", 0) if plan.get("Relation Name") else 0
    return int(read * plan["Actual Loops"]) + sum(count_read(part) for part in plan.get("Plans", []))
