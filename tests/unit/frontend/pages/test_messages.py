"""The messages of a reader: the bell, the page, and the button on the page of a job."""

from __future__ import annotations

import pytest
from django.test import Client

from alerts.models import JobWatch, UserMessage
from scheduling.models import JobState
from tenants.models import User
from tests.builders import jobs
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import post


@pytest.fixture
def w(db: None) -> World:
    return world()


@pytest.fixture
def viewer(client: Client, w: World) -> Client:
    client.force_login(w.viewer)
    return client


def make_message(w: World, user: User, job: str) -> UserMessage:
    return UserMessage.unscoped.create(
        user=user,
        tenant=w.workspace,
        kind="job",
        event="started",
        facts={"job": job},
        path=f"/w/team-a/jobs/{job}",
        source=job,
    )


def test_unread_messages_are_counted_opened_and_marked(viewer: Client, w: World) -> None:
    assert 'aria-label="Messages"' in viewer.get("/w/team-a/jobs").content.decode()
    empty = viewer.get("/messages?state=all").content.decode()
    assert "No messages" in empty and "Remove a filter" not in empty
    first, second, third = (make_message(w, w.viewer, name) for name in ("one", "two", "three"))
    theirs = make_message(w, w.admin, "theirs")
    assert "Messages, 3 unread" in viewer.get("/w/team-a/jobs").content.decode()
    page = viewer.get("/messages").content.decode()
    assert "one started" in page and "theirs" not in page
    opened = viewer.get(f"/messages/{first.pk}")
    assert opened["Location"] == "/w/team-a/jobs/one"
    assert viewer.get(f"/messages/{theirs.pk}").status_code == 404
    viewer.post("/messages", {"one": f"read {second.pk}"})
    assert "Messages, 1 unread" in viewer.get("/messages/bell").content.decode()
    assert "one started" not in viewer.get("/messages").content.decode()
    assert "one started" in viewer.get("/messages?state=all").content.decode()
    assert "All messages marked as read" in post(viewer, "/messages")
    assert "No unread messages" in viewer.get("/messages").content.decode()
    third.refresh_from_db()
    theirs.refresh_from_db()
    assert third.read_at is not None and theirs.read_at is None


def test_more_than_99_unread_messages_are_not_counted(viewer: Client, w: World) -> None:
    for number in range(101):
        make_message(w, w.viewer, str(number))
    assert "99+" in viewer.get("/messages/bell").content.decode()


def test_a_job_is_watched_from_its_page_and_from_the_list(client: Client, w: World) -> None:
    client.force_login(w.editor)
    job, other = jobs.job(w.queue, w.editor, "train"), jobs.job(w.queue, w.editor, "serve")
    page = f"/w/team-a/jobs/{job.pk}"
    assert "Notify me" in client.get(page).content.decode()
    assert "You&#x27;ll get a message when train starts and ends" in post(client, f"{page}/watch")
    assert "Stop notifying" in client.get(page).content.decode()
    client.post(
        "/w/team-a/job-batch",
        {"batch": "1", "do": "watch", "item": [str(job.pk), str(other.pk)], "confirmed": "1"},
    )
    assert JobWatch.unscoped.filter(user=w.editor).count() == 2
    assert "Notifications about train turned off" in post(client, f"{page}/unwatch")
    job.state = JobState.SUCCEEDED
    job.save(update_fields=["state"])
    assert "Notify me" not in client.get(page).content.decode()
