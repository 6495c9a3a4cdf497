"""Events of jobs as they happen: the server's event stream, without gaps.

A broken stream is opened again with the last `Last-Event-ID`, so that no event is lost or repeated.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, cast

from allotment_client.errors import Problem, ServerUnreachable
from allotment_client.shapes import JobEvent
from allotment_client.transport import Sleep, Transport

# The server sends a comment every 15 s; the connection is considered dead after three missing ones.
SILENCE_S: Final = 45.0
_PAUSE_S: Final = 3.0
_FAILURES: Final = 10


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One server-sent event."""

    kind: str
    data: str
    id: str


def parse_messages(lines: Iterable[str]) -> Iterator[ServerEvent]:
    """Parse a stream of lines as the HTML standard specifies; comments and unknown fields are ignored."""
    kind, last, data = "message", "", list[str]()
    for line in lines:
        if not line:
            if data:
                yield ServerEvent(kind, "\n".join(data), last)
            kind, data = "message", []
            continue
        name, _colon, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "event":
            kind = value
        elif name == "data":
            data.append(value)
        elif name == "id":
            last = value


def job_events(
    transport: Transport,
    workspace: str,
    *,
    after: int | None = None,
    until: float | None = None,
    sleep: Sleep = time.sleep,
) -> Iterator[JobEvent]:
    """Yield events of a workspace from now on, or after the event `after`, until `until` by the monotonic
    clock.

    Raises: Problem when access is lost; ServerUnreachable if the server stays unreachable.
    """
    last = after
    failures = 0
    while until is None or time.monotonic() < until:
        headers = {} if last is None else {"Last-Event-ID": str(last)}
        silence = SILENCE_S if until is None else max(1.0, min(SILENCE_S, until - time.monotonic()))
        query = {"workspace": workspace}
        try:
            with transport.open_stream("events", query=query, headers=headers, silence_s=silence) as lines:
                for message in parse_messages(lines):
                    failures = 0
                    if message.kind == "job":
                        last = int(message.id)
                        yield cast(JobEvent, json.loads(message.data))
                    elif message.kind == "end":
                        _ended(json.loads(message.data))
                        break
        except ServerUnreachable:
            failures += 1
            if failures >= _FAILURES and (until is None or time.monotonic() < until):
                raise
        if until is None or time.monotonic() < until:
            sleep(_PAUSE_S if failures else 0.0)


def _ended(body: dict[str, str]) -> None:
    """Handle the server's reason for ending the stream. Raises: Problem, unless a reconnect is wanted."""
    code = body.get("code", "")
    if code != "RECONNECT":
        raise Problem(403, {"code": code, "detail": "The event stream has ended."})
