"""`GET /metrics/series`: wire format, scoping, and refusal of what it does not know."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.urls import include, path
from rest_framework.test import APIClient

from telemetry.api.urls import urlpatterns as series_urls
from tenants.models import User
from tests.integration.telemetry.conftest import START, Bench

urlpatterns = [path("api/v1/", include(series_urls))]
pytestmark = pytest.mark.urls(__name__)


def get(user: User | None, **query: Any) -> Any:
    client = APIClient()
    if user is not None:
        client.force_authenticate(user)
    return client.get("/api/v1/metrics/series", query)


def test_a_clusters_series(bench: Bench) -> None:
    end = bench.ticks(4)
    answer = get(
        bench.world.platform_admin, level="cluster", id=bench.world.cluster.pk,
        start=START.isoformat(), end=end.isoformat(), step=20,
    )  # fmt: skip
    assert answer.status_code == 200, answer.data
    body = answer.json()
    assert body["times"] == ["2026-03-02T08:00:00Z", "2026-03-02T08:00:20Z"]
    assert (body["step"], body["omitted"], body["gaps"]) == (20, 0, [])
    lines = {line["key"]: line for line in body["series"]}
    assert lines["utilisation"]["values"] == [40.0, 40.0]
    assert lines["utilisation"]["unit"] == "percent"


def test_a_jobs_series_for_its_viewer_only(bench: Bench) -> None:
    bench.ticks(4)
    mine = get(bench.world.viewer, level="job", id=bench.sliced.pk, numberOfSamples=60)
    assert mine.status_code == 200
    assert mine.json()["step"] == 60
    averages = [line for line in mine.json()["series"] if line["key"] == "utilisation:average"]
    assert averages[0]["values"][-1] == 15.0
    theirs = get(bench.world.viewer, level="job", id=bench.whole.pk)
    nobodys = get(bench.world.viewer, level="job", id=bench.world.cell.pk)
    assert theirs.status_code == nobodys.status_code == 404
    same = [{k: v for k, v in answer.json().items() if k != "instance"} for answer in (theirs, nobodys)]
    assert same[0] == same[1]


def test_nodes_are_for_operators_whether_they_exist_or_not(bench: Bench) -> None:
    for pk in (bench.world.nodes[0].pk, bench.world.cell.pk):
        assert get(bench.world.viewer, level="node", id=pk).status_code == 403
    assert get(bench.world.platform_admin, level="node", id=bench.world.nodes[0].pk).status_code == 200
    assert get(bench.world.platform_admin, level="node", id=bench.world.cell.pk).status_code == 404
    assert get(bench.world.platform_admin, level="cluster", id=bench.world.cell.pk).status_code == 404


def test_a_request_without_credentials_is_refused(bench: Bench) -> None:
    assert get(None, level="cluster").status_code in (401, 403)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({}, "level"),
        ({"level": "rack"}, "level"),
        ({"level": "job"}, "id"),
        ({"level": "cluster", "id": "sim"}, "id"),
        ({"level": "cluster", "metric": "power"}, "metric"),
        ({"level": "cluster", "step": 1}, "step"),
        ({"level": "cluster", "step": 60, "numberOfSamples": 10}, "step"),
        ({"level": "cluster", "numberOfSamples": 100_000}, "numberOfSamples"),
        ({"level": "cluster", "start": "yesterday"}, "start"),
    ],
)
def test_a_bad_parameter_is_named(bench: Bench, query: dict[str, Any], field: str) -> None:
    answer = get(bench.world.platform_admin, **query)
    assert answer.status_code == 400
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_the_range_is_capped(bench: Bench) -> None:
    answer = get(bench.world.platform_admin, level="cluster", start=(START - timedelta(days=401)).isoformat())
    assert answer.status_code == 400
    assert "400 days" in answer.json()["detail"]
