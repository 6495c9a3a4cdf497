"""The pages about replays: their list, the form of a new one, progress and result."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape

import pytest
from django.test import Client

from foundation.core import clock
from scheduling.models import PolicyReplay, SimulationState
from tenants.models import Role
from tests.builders import jobs, quotas, replays, tenancy
from tests.builders.world import World, world


@pytest.fixture
def w(db: None) -> World:
    return world()


def read(client: Client, address: str, status: int = 200) -> str:
    answer = client.get(address)
    assert answer.status_code == status
    return words(answer.content.decode())


def words(page: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", page)).split())


def test_a_result_says_what_happened_what_is_simulated_and_what_is_not(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)
    made = replays.replay(w.cell, team=str(w.workspace.pk))

    shown = read(client, f"/ops/replays/{made.pk}")

    assert "Sharing of unused quota: Classical" in shown
    # Totals: as measured, as recorded, with the change; a lower bound has no difference.
    assert "Wait, median 10 min 10 min 10 min 0" in shown
    assert "Wait, 90th percentile ≥ 2 h ≥ 2 h ≥ 2 h –" in shown
    assert "Allocation rate 25.0 % 25.0 % 25.0 % 0" in shown
    assert f"{w.workspace.name} 4 10 min → 1 min measured 10 min" in shown
    assert "1 job whose end isn't known" in shown
    assert "Users don't react" in shown
    assert 'data-chart="replay-allocation"' in client.get(f"/ops/replays/{made.pk}").content.decode()
    assert "classical" in read(client, "/ops/replays")


def test_a_difference_of_rates_is_in_points_and_no_line_is_about_no_job(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)
    made = replays.replay(w.cell)
    made.result["changed"]["allocation_rate"], made.result["running_on"] = 0.2, 0
    made.result["recorded"]["total"]["jobs"] = 1323
    made.save()

    shown = read(client, f"/ops/replays/{made.pk}")

    assert "Allocation rate 25.0 % 25.0 % 20.0 % −5.0 points worse" in shown
    assert "1,323 jobs submitted in the period" in shown
    assert "whose end isn't known" not in shown


def test_a_replay_is_started_in_the_form_and_canceled_and_deleted(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)
    now = clock.now()
    jobs.job(w.queue, w.editor, submitted_at=now - timedelta(hours=3))
    typed = {
        "begin_at": f"{now - timedelta(hours=6):%Y-%m-%dT%H:%M}",
        "end_at": f"{now - timedelta(hours=1):%Y-%m-%dT%H:%M}",
    }
    node = quotas.quota_node(w.cell, w.workspace)
    quota = {"node": str(node.pk), "quota_pool": str(w.flavor.pk), "gpus": "16", "on_top": "on"}
    pool = {"pool": str(w.flavor.pk), "pool_nodes": "4"}
    policy = {
        "sharing": "classical",
        "queue": str(w.queue.pk),
        "backfill": "false",
        "strategy": "strict-fifo",
    }

    answer = client.post("/ops/replays/new", typed | quota | pool | policy)

    made = PolicyReplay.unscoped.get()
    assert answer.status_code == 302 and answer["Location"] == f"/ops/replays/{made.pk}"
    shown = read(client, f"/ops/replays/{made.pk}")
    for line in (
        "Sharing of unused quota: Classical",
        "Team A / default: Backfill: No",
        "Team A / default: Queueing strategy: Strict FIFO",
        "in a100: 16 GPUs",
        "Pool a100: 4 nodes",
        "Pending: one simulation is computed at a time.",
        # A period that ends today names the day of both moments.
        f"{now - timedelta(hours=6):%m-%d %H:%M} – {now - timedelta(hours=1):%m-%d %H:%M}",
    ):
        assert line in shown, line
    PolicyReplay.unscoped.update(state=SimulationState.RUNNING, progress=420)
    part = client.get(f"/ops/replays/{made.pk}/live").content.decode()
    assert "Running: 42 %" in part and 'class="tag' in part, "the state is refreshed with the progress"
    shown = client.get(f"/ops/replays/{made.pk}").content.decode()
    assert shown.count('class="tag') == 1, "and stands nowhere else, where it would stay as it was"
    client.post(f"/ops/replays/{made.pk}", {"do": "cancel"})
    assert "Canceled" in read(client, f"/ops/replays/{made.pk}")
    client.post(f"/ops/replays/{made.pk}", {"do": "delete"})
    assert not PolicyReplay.unscoped.exists()
    assert "No replays" in read(client, "/ops/replays")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ({}, "Change at least one setting"),
        ({"sharing": "classical", "end_at": "2000-01-02T00:00"}, "Select a period in the past"),
        ({"gpus": "8"}, "Select one."),
        ({"pool_nodes": "8"}, "Select one."),
    ],
)
def test_a_wrong_form_says_what_is_missing(
    client: Client, w: World, typed: dict[str, str], expected: str
) -> None:
    client.force_login(w.platform_admin)
    now = clock.now()
    jobs.job(w.queue, w.editor, submitted_at=now - timedelta(hours=3))
    period = {"begin_at": f"{now - timedelta(hours=6):%Y-%m-%dT%H:%M}", "end_at": f"{now:%Y-%m-%dT%H:%M}"}

    answer = client.post("/ops/replays/new", period | typed)

    assert answer.status_code == 400
    assert expected in words(answer.content.decode())
    assert not PolicyReplay.unscoped.exists()


@pytest.mark.parametrize("state", [SimulationState.DONE, SimulationState.FAILED, SimulationState.CANCELED])
def test_the_progress_of_a_replay_that_has_ended_loads_its_page_again(
    client: Client, w: World, state: SimulationState
) -> None:
    client.force_login(w.platform_admin)
    made = replays.replay(w.cell, state=state)
    answer = client.get(f"/ops/replays/{made.pk}/live")
    assert (answer.status_code, answer["Location"]) == (302, f"/ops/replays/{made.pk}")


def test_what_was_simulated_before_a_failure_is_shown_without_the_change(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)
    made = replays.replay(w.cell, team=str(w.workspace.pk))
    del made.result["changed"]
    made.state, made.error = SimulationState.FAILED, "TOO_LONG"
    made.save()

    shown = read(client, f"/ops/replays/{made.pk}")

    assert "4 minutes of CPU time or 20 minutes in total" in shown
    assert "that of the change isn't: it has no figures" in shown
    assert "Wait, median 10 min 10 min – –" in shown
    assert "Preemptions 2 2 – –" in shown
    assert "Allocation rate 25.0 % 25.0 % – –" in shown
    assert f"{w.workspace.name} 4 10 min → – measured 10 min" in shown


def test_an_error_is_said_in_words_and_viewers_of_the_platform_only_read(client: Client, w: World) -> None:
    made = replays.replay(w.cell, state=SimulationState.FAILED, error="TOO_LONG")
    client.force_login(tenancy.user("vic", None, Role.PLATFORM_VIEWER))
    shown = client.get(f"/ops/replays/{made.pk}").content.decode()
    assert "4 minutes of CPU time or 20 minutes in total" in shown
    assert 'value="delete"' not in shown
    assert client.get("/ops/replays/new").status_code == 403
    client.force_login(w.admin)
    assert client.get(f"/ops/replays/{made.pk}").status_code == 403
