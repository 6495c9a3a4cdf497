"""Request bodies are limited before the sender is known: each one, all together, and in time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from django.core.exceptions import RequestAborted
from django.test import override_settings

from allotment.requests import bodies
from allotment.requests.bodies import BodyBudget, RequestBody, TooManyBodies, TooSlow, read_body
from allotment.requests.web import OneThreadHandler
from foundation.core.errors import TooLarge

LIMIT = 1000
pytestmark = pytest.mark.usefixtures("small")


@pytest.fixture
def small() -> Any:
    with override_settings(DATA_UPLOAD_MAX_MEMORY_SIZE=LIMIT):
        yield


def part(body: bytes, more: bool = True) -> Mapping[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def receiving(parts: Iterable[Mapping[str, Any]]) -> tuple[Callable[[], Any], list[int]]:
    """The input of a server, which counts its reads and blocks at the end."""
    waiting, asked = iter(parts), [0]

    async def receive() -> Mapping[str, Any]:
        asked[0] += 1
        for message in waiting:
            return message
        await asyncio.sleep(3600)
        raise AssertionError("an hour went by")

    return receive, asked


def read(parts: Iterable[Mapping[str, Any]], budget: BodyBudget | None = None, **headers: str) -> RequestBody:
    receive, _ = receiving(parts)
    named = {name.replace("_", "-").encode(): value.encode() for name, value in headers.items()}
    return asyncio.run(read_body(receive, named, budget or BodyBudget()))


@pytest.mark.parametrize("sizes", [[LIMIT], [1] * LIMIT, [0, LIMIT - 1, 0, 1], [0]])
def test_a_body_up_to_the_limit_is_read_whole(sizes: list[int]) -> None:
    parts = [part(b"x" * size) for size in sizes[:-1]] + [part(b"x" * sizes[-1], more=False)]
    assert read(parts).read() == b"x" * sum(sizes)


@pytest.mark.parametrize("sizes", [[LIMIT + 1], [LIMIT, 1], [1] * (LIMIT + 1)])
def test_a_longer_one_is_refused_while_it_arrives(sizes: list[int]) -> None:
    budget = BodyBudget()
    with pytest.raises(TooLarge):
        read([part(b"x" * size) for size in sizes], budget)
    assert budget.taken == 0


@pytest.mark.parametrize("length", [str(LIMIT + 1), "9" * 5000, "-1", "1e3", "٣", " 5", ""])
def test_what_announces_too_much_or_nonsense_is_refused_before_it_is_read(length: str) -> None:
    receive, asked = receiving([part(b"x" * 10, more=False)])
    with pytest.raises(TooLarge):
        asyncio.run(read_body(receive, {b"content-length": length.encode()}, BodyBudget()))
    assert asked == [0]


def test_a_body_that_announces_little_and_sends_much_is_refused() -> None:
    with pytest.raises(TooLarge):
        read([part(b"x" * LIMIT), part(b"x")], content_length="5")


def test_a_slow_body_is_given_up_and_its_bytes_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LONGEST_S", 0.05)
    budget = BodyBudget()
    with pytest.raises(TooSlow):
        read([part(b"x")], budget)
    assert budget.taken == 0


def test_a_client_that_leaves_costs_nothing_afterwards() -> None:
    budget = BodyBudget()
    with pytest.raises(RequestAborted):
        read([part(b"x" * 100), {"type": "http.disconnect"}], budget)
    assert budget.taken == 0


def test_all_bodies_of_a_process_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "ALL_BYTES", 2 * LIMIT)
    budget = BodyBudget()
    whole = part(b"x" * LIMIT, more=False)
    first, second = read([whole], budget), read([whole], budget)
    with pytest.raises(TooManyBodies):
        read([part(b"x", more=False)], budget)
    first.close()
    first.close()
    third = read([part(b"x", more=False)], budget)
    assert budget.taken == LIMIT + 1
    second.close()
    third.close()
    assert budget.taken == 0


def test_a_client_that_sends_without_end_blocks_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "BYTES_OF_ONE", 2 * LIMIT)
    budget = BodyBudget()

    def sent(sender: str, size: int = LIMIT) -> RequestBody:
        receive, _ = receiving([part(b"x" * size, more=False)])
        return asyncio.run(read_body(receive, {}, budget, sender))

    held = [sent("192.0.2.1"), sent("192.0.2.1")]
    with pytest.raises(TooManyBodies):
        sent("192.0.2.1", 1)
    others = [sent("192.0.2.1", 0), sent("192.0.2.2"), *(sent("") for _ in range(3))]
    for body in (*held, *others):
        body.close()
    assert sent("192.0.2.1").read() == b"x" * LIMIT


@pytest.mark.parametrize(
    ("path", "kind"), [("/api/v1/me", "application/problem+json"), ("/login", "text/plain")]
)
def test_the_refusal_is_an_answer_and_closes_the_connection(path: str, kind: str) -> None:
    sent: list[Mapping[str, Any]] = []

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    receive, _ = receiving([part(b"x" * (LIMIT + 1))])
    asyncio.run(OneThreadHandler()({"type": "http", "path": path, "headers": []}, receive, send))
    headers = dict(sent[0]["headers"])
    assert sent[0]["status"] == 413
    assert headers[b"Content-Type"].startswith(kind.encode())
    assert headers[b"Connection"] == b"close"
