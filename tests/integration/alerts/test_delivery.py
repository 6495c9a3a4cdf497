"""Notifications reach real servers once, in the format of each channel, and survive a dead one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from alerts.delivery import deliver
from alerts.delivery.deliver import deliver_notifications
from alerts.delivery.transports import LIMITS
from alerts.models import ChannelKind, Notification, NotificationChannel
from alerts.selectors.alerts import list_alerts
from alerts.selectors.notify_status import read_notify_status
from alerts.services.channel import change_channel, check_channel
from alerts.services.silence import create_silence
from foundation.core import clock
from foundation.core.errors import Invalid
from tests.fixtures.mail_server import run_mail_server
from tests.integration.alerts.conftest import Bench

ROBOTS = {
    ChannelKind.WECOM: b'{"errcode": 0, "errmsg": "ok"}',
    ChannelKind.DINGTALK: b'{"errcode": 0, "errmsg": "ok"}',
    ChannelKind.LARK: b'{"code": 0, "msg": "success"}',
}


def _bodies(bench: Bench) -> list[Any]:
    return [json.loads(request.body) for request in bench.receiver.requests]


def test_a_webhook_gets_the_firing_and_the_resolution_signed(bench: Bench) -> None:
    bench.rule(channels=[bench.channel(secret="s3cret")], severity="critical")
    bench.observe("a", 20.0, path="/w/team-a/jobs/1")
    bench.step()
    bench.values.clear()
    bench.step()
    firing, resolved = _bodies(bench)
    assert (firing["version"], firing["status"], resolved["status"]) == ("4", "firing", "resolved")
    (alert,) = firing["alerts"]
    assert alert["labels"] == {
        "alertname": "load", "severity": "critical", "metric": "test.load", "subject": "a",
        "subject_name": "job a",
    }  # fmt: skip
    assert alert["annotations"]["description"] == "Load: more than 10%"
    assert resolved["alerts"][0]["endsAt"].startswith("2026-03-02T08:00:30")
    for request in bench.receiver.requests:
        signed = request.headers["x-allotment-timestamp"].encode() + b"." + request.body
        expected = hmac.new(b"s3cret", signed, hashlib.sha256).hexdigest()
        assert request.headers["x-allotment-signature"] == f"sha256={expected}"
    assert len({request.headers["idempotency-key"] for request in bench.receiver.requests}) == 2


@pytest.mark.parametrize("kind", ROBOTS)
def test_each_robot_gets_its_format_without_markup_or_mentions_of_users(
    bench: Bench, kind: ChannelKind
) -> None:
    bench.receiver.body = ROBOTS[kind]
    bench.rule(channels=[bench.channel(kind, secret="s3cret")])
    bench.observe("a", 20.0, label="<@all> @here [click](http://evil) **b**\n# x")
    bench.step()
    (request,) = bench.receiver.requests
    body = json.loads(request.body)
    text = json.dumps(body, ensure_ascii=False)
    for forbidden in ("<@all>", "@here", "[click]", "http://evil) *", "# x"):
        assert forbidden not in text
    assert Notification.unscoped.get().state == "sent"
    if kind == ChannelKind.DINGTALK:
        query = parse_qs(urlsplit(request.path).query)
        digest = hmac.new(b"s3cret", f"{query['timestamp'][0]}\ns3cret".encode(), hashlib.sha256).digest()
        assert query["sign"] == [base64.b64encode(digest).decode()]
        assert body["markdown"]["title"].startswith("Warning: load")
    if kind == ChannelKind.LARK:
        digest = hmac.new(f"{body['timestamp']}\ns3cret".encode(), b"", hashlib.sha256).digest()
        assert body["sign"] == base64.b64encode(digest).decode()
        assert body["card"]["elements"][0]["text"]["tag"] == "plain_text"
    if kind == ChannelKind.WECOM:
        assert body["msgtype"] == "markdown"


@pytest.mark.parametrize("kind", [ChannelKind.WEBHOOK, *ROBOTS])
def test_many_alerts_come_in_few_messages_within_the_size_limit(bench: Bench, kind: ChannelKind) -> None:
    bench.receiver.body = ROBOTS.get(kind, b"{}")
    bench.rule(channels=[bench.channel(kind)])
    for number in range(60):
        bench.observe(f"{number:03}", 20.0, label="密" * 100 + str(number))
    for _ in range(40):
        bench.step()
    limit = LIMITS[kind].body_bytes
    assert all(len(request.body) <= limit for request in bench.receiver.requests)
    assert not Notification.unscoped.exclude(state="sent").exists()
    total = sum(len(request.body) for request in bench.receiver.requests)
    assert len(bench.receiver.requests) <= max(2, 2 * total // limit + 1)


def test_email_reaches_its_recipients_and_a_refusal_is_kept(bench: Bench, settings: Any) -> None:
    with run_mail_server() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        channel = bench.channel(
            ChannelKind.EMAIL, address="ada@example.org, bo@example.org", language="zh-hans"
        )
        bench.rule(channels=[channel], name="负载")
        bench.observe("a", 20.0)
        server.refusal = "451 try later"
        bench.step()
        channel.refresh_from_db()
        assert "451" in channel.error
        server.refusal = ""
        bench.step(30)
    (mail,) = server.mails
    assert server.recipients == [["ada@example.org", "bo@example.org"]]
    assert "负载" in mail["Subject"]
    assert "20%" in mail.get_content()
    channel.refresh_from_db()
    assert (channel.error, channel.failures, channel.failing_since) == ("", 0, None)


def test_a_header_cannot_be_smuggled_into_an_email(bench: Bench, settings: Any) -> None:
    with run_mail_server() as server:
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", server.port
        bench.rule(
            channels=[bench.channel(ChannelKind.EMAIL, address="ada@example.org")], name="x\r\nBcc: e@x.org"
        )
        bench.observe("a", 20.0, label="y\nBcc: f@x.org")
        bench.step()
    (mail,) = server.mails
    assert mail["Bcc"] is None
    assert server.recipients == [["ada@example.org"]]


def test_a_dead_channel_loses_nothing_says_so_and_catches_up_in_few_messages(bench: Bench) -> None:
    bench.receiver.status = 503
    channel = bench.channel()
    bench.rule(channels=[channel])
    for number in range(30):
        bench.observe(str(number), 20.0)
        bench.step(60)
    channel.refresh_from_db()
    assert (channel.error, channel.failing_since) == (
        "HTTP status 503",
        clock.now() - timedelta(seconds=29 * 60),
    )
    assert Notification.unscoped.filter(state="pending").count() == 30
    assert len(bench.receiver.requests) < 15, "a dead server is asked less and less often"
    bench.receiver.requests.clear()
    bench.receiver.status = 200
    bench.step(15 * 60)
    bench.step(15 * 60)
    heard = {alert["labels"]["subject"] for body in _bodies(bench) for alert in body["alerts"]}
    assert heard == {str(number) for number in range(30)}
    assert len(bench.receiver.requests) <= 2
    channel.refresh_from_db()
    assert channel.error == ""


def test_one_dead_channel_does_not_delay_another(bench: Bench) -> None:
    dead = bench.channel(name="dead", address="http://127.0.0.1:9/hook")
    bench.rule(channels=[dead, bench.channel()])
    bench.observe("a", 20.0)
    bench.step()
    assert len(bench.receiver.requests) == 1
    assert Notification.unscoped.filter(channel=dead, state="pending").count() == 1


def test_a_flapping_series_does_not_flood(bench: Bench) -> None:
    bench.rule(channels=[bench.channel()])
    for second in range(0, 1800, 15):
        bench.observe("a", 20.0 if second // 15 % 2 else 5.0)
        bench.step(15)
    # A firing and a resolution in ten minutes at most.
    assert 2 <= len(bench.receiver.requests) <= 8


def test_a_slow_recovery_keeps_a_flapping_alert_firing(bench: Bench) -> None:
    bench.rule(channels=[bench.channel()], resolve_s=120)
    for second in range(0, 1800, 15):
        bench.observe("a", 20.0 if second // 15 % 2 else 5.0)
        bench.step(15)
    assert len(bench.receiver.requests) == 1


def test_a_reminder_comes_once_in_each_interval(bench: Bench) -> None:
    bench.rule(channels=[bench.channel()], repeat_s=600)
    bench.observe("a", 20.0)
    for _ in range(60):
        bench.step(60)
    assert len(bench.receiver.requests) == 1 + 5


def test_a_message_that_was_sent_but_not_noted_is_sent_again_with_the_same_id(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.rule(channels=[bench.channel()])
    bench.observe("a", 20.0)
    with monkeypatch.context() as patch:
        patch.setattr(deliver, "_note_success", _die)
        with pytest.raises(KeyboardInterrupt):
            bench.step()
    bench.observe("b", 20.0)
    bench.step(15)
    assert len(bench.receiver.requests) == 1, "the channel is still claimed"
    bench.step(60)
    bench.step(60)
    first, again, later = bench.receiver.requests
    assert first.headers["idempotency-key"] == again.headers["idempotency-key"]
    assert first.body == again.body
    assert json.loads(later.body)["alerts"][0]["labels"]["subject"] == "b"


def _die(*_: Any) -> None:
    raise KeyboardInterrupt


def test_two_workers_send_a_message_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.rule(channels=[bench.channel()])
    bench.observe("a", 20.0)
    bench.step(deliver=False)
    send = deliver.send_message

    def send_while_another_runs(*args: Any, **named: Any) -> None:
        assert deliver_notifications(clock.now()) == 0
        send(*args, **named)

    monkeypatch.setattr(deliver, "send_message", send_while_another_runs)
    assert deliver_notifications(clock.now()) == 1
    assert len(bench.receiver.requests) == 1


def test_a_disabled_channel_gets_nothing(bench: Bench) -> None:
    channel = bench.channel()
    bench.rule(channels=[channel])
    change_channel(acting_user=bench.world.platform_admin, channel=channel, values={"enabled": False})
    bench.observe("a", 20.0)
    bench.step()
    assert bench.receiver.requests == []
    assert not Notification.unscoped.exists()


def test_the_test_button_sends_now_and_reports_why_not(bench: Bench) -> None:
    channel, admin = bench.channel(), bench.world.platform_admin
    assert check_channel(acting_user=admin, channel=channel) == ""
    assert _bodies(bench)[0]["alerts"] == []
    bench.receiver.status = 404
    assert check_channel(acting_user=admin, channel=channel) == "HTTP status 404"
    robot = bench.channel(ChannelKind.WECOM, name="robot")
    bench.receiver.status, bench.receiver.body = 200, b'{"errcode": 93000, "errmsg": "invalid webhook url"}'
    assert check_channel(acting_user=admin, channel=robot) == "93000: invalid webhook url"


def test_addresses_and_secrets_are_not_stored_in_the_clear(bench: Bench) -> None:
    bench.channel(secret="s3cret")
    row = NotificationChannel.unscoped.values().get()
    assert "s3cret" not in str(row)
    assert "/hook" not in str(row)


def test_the_notify_status_says_what_became_of_an_alerts_notifications(bench: Bench) -> None:
    viewer = bench.world.platform_admin

    def read() -> list[str | None]:
        return [read_notify_status(alert) for alert in list_alerts(viewer, None).order_by("subject")]

    lonely = bench.rule(name="lonely")
    bench.observe("a", 20.0)
    bench.step(deliver=False)
    assert read() == ["not-configured"]
    hook = bench.channel()
    lonely.channels.add(hook)
    bench.step(deliver=False)
    assert read() == ["pending"]
    bench.receiver.status = 503
    bench.step()
    assert read() == ["failed"]
    second = bench.channel(name="second", address=f"{bench.receiver.url}/second")
    lonely.channels.add(second)
    bench.receiver.status = 200
    NotificationChannel.unscoped.filter(pk=hook.pk).update(retry_at=clock.now() + timedelta(days=1))
    bench.step()
    assert read() == ["partial"]
    NotificationChannel.unscoped.filter(pk=hook.pk).update(retry_at=None)
    bench.step(60)
    assert read() == ["sent"]
    create_silence(acting_user=viewer, tenant=None, ends_at=clock.now() + timedelta(hours=1), comment="")
    bench.step()
    assert read() == ["silenced"]
    bench.values.clear()
    bench.step()
    assert read() == ["sent"]
    above = list_alerts(bench.world.viewer, bench.world.workspace).get()
    assert read_notify_status(above) is None, "channels of the platform are not shown to a workspace"
    bench.rule(name="patient", hold_s=600)
    bench.observe("b", 20.0)
    bench.step()
    assert read().count(None) == 1


@pytest.mark.parametrize("kind", [ChannelKind.WEBHOOK, ChannelKind.WECOM])
def test_a_channel_with_templates_sends_its_own_text(bench: Bench, kind: ChannelKind) -> None:
    bench.receiver.body = ROBOTS.get(kind, b"{}")
    texts = {
        "title_template": "[GPU] {rule}: {subject}",
        "body_template": "{condition}\nnow {value} ({tenant})",
    }
    with pytest.raises(Invalid, match="Unknown variable owner"):
        bench.channel(kind, title_template="{owner}")
    channel = bench.channel(kind, tenant=bench.world.workspace, **texts)
    bench.rule(bench.world.workspace, channels=[channel])
    bench.observe("a", 20.0, label="**job** @all {value}")
    bench.step()
    (body,) = _bodies(bench)
    title, text = "[GPU] load: ∗∗job∗∗ ＠all {value}", "Load: more than 10%\nnow 20% (Team A)"
    if kind == ChannelKind.WEBHOOK:
        notes = body["alerts"][0]["annotations"]
        assert (notes["summary"], notes["description"]) == (title, text)
    else:
        assert f"**{title}**" in body["markdown"]["content"]
        assert "now 20% (Team A)" in body["markdown"]["content"]
    change_channel(acting_user=bench.world.admin, channel=channel, values=dict.fromkeys(texts, ""))
    bench.values.clear()
    bench.step()
    assert "Resolved: load" in json.dumps(_bodies(bench)[1])


@pytest.mark.parametrize("kind", [ChannelKind.WECOM, ChannelKind.DINGTALK, ChannelKind.LARK])
def test_templates_make_no_message_that_a_robot_refuses(bench: Bench, kind: ChannelKind) -> None:
    bench.receiver.body = ROBOTS[kind]
    texts = {"title_template": "{tenant}", "body_template": "在{cluster}: " + "{subject}" * 200}
    bench.rule(channels=[bench.channel(kind, **texts)])
    own = {"tenant_id": None, "tenant_path": "", "cluster_id": bench.world.cluster.pk}
    bench.observe("a", 20.0, label="字" * 300, **own)
    bench.step()
    (request,) = bench.receiver.requests
    sent = json.dumps(json.loads(request.body), ensure_ascii=False)
    assert "Warning: load" in sent, "a title without a value is the usual one"
    assert f"在{bench.world.cluster.name}: 字字" in sent
    content = json.loads(request.body).get("markdown", {}).get("content", "")
    assert len(content.encode()) <= 4096 and len(request.body) <= 20_000
