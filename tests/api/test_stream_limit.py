"""A caller may have a limited number of event streams open, and each that ends allows another one."""

from __future__ import annotations

import asyncio

import pytest
from rest_framework.test import APIRequestFactory

from scheduling.api.jobs import stream
from tests.api.conftest import As
from tests.builders.world import World

STREAM = "/api/v1/events?workspace=team-a"


def test_too_many_streams_are_a_problem_that_says_how_many(
    w: World, as_user: As, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(stream._EventReader.opened, w.editor.pk, stream._EventReader.open_max)

    refused = as_user(w.editor).get(STREAM)

    assert refused.status_code == 429
    assert refused["Content-Type"] == "application/problem+json"
    assert (refused.json()["code"], refused.json()["numbers"]) == (
        "TOO_MANY_STREAMS",
        {"limit": stream._EventReader.open_max},
    )
    assert as_user(w.viewer).get(STREAM).status_code == 200


def test_a_stream_counts_while_it_is_read(w: World) -> None:
    request = APIRequestFactory().get(STREAM)

    async def read() -> tuple[int, int]:
        pieces = stream._EventReader(request, w.editor.pk, "team-a", 0).stream_text()
        await anext(pieces)
        during = stream._EventReader.opened[w.editor.pk]
        await pieces.aclose()  # as the server does when the reader is gone
        return during, stream._EventReader.opened[w.editor.pk]

    assert asyncio.run(read()) == (1, 0)
