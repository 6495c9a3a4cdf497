"""The event stream: parsed as the standard says, continued where it broke off."""

from __future__ import annotations

import json

import httpx
import pytest

from allotment_client import Problem
from allotment_client.events import ServerEvent, parse_messages
from tests.client.server import Scripted


def stream(*parts: str) -> httpx.Response:
    return httpx.Response(200, text="".join(parts), headers={"Content-Type": "text/event-stream"})


def job(number: int) -> str:
    return f"id: {number}\nevent: job\ndata: {json.dumps({'id': number, 'code': 'queued'})}\n\n"


def end(code: str) -> str:
    return f'event: end\ndata: {{"code": "{code}"}}\n\n'


def test_comments_and_unknown_fields_are_skipped_and_lines_joined() -> None:
    lines = [": hello", "retry: 3000", "", "id: 4", "event: job", "data: a", "data:b", "", "data: half"]
    assert list(parse_messages(lines)) == [ServerEvent("job", "a\nb", "4")]


def test_a_broken_stream_goes_on_after_the_last_event() -> None:
    server = Scripted(
        stream("retry: 3000\n\n", job(7), job(9), end("RECONNECT")),
        httpx.ReadError("gone"),
        stream(job(12), end("ACCESS_LOST")),
    )
    found = []
    with pytest.raises(Problem) as caught:
        for event in server.client().watch("vision", after=5):
            found.append(event["id"])
    assert found == [7, 9, 12]
    assert caught.value.code == "ACCESS_LOST"
    assert [request.headers["Last-Event-ID"] for request in server.seen] == ["5", "9", "9"]


def test_a_stream_that_may_not_be_opened_is_refused_at_once() -> None:
    with pytest.raises(Problem, match="404"):
        list(Scripted(httpx.Response(404)).client().watch("other"))
