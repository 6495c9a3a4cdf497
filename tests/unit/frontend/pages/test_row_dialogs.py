"""The dialogs of one row of a list, which are fetched when one is opened."""

from __future__ import annotations

import re
from typing import Final

import pytest
from django.test import Client

from foundation.core import clock
from scheduling.models import Job, JobState
from tests.builders import jobs
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import page

JOBS: Final = "/w/team-a/jobs"


@pytest.fixture
def w(db: None) -> World:
    return world()


def test_the_dialogs_of_a_job_fit_its_state_and_its_reader(client: Client, w: World) -> None:
    waits = jobs.job(w.queue, w.editor, "<i>&", tags=["base"])
    runs = jobs.job(w.queue, w.admin, "runs")
    jobs.allocate(runs, w.nodes[0])
    ended = jobs.job(w.queue, w.editor, "ended", state=JobState.SUCCEEDED, finished_at=clock.now())

    def found(job: Job, query: str = "who=all") -> set[str]:
        text = page(client, f"{JOBS}?{query}&part=dialogs&row={job.pk}")
        assert text.count("<dialog") == text.count(f'-{job.pk}" aria') and "<html" not in text
        assert text.count("csrfmiddlewaretoken") == text.count("<form")
        return set(re.findall(r'<dialog class="dialog" id="(\w+)-', text))

    client.force_login(w.editor)
    assert (found(waits), found(ended), found(runs)) == (
        {"cancel", "suspend", "tags", "priority"},
        {"tags"},
        set(),
    )
    text = page(client, f"{JOBS}?q=i&sort=name&part=dialogs&row={waits.pk}")
    assert "Cancel &lt;i&gt;&amp;?" in text and "<i>" not in text
    assert "Queue position held for" in text and 'value="base"' in text
    assert f'name="next" value="{JOBS}?q=i&amp;sort=name"' in text
    client.force_login(w.admin)
    assert found(runs) == {"cancel", "suspend", "restart", "tags"}
    client.force_login(w.viewer)
    assert found(waits) == set()


def test_there_are_no_dialogs_of_a_row_out_of_sight(client: Client, w: World) -> None:
    theirs = jobs.job(w.other_queue, w.outsider, "theirs")
    own = jobs.job(w.queue, w.editor, "own")
    client.force_login(w.editor)
    for row in (theirs.pk, "nonsense", ""):
        assert client.get(f"{JOBS}?who=all&part=dialogs&row={row}").status_code == 404
    assert client.get(f"{JOBS}?who=all&q=other&part=dialogs&row={own.pk}").status_code == 404
    assert client.get(f"/w/team-b/jobs?part=dialogs&row={theirs.pk}").status_code == 404
