"""Email to a user is in the language that the user last read, whatever language its process has."""

from __future__ import annotations

from typing import Any

import pytest
from django.core import mail
from django.test import Client
from django.utils import translation
from django.utils.translation import trans_real

from alerts.delivery.idle_mail import mail_idle_owners
from alerts.delivery.message_mail import mail_messages
from alerts.models import MessageKind, UserMessage
from foundation.core import clock
from scheduling.models import IdleStretch, JobState
from tenants.models import User
from tests.builders import jobs
from tests.integration.alerts.conftest import Bench

PASSWORD = "Tangerine-orbit-29"


def _send_all(bench: Bench, user: User) -> list[str]:
    """Send one email of each kind; returns their texts."""
    job = jobs.job(bench.world.queue, user, f"train-{UserMessage.unscoped.count()}", state=JobState.RUNNING)
    now = clock.now()
    UserMessage.unscoped.create(
        user=user,
        kind=MessageKind.JOB,
        event="started",
        facts={"job": job.name},
        source=job.name,
        tenant=bench.world.workspace,
        mail_due=True,
    )
    IdleStretch.unscoped.create(
        job=job, attempt_number=job.attempt_number, since=now, seen_at=now, limit_s=9, warn_s=6, warned_at=now
    )
    mail.outbox.clear()
    assert (mail_messages(now), mail_idle_owners(now)) == (1, 1)
    return [f"{sent.subject}\n{sent.body}" for sent in mail.outbox]


def _is_chinese(text: str) -> bool:
    return any("\u4e00" <= letter <= "\u9fff" for letter in text)


@pytest.mark.django_db
def test_email_follows_the_language_of_its_reader(bench: Bench, client: Client, settings: Any) -> None:
    settings.EMAIL_HOST = "mail.example.com"
    user = bench.world.editor
    user.email = "ed@example.com"
    user.set_password(PASSWORD)
    user.save()
    signed_in = {"username": user.username, "password": PASSWORD}
    # By default that of the installation; by the browser at the sign-in; by the choice on a page.
    for act, chinese in (
        (None, False),
        (lambda: client.post("/login", signed_in, headers={"Accept-Language": "zh-hans"}), True),
        (lambda: client.post("/i18n/setlang/", {"language": "en"}), False),
        (lambda: client.post("/i18n/setlang/", {"language": "tlh"}), False),
        (lambda: client.post("/i18n/setlang/", {"language": "zh-hans"}), True),
    ):
        if act is not None:
            assert act().status_code == 302
        user.refresh_from_db()
        for worker in ("en", "zh-hans"):
            with translation.override(worker):
                texts = _send_all(bench, user)
            assert [_is_chinese(text) for text in texts] == [chinese] * 2, (user.language, worker, texts)
    assert user.language == "zh-hans"
    Client().post("/i18n/setlang/", {"language": "en"})
    user.refresh_from_db()
    assert user.language == "zh-hans", "a browser in which nobody is signed in changes no account"


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["de", "en-aaaaaaaa", "zh-hans@aaa", "e" * 1_000, "en\0", ""])
def test_a_language_that_pages_have_not_is_no_choice(bench: Bench, client: Client, text: str) -> None:
    user = bench.world.editor
    client.force_login(user)
    before = trans_real._translations.copy()
    answer = client.post("/i18n/setlang/", {"language": text, "next": "/login"})
    assert (answer.status_code, answer.headers["Location"], answer.cookies) == (302, "/login", {})
    user.refresh_from_db()
    assert user.language == ""
    assert trans_real._translations.keys() == before.keys(), "a catalogue was built"
