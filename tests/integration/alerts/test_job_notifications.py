"""Channels of a workspace send events of watched jobs, once however many users watch, until accepted."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.test import Client

from alerts.delivery.deliver import deliver_notifications
from alerts.evaluation.user_events import create_user_messages
from alerts.models import ChannelKind, MessageKind, Notification, UserMessage
from alerts.services.job_watch import watch_job
from alerts.services.prune import RETENTION, prune_alerts
from foundation.core import clock
from foundation.core.errors import Invalid
from scheduling.models import Job
from tests.builders import jobs
from tests.integration.alerts.conftest import Bench


def _watched_job(bench: Bench) -> Job:
    job = jobs.job(bench.world.queue, bench.world.editor, "train")
    for user in (bench.world.editor, bench.world.platform_admin):
        watch_job(acting_user=user, job=job)
    return job


def _move(bench: Bench, job: Job, state: str) -> None:
    Job.unscoped.filter(pk=job.pk).update(state=state)
    bench.traveller.shift(timedelta(seconds=60))
    create_user_messages(clock.now())
    deliver_notifications(clock.now())


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
    mine, editor = bench.world.workspace, bench.world.editor
    for kind in ChannelKind:
        addresses = {ChannelKind.EMAIL: "team@example.com", ChannelKind.MESSAGE: editor.username}
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
    of_channel = UserMessage.unscoped.get(source=f"job/{job.pk}/cancelled")
    assert (of_channel.user, of_channel.kind, of_channel.event) == (editor, MessageKind.JOB, "cancelled")


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
