"""Owners of idle jobs get one email per warning, also when the mail server was down."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from alerts.delivery.idle_mail import mail_idle_owners
from foundation.core import clock
from scheduling.models import IdleStretch, Job, JobState
from tenants.models import User
from tests.fixtures.mail_server import run_mail_server
from tests.integration.telemetry.conftest import Bench, make_bench


@pytest.fixture
def bench(db: None) -> Iterator[Bench]:
    with make_bench() as made:
        Job.unscoped.update(state=JobState.RUNNING)
        User.objects.filter(pk=made.whole.submitted_by_id).update(email="owner@example.com")
        yield made


def warn(job: Job) -> IdleStretch:
    now = clock.now()
    return IdleStretch.unscoped.create(
        job=job,
        attempt_number=job.attempt_number,
        since=now - timedelta(minutes=20),
        seen_at=now,
        limit_s=1800,
        warn_s=600,
        warned_at=now,
    )


def use_server(settings: Any, port: int) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", port
    settings.ALLOTMENT_URL = "https://gpu.example.com"


def test_the_owner_gets_one_email_per_warning(bench: Bench, settings: Any) -> None:
    row = warn(bench.whole)
    with run_mail_server() as server:
        use_server(settings, server.port)
        assert mail_idle_owners(clock.now()) == 1
        assert mail_idle_owners(clock.now()) == 0
        IdleStretch.unscoped.filter(pk=row.pk).update(notified_at=None, extensions=1)
        assert mail_idle_owners(clock.now()) == 1
    first, second = server.mails
    assert first["To"] == "owner@example.com"
    assert "will be suspended in 10 min" in first["Subject"]
    assert f"https://gpu.example.com/w/team-b/jobs/{bench.whole.pk}" in first.get_content()
    assert first["Message-ID"] != second["Message-ID"]


def test_a_dead_mail_server_loses_nothing(bench: Bench, settings: Any) -> None:
    row = warn(bench.whole)
    use_server(settings, 1)
    assert mail_idle_owners(clock.now()) == 0
    row.refresh_from_db()
    assert row.notified_at is None
    with run_mail_server() as server:
        use_server(settings, server.port)
        assert mail_idle_owners(clock.now()) == 1


@pytest.mark.parametrize(
    ("account", "stretch"),
    [
        ({"email": ""}, {}),
        ({"is_active": False}, {}),
        ({}, {"warned_at": None}),
        ({}, {"acted_at": clock.now()}),
    ],
)
def test_no_other_user_gets_one(
    bench: Bench, settings: Any, account: dict[str, Any], stretch: dict[str, Any]
) -> None:
    row = warn(bench.whole)
    User.objects.filter(pk=bench.whole.submitted_by_id).update(**account)
    IdleStretch.unscoped.filter(pk=row.pk).update(**stretch)
    with run_mail_server() as server:
        use_server(settings, server.port)
        assert mail_idle_owners(clock.now()) == 0
    assert server.mails == []
