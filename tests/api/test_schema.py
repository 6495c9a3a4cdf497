"""The published schema is the one that the code serves."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command
from django.test import Client

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
