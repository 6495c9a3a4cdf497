"""Bodies and addresses of the chat robots: WeCom, DingTalk and Lark.

Limits and signatures as their vendors document them: WeCom markdown 4,096 bytes and 20 messages a minute;
DingTalk markdown 20,000 bytes and 20 a minute, signed with HMAC-SHA256 over "timestamp\\nsecret" keyed with
the secret; Lark 20 KB and 100 a minute, signed with HMAC-SHA256 over an empty message, keyed with
"timestamp\\nsecret".
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import urlencode

from alerts.delivery.messages import ChannelMessage, Item

_WECOM_BYTES: Final = 4_096
_BLOCK_BYTES: Final = 16_000
"""The largest text of one alert, so that a message to DingTalk or Lark holds at least one alert."""


def _digest(key: str, content: str) -> str:
    return base64.b64encode(hmac.new(key.encode(), content.encode(), hashlib.sha256).digest()).decode("ascii")


def _cut(text: str, most: int) -> str:
    """Return the longest beginning of a text that has at most `most` bytes.

    A template can make one alert longer than a robot's message may be; the robot would refuse it at each try.
    """
    return text.encode()[:most].decode(errors="ignore")


def _markdown(message: ChannelMessage) -> str:
    blocks = (_cut(_block(item, message), _BLOCK_BYTES) for item in message.items)
    return "\n\n".join([f"**{message.title}**", *blocks])


def _block(item: Item, message: ChannelMessage) -> str:
    head = [] if item.title == message.title else [f"**{item.title}**"]
    link = [item.url] if item.url else []
    return "\n\n".join([*head, *item.lines, *link])


def write_wecom(message: ChannelMessage) -> bytes:
    """Return the body of a WeCom robot's message."""
    content = _cut(_markdown(message), _WECOM_BYTES)
    return _encode({"msgtype": "markdown", "markdown": {"content": content}})


def write_dingtalk(message: ChannelMessage) -> bytes:
    """Return the body of a DingTalk robot's message, which mentions no user."""
    body = {"title": message.title, "text": _markdown(message)}
    return _encode({"msgtype": "markdown", "markdown": body, "at": {"isAtAll": False}})


def sign_dingtalk(url: str, secret: str, *, now_ms: int) -> str:
    """Return the address with timestamp and signature, or the unchanged address if there is no secret."""
    if not secret:
        return url
    query = urlencode({"timestamp": now_ms, "sign": _digest(secret, f"{now_ms}\n{secret}")})
    return f"{url}{'&' if '?' in url else '?'}{query}"


def write_lark(message: ChannelMessage, secret: str, *, now_s: int) -> bytes:
    """Return the body of a Lark robot's message: a card of plain text, in which nothing can be a mention."""
    elements: list[dict[str, Any]] = [
        {"tag": "div", "text": {"tag": "plain_text", "content": _cut(text, _BLOCK_BYTES)}}
        for text in _card_texts(message)
    ]
    card = {"header": {"title": {"tag": "plain_text", "content": message.title}}, "elements": elements}
    signed = {"timestamp": str(now_s), "sign": _digest(f"{now_s}\n{secret}", "")} if secret else {}
    return _encode({**signed, "msg_type": "interactive", "card": card})


def _card_texts(message: ChannelMessage) -> Iterable[str]:
    for item in message.items:
        head = [] if item.title == message.title else [item.title]
        yield "\n".join([*head, *item.lines, *([item.url] if item.url else [])])


def read_robot_error(body: bytes) -> str:
    """Return why a robot refused a message, or nothing if it accepted it.

    The robots answer 200 in both cases: WeCom and DingTalk with `errcode`, Lark with `code`.
    """
    try:
        answer = json.loads(body)
    except ValueError:
        return "the answer is not JSON"
    if not isinstance(answer, dict):
        return "the answer is not a JSON object"
    for code, text in (("errcode", "errmsg"), ("code", "msg"), ("StatusCode", "StatusMessage")):
        if code in answer:
            return "" if answer[code] == 0 else f"{answer[code]}: {str(answer.get(text, ''))[:200]}"
    return "the answer has no result code"


def _encode(body: dict[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode()
