"""Pages of policies preview the impact of what is selected before it is saved."""

from __future__ import annotations

import pytest
from django.test import Client

from quotas.models import Queue
from quotas.services.queues.queue_settings import SETTINGS
from tests.builders import jobs
from tests.builders.world import World, world


@pytest.fixture
def w(db: None) -> World:
    return world()


def typed(queue: Queue, **changes: str) -> dict[str, str]:
    """The form of a queue as a browser sends it."""
    values = {name: getattr(queue, name) for name in SETTINGS}
    boxes = {name: "on" if value is True else str(value) for name, value in values.items() if value}
    return boxes | {"version": str(queue.version), "flavors": "a100"} | changes


def test_the_page_of_a_queue_previews_settings_and_presets(client: Client, w: World) -> None:
    """A job of 16 GPUs borrows 8: it starts only where borrowing is enabled."""
    client.force_login(w.admin)
    roles = [jobs.RoleOf(cards=8, replicas=2)]
    jobs.job(w.queue, w.editor, "wide-job", roles=roles)
    address = f"/ops/queues/{w.workspace.slug}/{w.queue.name}"

    same = client.post(f"{address}/check", typed(w.queue)).content.decode()
    static = client.post(f"{address}/check", typed(w.queue, allocation_mode="static")).content.decode()
    preset = client.post(f"{address}/check", {"preset": "deterministic"}).content.decode()
    wrong = client.post(f"{address}/check", typed(w.queue, flavors="nowhere")).content.decode()

    assert "These are the current settings." in same
    for shown in (static, preset):
        assert "Jobs that start later" in shown and "wide-job" in shown
    assert "Pool not found" in wrong
    w.queue.refresh_from_db()
    assert w.queue.allocation_mode == "dynamic"
    page = client.get(address).content.decode()
    assert page.count(f"{address}/check") == 3  # For the form, and for the two presets that are not active.


def test_the_page_of_domains_previews_another_sharing(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)
    checked = client.post("/ops/cells/check", {"cell": w.cell.name, "sharing": "classical"}).content.decode()
    assert "Impact of this change" in checked and "Jobs that can start" in checked
    same = client.post("/ops/cells/check", {"cell": w.cell.name, "sharing": "fair"}).content.decode()
    assert "These are the current settings." in same
    assert (
        "Select a kind of sharing." in client.post("/ops/cells/check", {"cell": w.cell.name}).content.decode()
    )
    w.cell.refresh_from_db()
    assert w.cell.sharing == "fair"
