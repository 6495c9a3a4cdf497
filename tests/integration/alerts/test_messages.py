"""Messages to users about watched jobs, preemptions, quota requests and alerts, each once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from alerts.delivery.message_mail import mail_messages
from alerts.delivery.message_text import write_title
from alerts.evaluation.user_events import create_user_messages
from alerts.models import ChannelKind, JobWatch, UserMessage
from alerts.selectors.messages import count_unread, list_messages
from alerts.services.channel import check_channel, create_channel
from alerts.services.job_watch import unwatch_job, watch_job
from alerts.services.message import mark_read
from alerts.services.prune import prune_alerts
from foundation.core import clock
from foundation.core.errors import Conflict, Invalid, NotFound
from quotas.models import QuotaRequest
from scheduling.models import Decision, DecisionKind, Job, JobState
from tenants.models import Member, User
from tests.builders import jobs
from tests.fixtures.mail_server import run_mail_server
from tests.integration.alerts.conftest import Bench


def _titles(user: User) -> list[str]:
    return [write_title(message) for message in list_messages(user)]


def _set_state(job: Job, state: JobState) -> None:
    Job.unscoped.filter(pk=job.pk).update(state=state)


def _run(bench: Bench, seconds: float = 5) -> None:
    bench.traveller.shift(timedelta(seconds=seconds))
    create_user_messages(clock.now())


def test_a_watched_job_is_reported_once_at_its_start_and_once_at_its_end(bench: Bench, settings: Any) -> None:
    w = bench.world
    job = jobs.job(w.queue, w.editor, "train")
    User.objects.filter(pk=w.viewer.pk).update(email="vera@example.com")
    watch_job(acting_user=w.viewer, job=job)
    watch_job(acting_user=w.viewer, job=job)
    with pytest.raises(NotFound):
        watch_job(acting_user=w.outsider, job=job)
    _run(bench)
    assert _titles(w.viewer) == []
    with run_mail_server() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        settings.ALLOTMENT_URL = "https://gpu.example.com"
        for state in (JobState.RUNNING, JobState.RUNNING, JobState.QUEUED, JobState.RUNNING, JobState.FAILED):
            _set_state(job, state)
            _run(bench)
            server.refusal = "451 try later" if state == JobState.FAILED else ""
            mail_messages(clock.now())
        server.refusal = ""
        mail_messages(clock.now())
        mail_messages(clock.now())
    assert _titles(w.viewer) == ["train failed", "train started"]
    assert [mail["Subject"] for mail in server.mails] == ["train started", "train failed"]
    assert server.recipients == [["vera@example.com"]] * 2
    assert f"https://gpu.example.com/w/team-a/jobs/{job.pk}" in server.mails[0].get_content()
    assert not JobWatch.unscoped.exists()
    assert _titles(w.editor) == _titles(w.outsider) == []
    job.refresh_from_db()
    with pytest.raises(Conflict):
        watch_job(acting_user=w.viewer, job=job)


def test_no_email_follows_a_message_that_its_user_may_no_longer_see(bench: Bench, settings: Any) -> None:
    w = bench.world
    User.objects.filter(pk__in=[w.viewer.pk, w.editor.pk]).update(email="team@example.com")
    job = jobs.job(w.queue, w.editor, "train")
    for user in (w.viewer, w.editor):
        user.refresh_from_db()
        watch_job(acting_user=user, job=job)
    _set_state(job, JobState.RUNNING)
    _run(bench)
    Member.unscoped.filter(user=w.viewer).delete()
    with run_mail_server() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        assert mail_messages(clock.now()) == 1
    assert not UserMessage.unscoped.filter(mail_due=True).exists()


def test_a_watch_ends_with_the_permission_and_when_it_is_ended(bench: Bench) -> None:
    w = bench.world
    job = jobs.job(w.queue, w.editor, "train")
    for user in (w.viewer, w.editor):
        watch_job(acting_user=user, job=job)
    unwatch_job(acting_user=w.editor, job=job)
    Member.unscoped.filter(user=w.viewer).delete()
    _set_state(job, JobState.RUNNING)
    _run(bench)
    assert not UserMessage.unscoped.exists()
    assert not JobWatch.unscoped.exists()


def test_the_owner_of_a_preempted_job_gets_one_message_without_the_preemptor(bench: Bench) -> None:
    w = bench.world
    job, other = jobs.job(w.queue, w.editor, "train"), jobs.job(w.other_queue, w.outsider, "secret")
    facts = {"cell": w.cell, "job": job, "cycle": 1, "epoch": 1, "beneficiary": other}
    Decision.unscoped.create(kind=DecisionKind.EVICT, code="RECLAIM_NOMINAL", **facts)
    Decision.unscoped.create(kind=DecisionKind.EVICT, code="NODE_LOST", **facts)
    imported = Decision.unscoped.create(kind=DecisionKind.EVICT, code="FAIR_SHARE", **facts)
    Decision.unscoped.filter(pk=imported.pk).update(created_at=clock.now() - timedelta(days=2))
    _run(bench)
    Decision.unscoped.create(kind=DecisionKind.SHRINK, code="FAIR_SHARE", **facts)
    _run(bench)
    _run(bench)
    assert _titles(w.editor) == ["train was scaled down by preemption", "train was preempted"]
    assert "secret" not in str(list(UserMessage.unscoped.values()))
    assert _titles(w.outsider) == _titles(w.viewer) == []
    _run(bench, 3700)
    assert UserMessage.unscoped.count() == 2


def test_a_quota_requester_gets_a_message_for_each_answer(bench: Bench) -> None:
    w, now = bench.world, clock.now()
    request = QuotaRequest.unscoped.create(
        node=w.queue.node,
        asker=w.editor,
        reason="r",
        asked=[],
        current=[],
        expires_at=now + timedelta(days=9),
    )
    for state, decider in (
        ("countered", w.platform_admin),
        ("rejected", w.platform_admin),
        ("approved", w.editor),
    ):
        QuotaRequest.unscoped.filter(pk=request.pk).update(
            state=state, decided_by=decider, decided_at=clock.now(), counter=[]
        )
        _run(bench)
        _run(bench)
    assert _titles(w.editor) == [
        "Your quota request for Team A was rejected",
        "Changes proposed to your quota request for Team A",
    ]
    assert {message.path for message in list_messages(w.editor)} == {"/w/team-a/requests"}
    assert _titles(w.admin) == []


def test_an_alert_reaches_the_recipients_of_a_channel_who_may_see_it(bench: Bench) -> None:
    w = bench.world
    with pytest.raises(Invalid, match="otto isn't a user who can view"):
        bench.channel(ChannelKind.MESSAGE, tenant=w.workspace, address="vera, otto")
    with pytest.raises(Invalid, match="nobody isn't a user who can view"):
        bench.channel(ChannelKind.MESSAGE, tenant=w.workspace, address="nobody")
    channel = bench.channel(ChannelKind.MESSAGE, tenant=w.workspace, address="vera, ed")
    assert check_channel(acting_user=w.admin, channel=channel) == ""
    assert _titles(w.viewer) == ["Test message from Allotment"]
    mark_read(acting_user=w.viewer)
    bench.rule(w.workspace, channels=[channel], severity="critical")
    Member.unscoped.filter(user=w.editor).delete()
    bench.observe("a", 20.0, path="/w/team-a/jobs/1")
    bench.step()
    bench.values.clear()
    bench.step()
    bench.step()
    assert _titles(w.viewer)[:2] == ["Resolved: load, job a", "Critical: load, job a"]
    assert not UserMessage.unscoped.filter(user=w.editor, source__startswith="alert/").exists()
    assert count_unread(w.viewer, limit=100) == 2


def test_messages_are_the_readers_own_and_gone_with_the_permission_and_after_90_days(bench: Bench) -> None:
    w = bench.world
    channels = [
        create_channel(
            acting_user=w.platform_admin, tenant=tenant, name="m", kind=ChannelKind.MESSAGE, address=name
        )
        for tenant, name in (
            (w.workspace, "vera"),
            (w.other_workspace, "otto"),
            (None, w.platform_admin.username),
        )
    ]
    for channel in channels:
        assert check_channel(acting_user=w.platform_admin, channel=channel) == ""
    (own,) = list_messages(w.viewer)
    (others,) = list_messages(w.outsider)
    assert mark_read(acting_user=w.viewer, ids=[own.pk, others.pk]) == 1
    assert [count_unread(user, limit=9) for user in (w.viewer, w.outsider, w.platform_admin)] == [0, 1, 1]
    Member.unscoped.filter(user__in=[w.outsider, w.platform_admin]).delete()
    assert [count_unread(user, limit=9) for user in (w.outsider, w.platform_admin)] == [0, 0]
    prune_alerts(clock.now() + timedelta(days=89))
    assert UserMessage.unscoped.count() == 3
    prune_alerts(clock.now() + timedelta(days=91))
    assert not UserMessage.unscoped.exists()
