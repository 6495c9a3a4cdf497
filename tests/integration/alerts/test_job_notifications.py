"""Channels of a workspace send events of watched jobs, once however many users watch, until accepted."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any, Final

import pytest
from django.core import mail
from django.test import Client

from alerts.delivery.deliver import deliver_notifications
from alerts.evaluation.user_events import create_user_messages
from alerts.models import ChannelKind, MessageKind, Notification, NotificationChannel, UserMessage
from alerts.services.job_watch import unwatch_job, watch_job
from alerts.services.prune import RETENTION, prune_alerts
from foundation.core import clock
from foundation.core.errors import Invalid
from scheduling.models import Job
from tests.builders import jobs
from tests.integration.alerts.conftest import Bench

_BOTH: Final = ("started", "succeeded")


def _watched_job(bench: Bench) -> Job:
    job = jobs.job(bench.world.queue, bench.world.editor, "train")
    for user in (bench.world.editor, bench.world.platform_admin):
        watch_job(acting_user=user, job=job)
    return job


def _move(bench: Bench, job: Job, state: str) -> None:
    Job.unscoped.filter(pk=job.pk).update(state=state)
    _tick(bench)


def _end(bench: Bench, job: Job) -> None:
    Job.unscoped.filter(pk=job.pk).update(finished_at=clock.now())
    _move(bench, job, "succeeded")


def _tick(bench: Bench) -> None:
    bench.traveller.shift(timedelta(seconds=60))
    create_user_messages(clock.now())
    deliver_notifications(clock.now())


def _list_sent(channel: NotificationChannel) -> list[tuple[str, str]]:
    """Return the names of jobs with the events that a channel accepted."""
    sent = Notification.unscoped.filter(channel=channel, state="sent")
    return sorted(sent.values_list("job__name", "event"))


def test_a_webhook_gets_the_start_and_the_end_of_a_watched_job_until_it_accepts_them(bench: Bench) -> None:
    mine, other = bench.world.workspace, bench.world.other_workspace
    chosen = bench.channel(tenant=mine, sends_job_watches=True)
    bench.channel(tenant=mine, name="alerts only")
    bench.channel(tenant=other, name="of another team", sends_job_watches=True)
    job = _watched_job(bench)
    jobs.job(bench.world.queue, bench.world.editor, "unwatched", state="running")
    bench.receiver.status = 503
    _move(bench, job, "running")
    _move(bench, job, "running")
    chosen.refresh_from_db()
    assert chosen.failures == 2
    assert list(Notification.unscoped.values_list("channel", "event", "state")) == [
        (chosen.pk, "started", "pending")
    ]
    bench.receiver.status = 200
    bench.receiver.requests.clear()
    _move(bench, job, "running")
    _move(bench, job, "failed")
    found = [json.loads(request.body)["alerts"] for request in bench.receiver.requests]
    (started,), (failed,) = found
    assert (started["status"], failed["status"]) == ("firing", "resolved")
    assert started["fingerprint"] == failed["fingerprint"]
    assert started["labels"]["subject_name"] == "team-a/train"
    summaries = [each["annotations"]["summary"] for each in (started, failed)]
    assert summaries == ["train started", "train failed"]
    assert set(Notification.unscoped.values_list("event", "state")) == {
        ("started", "sent"),
        ("failed", "sent"),
    }
    bench.traveller.shift(RETENTION + timedelta(days=1))
    prune_alerts(clock.now())
    assert not Notification.unscoped.exists()


@pytest.mark.parametrize(
    ("language", "title"), [("en", "train was canceled"), ("zh-hans", "任务 train 已取消")]
)
def test_every_kind_of_channel_says_what_happened_to_the_job(
    bench: Bench, settings: Any, language: str, title: str
) -> None:
    settings.EMAIL_HOST, settings.ALLOTMENT_URL = "mail.example.com", "https://gpu.example.com"
    w = bench.world
    mine, editor, names = w.workspace, w.editor, f"{w.editor.username}, {w.admin.username}"
    for kind in ChannelKind:
        addresses = {ChannelKind.EMAIL: "team@example.com", ChannelKind.MESSAGE: names}
        address = addresses.get(kind, f"{bench.receiver.url}/{kind}")
        bench.channel(kind, mine, name=kind, address=address, language=language, sends_job_watches=True)
    bench.receiver.body = b'{"errcode": 0, "code": 0}'
    job = _watched_job(bench)
    _move(bench, job, "cancelled")
    assert set(Notification.unscoped.values_list("event", "state")) == {("cancelled", "sent")}
    (sent,) = mail.outbox
    link = f"https://gpu.example.com/w/team-a/jobs/{job.pk}"
    assert (sent.subject, sent.body) == (title, f"{title}\nTeam A\n{link}")
    for request in bench.receiver.requests:
        text = json.dumps(json.loads(request.body), ensure_ascii=False)
        assert title in text and link in text, request.path
    assert len(bench.receiver.requests) == 4
    about = UserMessage.unscoped.filter(kind=MessageKind.JOB, event="cancelled").order_by("pk")
    sources = dict(about.values_list("user__username", "source"))
    assert len(about) == len(sources) == 3, "who watches and is a recipient of the channel gets one message"
    assert sources[w.admin.username] == f"job/{job.pk}/cancelled"
    assert sources[editor.username].startswith("watch/")


def test_the_end_of_a_started_job_is_sent_to_a_webhook_whatever_was_switched_off(
    bench: Bench,
) -> None:
    mine, editor = bench.world.workspace, bench.world.editor
    channel = bench.channel(tenant=mine, sends_job_watches=True)
    robot = bench.channel(
        ChannelKind.WECOM, mine, name="robot", address=f"{bench.receiver.url}/robot", sends_job_watches=True
    )
    bench.receiver.body = b'{"errcode": 0}'
    unwatched, ended = (jobs.job(bench.world.queue, editor, name) for name in ("unwatched", "ended"))
    for job in (unwatched, ended):
        watch_job(acting_user=editor, job=job)
        _move(bench, job, "running")
    unwatch_job(acting_user=editor, job=unwatched)
    _end(bench, unwatched)
    NotificationChannel.unscoped.update(enabled=False)
    _end(bench, ended)
    assert _list_sent(channel) == [("ended", "started"), ("unwatched", "started"), ("unwatched", "succeeded")]
    bench.traveller.shift(timedelta(days=20))
    NotificationChannel.unscoped.update(sends_job_watches=False, enabled=True)
    _tick(bench)
    assert len(_list_sent(channel)) == 3, "a channel that no longer opts in is told nothing"
    NotificationChannel.unscoped.update(sends_job_watches=True)
    _tick(bench)
    _tick(bench)
    assert _list_sent(channel) == [(job, event) for job in ("ended", "unwatched") for event in _BOTH]
    assert ("ended", "succeeded") not in _list_sent(robot), "people are not told of what is no news"
    alerts = [alert for sent in bench.receiver.requests for alert in json.loads(sent.body).get("alerts", ())]
    last = {alert["fingerprint"]: alert["status"] for alert in alerts}
    assert list(last.values()) == ["resolved", "resolved"] and len(alerts) == 4


@pytest.mark.parametrize("kind", [ChannelKind.WEBHOOK, ChannelKind.WECOM])
def test_old_events_of_jobs_are_dropped_but_an_alert_that_fires_is_resolved(
    bench: Bench, kind: ChannelKind
) -> None:
    channel = bench.channel(
        kind, bench.world.workspace, address=f"{bench.receiver.url}/hook", sends_job_watches=True
    )
    bench.receiver.body = b'{"errcode": 0}'
    told, untold = (jobs.job(bench.world.queue, bench.world.editor, name) for name in ("told", "untold"))
    for job in (told, untold):
        watch_job(acting_user=bench.world.editor, job=job)
    _move(bench, told, "running")
    bench.receiver.status = 503
    _move(bench, untold, "running")
    _end(bench, told)
    bench.receiver.status = 200
    bench.traveller.shift(timedelta(days=20))
    _tick(bench)
    _tick(bench)
    resolved = [("told", "succeeded")] if kind is ChannelKind.WEBHOOK else []
    assert _list_sent(channel) == [("told", "started"), *resolved]
    assert not Notification.unscoped.filter(state="pending").exists()


def test_only_channels_of_a_workspace_offer_it(bench: Bench, client: Client) -> None:
    with pytest.raises(Invalid) as refused:
        bench.channel(sends_job_watches=True)
    assert refused.value.errors[0].code == "NOT_OF_WORKSPACE"
    client.force_login(bench.world.platform_admin)
    for address, offered in (("/ops/alerts/channels", False), ("/w/team-a/alerts/channels", True)):
        page = client.get(f"{address}?edit=new").content.decode()
        assert ('name="sends_job_watches"' in page) is offered
    typed = {"name": "hook", "kind": "webhook", "address": f"{bench.receiver.url}/hook", "language": "en"}
    client.post("/w/team-a/alerts/channels", typed | {"do": "create", "sends_job_watches": "on"})
    listed = client.get("/api/v1/workspaces/team-a/notification-channels").json()
    assert [each["sends_job_watches"] for each in listed["items"]] == [True]
