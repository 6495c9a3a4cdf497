"""The published schema is the one that the code serves."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.test import Client
from drf_spectacular.generators import SchemaGenerator

from allotment.requests import openapi

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"


@pytest.fixture(scope="module")
def generated() -> str:
    out = StringIO()
    call_command("spectacular", "--validate", "--fail-on-warn", stdout=out)
    return out.getvalue()


def test_the_published_schema_is_current(generated: str) -> None:
    assert DOCUMENT.read_text() == generated, "run: allotment spectacular --file docs/openapi.yaml"


def test_no_path_ends_in_a_slash_and_every_error_is_a_problem(generated: str) -> None:
    assert "application/problem+json" in generated
    assert not [line for line in generated.splitlines() if line.startswith("  /") and line.endswith("/:")]


def test_the_reader_of_the_schema_needs_no_other_server(client: Client) -> None:
    page = client.get("/api/v1/docs").content.decode()

    assert "/static/drf_spectacular_sidecar/" in page
    assert "//cdn." not in page


@pytest.mark.django_db
def test_a_process_generates_the_document_once_for_each_format(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate, generated = SchemaGenerator.get_schema, list[None]()

    def count(self: SchemaGenerator, **asked: Any) -> Any:
        generated.append(None)
        return generate(self, **asked)

    monkeypatch.setattr(SchemaGenerator, "get_schema", count)
    openapi._render_schema.cache_clear()
    data = "application/vnd.oai.openapi+json"
    answers = [client.get("/api/v1/schema", headers={"Accept": accept}) for accept in ["*/*", data] * 2]

    assert len(generated) == 2
    assert {answer.status_code for answer in answers} == {200}
    assert [each.content for each in answers[:2]] == [each.content for each in answers[2:]]
    assert yaml.safe_load(answers[0].content) == json.loads(answers[1].content)
    assert answers[1]["Content-Type"] == data
    assert answers[0]["Content-Disposition"] == 'inline; filename="Allotment.yaml"'


@pytest.mark.django_db
def test_the_served_document_is_the_published_one(client: Client) -> None:
    assert client.get("/api/v1/schema").content.decode() == DOCUMENT.read_text()
