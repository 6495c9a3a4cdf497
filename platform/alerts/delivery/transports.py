"""Sends one message through a channel of each kind, within the limits of that kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from smtplib import SMTPException
from typing import Final

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.utils import translation

from alerts.delivery import robots, webhook
from alerts.delivery.console_messages import send_console_messages
from alerts.delivery.messages import ChannelMessage
from alerts.models import ChannelKind, NotificationChannel
from foundation.core.sealed_text import CannotOpen, open_text
from foundation.web.outgoing import OutgoingAnswer, OutgoingError, send_request

_JSON: Final = {"Content-Type": "application/json; charset=utf-8"}
_TIMEOUT_S: Final = 10


class DeliveryError(Exception):
    """The channel did not accept the message; the text is for the owner of the channel.

    `refused` is whether the receiver answered that it refuses the message; otherwise the receiver may have
    accepted it.
    """

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a kind of channel: bytes of one body, and the time from one message to the next."""

    body_bytes: int
    interval: timedelta


LIMITS: Final[Mapping[str, Limits]] = {
    ChannelKind.WEBHOOK: Limits(256 * 1024, timedelta(seconds=2)),
    ChannelKind.EMAIL: Limits(256 * 1024, timedelta(seconds=30)),
    ChannelKind.MESSAGE: Limits(256 * 1024, timedelta(0)),
    ChannelKind.WECOM: Limits(4096, timedelta(seconds=5)),
    ChannelKind.DINGTALK: Limits(20_000, timedelta(seconds=5)),
    ChannelKind.LARK: Limits(20 * 1024, timedelta(seconds=5)),
}


def measure_message(channel: NotificationChannel, message: ChannelMessage) -> int:
    """Return the bytes that count against the limit of a channel's kind."""
    if channel.kind == ChannelKind.WEBHOOK:
        return len(webhook.write_webhook(message, receiver=channel.name))
    if channel.kind == ChannelKind.LARK:
        return len(robots.write_lark(message, "secret", now_s=0)) + 64
    return len(robots.write_dingtalk(message))


def send_message(channel: NotificationChannel, message: ChannelMessage, *, now: datetime) -> None:
    """Send a message. Raises: DeliveryError."""
    try:
        address, secret = open_text(channel.sealed_address), open_text(channel.sealed_secret)
        with translation.override(message.language):
            _SENDERS[channel.kind](channel, message, address, secret, now)
    except (OutgoingError, CannotOpen) as error:
        raise DeliveryError(str(error)) from error


def _send_webhook(
    channel: NotificationChannel, message: ChannelMessage, address: str, secret: str, now: datetime
) -> None:
    body = webhook.write_webhook(message, receiver=channel.name)
    signed = webhook.sign_webhook(body, secret, now_s=int(now.timestamp()))
    headers = {**_JSON, **signed, "Idempotency-Key": message.message_id}
    _require_success(send_request("POST", address, body=body, headers=headers, timeout_s=_TIMEOUT_S))


def _send_wecom(
    _channel: NotificationChannel, message: ChannelMessage, address: str, _secret: str, _now: datetime
) -> None:
    _send_to_robot(address, robots.write_wecom(message))


def _send_dingtalk(
    _channel: NotificationChannel, message: ChannelMessage, address: str, secret: str, now: datetime
) -> None:
    signed = robots.sign_dingtalk(address, secret, now_ms=int(now.timestamp() * 1000))
    _send_to_robot(signed, robots.write_dingtalk(message))


def _send_lark(
    _channel: NotificationChannel, message: ChannelMessage, address: str, secret: str, now: datetime
) -> None:
    _send_to_robot(address, robots.write_lark(message, secret, now_s=int(now.timestamp())))


def _send_to_robot(address: str, body: bytes) -> None:
    answer = send_request("POST", address, body=body, headers=_JSON, timeout_s=_TIMEOUT_S)
    _require_success(answer)
    problem = robots.read_robot_error(answer.body)
    if problem:
        raise DeliveryError(problem, refused=True)


def _require_success(answer: OutgoingAnswer) -> None:
    if not 200 <= answer.status < 300:
        raise DeliveryError(f"HTTP status {answer.status}", refused=True)


def _send_email(
    _channel: NotificationChannel, message: ChannelMessage, address: str, _secret: str, _now: datetime
) -> None:
    blocks = ["\n".join([item.title, *item.lines, item.url]).rstrip() for item in message.items]
    send_email(
        [recipient.strip() for recipient in address.split(",")],
        message.title,
        "\n\n".join(blocks) or message.title,
        message_id=message.message_id,
    )


def _send_to_console(
    channel: NotificationChannel, message: ChannelMessage, address: str, _secret: str, _now: datetime
) -> None:
    if not send_console_messages(channel, message, address):
        raise DeliveryError("no active account among the recipients", refused=True)


def send_email(recipients: Sequence[str], subject: str, body: str, *, message_id: str) -> None:
    """Send plain text by the installation's mail server. Raises: DeliveryError."""
    if not is_email_configured():
        raise DeliveryError("ALLOTMENT_SMTP_URL is not set")
    mail = EmailMessage(
        subject=subject[:200],
        body=body,
        to=list(recipients),
        headers={"Message-ID": f"<{message_id}@allotment>"},
        connection=get_connection(fail_silently=False),
    )
    try:
        mail.send()
    except (SMTPException, OSError, ValueError) as error:
        raise DeliveryError(f"{type(error).__name__}: {error}"[:300]) from error


def is_email_configured() -> bool:
    """Return whether the installation can send email."""
    return bool(settings.EMAIL_HOST)


_Sender = Callable[[NotificationChannel, ChannelMessage, str, str, datetime], None]
_SENDERS: Final[Mapping[str, _Sender]] = {
    ChannelKind.WEBHOOK: _send_webhook,
    ChannelKind.EMAIL: _send_email,
    ChannelKind.MESSAGE: _send_to_console,
    ChannelKind.WECOM: _send_wecom,
    ChannelKind.DINGTALK: _send_dingtalk,
    ChannelKind.LARK: _send_lark,
}
