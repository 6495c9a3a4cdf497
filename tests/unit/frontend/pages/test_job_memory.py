"""Changing the memory of a running slice on the job's page."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.utils import translation

from foundation.core.quantities import Resource
from frontend.pages.jobs.events import event_rows
from quotas.models import LedgerEntry
from scheduling.models import Job, JobEvent, MemoryResize, ResizeState, Task
from tenants.models import Role
from tests.builders import pipeline, tenancy
from tests.builders.stage import Stage, stage_with_slice

pytestmark = pytest.mark.django_db


@pytest.fixture
def stage() -> Stage:
    return stage_with_slice()


def page() -> str:
    return f"/w/team-a/jobs/{Job.unscoped.get().pk}"


def tasks() -> str:
    return f"{page()}?tab=tasks"


def dialog() -> str:
    return f"{page()}/tasks/{Task.unscoped.get().pk}/memory"


def read(client: Client, address: str) -> str:
    answer = client.get(address)
    assert answer.status_code == 200, answer.content[-1500:]
    return answer.content.decode()


def ask(client: Client, memory: Any) -> str:
    answer = client.post(dialog(), {"memory": memory}, follow=True)
    assert answer.redirect_chain == [(tasks(), 302)]
    return answer.content.decode()


def charged() -> int:
    return sum(LedgerEntry.unscoped.filter(resource=Resource.GPU_MEMORY).values_list("reserved", flat=True))


def test_the_dialog_shows_size_and_free_memory_and_that_it_is_experimental(
    client: Client, stage: Stage
) -> None:
    client.force_login(stage.user)
    assert dialog() in read(client, tasks())
    text = read(client, dialog())
    for part in ("Experimental", "8 GiB", "Up to 40 GiB", 'max="40960"', 'value="8192"', "main-0"):
        assert part in text


def test_it_is_requested_followed_and_reported(client: Client, stage: Stage) -> None:
    client.force_login(stage.user)
    text = ask(client, 20_480)
    assert "20 GiB" in text
    assert "Resizing: 8 GiB → 20 GiB" in text
    assert dialog() not in text, "one change at a time"
    assert charged() == 20_480
    pipeline.run_for(stage.cell, stage.cluster, 12)
    text = read(client, page())
    assert dialog() in read(client, tasks())
    assert "GPU memory of main-0 changed from 8 GiB to 20 GiB per GPU" in text


@pytest.mark.parametrize(
    ("memory", "word"), [("x", "whole number"), ("0", "whole number"), ("50000", "A GPU of this model has")]
)
def test_a_refusal_is_said_where_one_is(client: Client, stage: Stage, memory: str, word: str) -> None:
    client.force_login(stage.user)
    assert word in ask(client, memory)
    assert not MemoryResize.unscoped.exists()


def test_no_user_is_offered_what_they_may_not_do(client: Client, stage: Stage) -> None:
    other = tenancy.user("other", stage.queue.node.tenant, Role.EDITOR)
    client.force_login(other)
    assert dialog() not in read(client, tasks())
    assert client.get(dialog()).status_code == 403
    assert client.post(dialog(), {"memory": 9000}).status_code == 403
    client.force_login(tenancy.user("stranger", tenancy.workspace("team-b"), Role.ADMIN))
    assert client.get(dialog()).status_code == 404


def test_where_it_is_off_nothing_is_offered(client: Client, stage: Stage) -> None:
    client.force_login(stage.user)
    stage.cluster.live_resize = False
    stage.cluster.save(update_fields=["live_resize"])
    assert dialog() not in read(client, tasks())
    assert "enabled in cluster" in read(client, dialog())


def test_every_step_has_its_sentence_in_both_languages(stage: Stage) -> None:
    job = Job.unscoped.get()
    numbers = {"role": "main", "index": 0, "from": 8192, "to": 512}
    for code in ("resizing", "resized", "resize_overdue", "resize_refused"):
        event = JobEvent.unscoped.create(job=job, at=job.submitted_at, code=code, actor="ed", numbers=numbers)
        told = []
        for language in ("en", "zh-hans"):
            with translation.override(language):
                (row,) = event_rows.job_event_rows([event])
                told.append(str(row.text))
                assert "512 MiB" in told[-1]
        assert told[0] != told[1]


@pytest.mark.parametrize(
    ("why", "said"),
    [
        ({"code": "BELOW_USE", "message": "its processes use 9 MiB"}, "its processes use 9 MiB"),
        ({"code": "NOT_CONFIRMED", "message": ""}, "Confirmation timed out."),
    ],
)
def test_the_timeline_says_why_it_was_refused(stage: Stage, why: dict[str, str], said: str) -> None:
    job = Job.unscoped.get()
    numbers = {"role": "main", "index": 0, "from": 8192, "to": 512, **why}
    event = JobEvent.unscoped.create(job=job, at=job.submitted_at, code="resize_refused", numbers=numbers)
    (row,) = event_rows.job_event_rows([event])
    assert str(row.text).endswith(said)


def test_what_is_taken_back_is_said(client: Client, stage: Stage) -> None:
    client.force_login(stage.user)
    ask(client, 20_480)
    MemoryResize.unscoped.update(state=ResizeState.TAKING_BACK)
    assert "reverted to 8 GiB (timed out)" in read(client, tasks())
