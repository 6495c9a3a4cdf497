"""The page of the platform itself: the state of its parts, the database, and unsent messages."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from bs4 import BeautifulSoup
from django.db import connection
from django.test import Client

from clusters.models import Cluster, ClusterHealth
from foundation.core import clock
from foundation.models import Heartbeat, Hint
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


@pytest.fixture
def w() -> World:
    return world()


def read_page(w: World) -> BeautifulSoup:
    client = Client()
    client.force_login(w.platform_admin)
    answer = client.get("/ops/system")
    assert answer.status_code == 200
    return BeautifulSoup(answer.content, "html.parser")


def part(page: BeautifulSoup, key: str) -> list[str]:
    row = page.find(id=f"part-{key}")
    assert row is not None
    return [cell.get_text(" ", strip=True) for cell in row.find_all("td")]


def test_a_part_that_has_stopped_working_is_named_with_its_remedy(w: World) -> None:
    Heartbeat.unscoped.create(name="worker", at=clock.now() - timedelta(seconds=4))
    Heartbeat.unscoped.create(name="relay", at=clock.now() - timedelta(hours=2))
    page = read_page(w)
    assert part(page, "database") == ["Database", "Working", "–", "–"]
    assert part(page, "worker")[:2] == ["Worker", "Working"]
    title, state, last, message = part(page, "relay")
    assert (title, state) == ("Message relay", "Not working")
    assert "2 h ago" in last
    assert re.search(r"72\d\d s ago", message) and "allotment relay" in message
    failed = len(page.find_all(string="Not working"))
    assert f"{failed} checks failed" in page.get_text() or failed == 1


def test_clusters_messages_and_the_database_are_described_as_they_are(w: World) -> None:
    Cluster.unscoped.update(health=ClusterHealth.UNREACHABLE, health_message="connection refused")
    due = clock.now() - timedelta(minutes=3)
    Hint.unscoped.all().delete()
    for number in range(3):
        Hint.unscoped.create(topic="cycle", key=str(number), not_before=due + timedelta(seconds=number))
    Hint.unscoped.create(topic="cycle", key="later", not_before=clock.now() + timedelta(hours=1))
    page = read_page(w)
    assert "Unreachable" in page.find(id="cells").get_text()
    facts = page.find(id="database").get_text(" ", strip=True)
    assert "Unsent messages 3 · 3 min ago" in facts
    with connection.cursor() as cursor:
        if connection.vendor == "sqlite":
            cursor.execute("SELECT sqlite_version()")
        else:
            cursor.execute("SHOW server_version")
        assert cursor.fetchone()[0] in facts
