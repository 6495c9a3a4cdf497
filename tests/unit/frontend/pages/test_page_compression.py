"""Pages and charts are compressed; streams, files and the REST API are not."""

from __future__ import annotations

import gzip
import json

import pytest
from django.test import Client

from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


@pytest.fixture
def w() -> World:
    return world()


@pytest.fixture
def client(w: World) -> Client:
    client = Client(headers={"Accept-Encoding": "gzip, br"})
    client.force_login(w.platform_admin)
    return client


def test_a_page_comes_compressed_to_a_browser_that_accepts_it(client: Client) -> None:
    answer = client.get("/ops/tenants")

    assert answer["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in answer["Vary"]
    assert int(answer["Content-Length"]) == len(answer.content)
    page = gzip.decompress(answer.content)
    assert page.rstrip().endswith(b"</html>")
    assert 4 * len(answer.content) < len(page)


def test_a_chart_comes_compressed(client: Client) -> None:
    answer = client.get("/ops/overview/charts/allocation?range=1h")

    assert answer["Content-Type"] == "application/json"
    assert answer["Content-Encoding"] == "gzip"
    assert "figure" in json.loads(gzip.decompress(answer.content))


def test_a_page_comes_as_it_is_to_another_program(client: Client) -> None:
    answer = client.get("/ops/tenants", headers={"Accept-Encoding": "identity"})

    assert not answer.has_header("Content-Encoding")
    assert answer.content.rstrip().endswith(b"</html>")


@pytest.mark.parametrize("path", ["/ops/tenants?format=csv", "/api/v1/schema", "/api/v1/me", "/live"])
def test_files_answers_of_the_api_and_streams_are_left_as_they_are(client: Client, path: str) -> None:
    answer = client.get(path)

    assert answer.status_code == 200
    assert not answer.has_header("Content-Encoding")
    answer.close()
