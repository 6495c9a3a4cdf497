"""Which tests the check repeats on PostgreSQL: every statement is still sent, and doubtful tests stay."""

from __future__ import annotations

from collections import Counter

import pytest
from django.db import Error, connection
from hypothesis import given
from hypothesis import strategies as st

from tenants.selectors.tenant import workspace_get
from tests.builders.world import world
from tests.fixtures.statement_cover import TIMES, Record, choose_tests, fingerprint

SENT = st.sets(st.sampled_from("abcdefghij"))
RECORDS = st.dictionaries(
    st.text("xyz", min_size=1, max_size=4),
    st.builds(Record, st.just(""), SENT, st.booleans(), st.floats(0, 10)),
    max_size=12,
)


@given(records=RECORDS, times=st.integers(1, 3))
def test_every_statement_is_still_sent_as_often_as_wanted(records: dict[str, Record], times: int) -> None:
    for name, record in records.items():
        record.test = name
    kept = choose_tests(records, [*records, "new"], times)
    senders = Counter(sent for record in records.values() for sent in record.sent)
    left = Counter(sent for name in kept & set(records) for sent in records[name].sent)
    assert [sent for sent, count in senders.items() if left[sent] < min(count, times)] == []
    assert {"new", *(name for name, record in records.items() if record.refused)} <= kept


def test_a_test_that_sends_nothing_of_its_own_is_left_out() -> None:
    records = {
        "wide": Record("wide", {"a", "b", "c"}, seconds=1),
        "same": Record("same", {"a", "b", "c"}, seconds=1),
        "third": Record("third", {"a"}, seconds=1),
        "own": Record("own", {"a", "d"}, seconds=9),
    }
    assert choose_tests(records, list(records), 1) in ({"wide", "own"}, {"same", "own"})
    assert choose_tests(records, list(records), TIMES) == {"wide", "same", "own"}


@pytest.mark.django_db
def test_a_statement_is_its_sql_and_who_sends_it() -> None:
    w = world()
    record = Record("")
    with connection.execute_wrapper(record.record_statement):
        workspace_get(viewer=w.admin, slug=w.workspace.slug)
        once = set(record.sent)
        workspace_get(viewer=w.admin, slug=w.workspace.slug)
        assert record.sent == once != set()
        assert not record.refused
        with pytest.raises(Error), connection.cursor() as cursor:
            cursor.execute("SELECT nothing FROM nowhere")
    assert record.refused
    assert fingerprint("f", "SELECT a IN (%s, %s) LIMIT 21") == fingerprint("f", "SELECT a IN (%s) LIMIT 3")
    assert fingerprint("f", "VALUES (%s, %s), (%s, %s)") == fingerprint("f", "VALUES (%s, %s)")
    assert fingerprint("f", "SELECT 1") != fingerprint("g", "SELECT 1")
