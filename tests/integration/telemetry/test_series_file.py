"""`GET /metrics/series/export`: the file has exactly what `metrics/series` answers."""

from __future__ import annotations

import asyncio
import csv
import io
import random
from datetime import datetime, timedelta
from typing import Any, Final

import pytest
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from telemetry.series.csv_text import csv_pieces
from telemetry.series.query import LINES
from telemetry.series.windows.types import Series, SeriesSet
from tenants.models import User
from tests.integration.telemetry.conftest import START, Bench

SERIES: Final = "/api/v1/metrics/series"
VALUES: Final = st.one_of(st.none(), st.floats(allow_nan=False, allow_infinity=False), st.integers(-5, 5))
TEXTS: Final = st.one_of(
    st.text(max_size=12), st.sampled_from(["=1+1", "+x", "-2", "@a", "a,b", 'a"b', "\t=1"])
)


def rows_of(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def read_file(client: Client, query: dict[str, Any]) -> list[list[str]]:
    answer = client.get(f"{SERIES}/export", query)
    assert answer.status_code == 200, answer.content

    async def collect() -> bytes:
        return b"".join([piece async for piece in answer])  # type: ignore[attr-defined]

    return rows_of(asyncio.run(collect()).decode())


def signed_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def assert_same(client: Client, query: dict[str, Any]) -> int:
    """Compare the file with the JSON; returns how many values there were."""
    body = client.get(SERIES, query).json()
    heads, *rows = read_file(client, query)
    assert heads[0] == "time (UTC)"
    assert len(set(heads)) == len(heads) == 1 + len(body["series"])
    for line, head in zip(body["series"], heads[1:], strict=True):
        assert head.endswith(f"({line['unit']})")
        assert line["measure"] in head
    assert [row[0] for row in rows] == body["times"]
    for number, line in enumerate(body["series"], start=1):
        assert [None if row[number] == "" else float(row[number]) for row in rows] == line["values"]
    return sum(value is not None for line in body["series"] for value in line["values"])


@pytest.mark.parametrize("seed", range(4))
def test_the_file_of_any_level_and_lines_equals_the_series(bench: Bench, seed: int) -> None:
    bench.ticks(30)
    dice, world = random.Random(seed), bench.world
    end = bench.ticks(10, START + timedelta(minutes=dice.randint(6, 40)))  # after a gap
    things = {
        "cluster": (world.cluster.pk, world.platform_admin),
        "node": (world.nodes[0].pk, world.platform_admin),
        "gpu": (bench.device(0).pk, world.platform_admin),
        "workspace": (world.workspace.pk, world.viewer),
        "job": (bench.sliced.pk, world.viewer),
    }
    for level, (pk, user) in things.items():
        lines = dice.sample(LINES[level], dice.randint(1, len(LINES[level])))
        query: dict[str, Any] = {
            "level": level, "id": pk, "start": START.isoformat(), "end": end.isoformat(),
            "step": dice.choice([10, 30, 60, 120]), **dice.choice([{}, {"lines": ",".join(lines)}]),
        }  # fmt: skip
        assert assert_same(signed_in(user), query) > 0, level


def test_measures_of_the_catalogue_and_groups_are_in_the_file(bench: Bench) -> None:
    end = bench.ticks(12)
    query = {
        "level": "node", "id": bench.world.nodes[0].pk, "measure": "temperature_c,power_w", "groupBy": "gpu",
        "statistic": "max", "start": START.isoformat(), "end": end.isoformat(), "step": 60,
    }  # fmt: skip
    assert assert_same(signed_in(bench.world.platform_admin), query) > 0


@pytest.mark.parametrize(
    "query", [{"lines": "power"}, {"lines": ""}, {"lines": "utilisation", "measure": "power_w"}, {"x": "1"}]
)
def test_unknown_lines_and_parameters_are_refused(bench: Bench, query: dict[str, str]) -> None:
    client = signed_in(bench.world.viewer)
    for address in (SERIES, f"{SERIES}/export"):
        assert client.get(address, {"level": "job", "id": bench.sliced.pk, **query}).status_code == 400


def test_a_file_is_for_those_alone_who_may_read_the_series(bench: Bench) -> None:
    client, file = signed_in(bench.world.viewer), f"{SERIES}/export"
    assert client.get(file, {"level": "job", "id": bench.whole.pk}).status_code == 404
    assert client.get(file, {"level": "gpu", "id": bench.device(0).pk}).status_code == 403
    assert client.get(file, {"level": "cluster"}).status_code == 403


@given(st.lists(st.tuples(TEXTS, TEXTS), max_size=4), st.lists(VALUES, max_size=250), st.integers(0, 10**6))
def test_any_series_is_written_whole_and_no_cell_is_a_formula(
    names: list[tuple[str, str]], values: list[float | None], seed: int
) -> None:
    dice = random.Random(seed)
    times = [START + timedelta(seconds=20 * n) for n in range(len(values))]
    columns = [dice.sample(values, len(values)) for _ in names]
    lines = tuple(
        Series("power", label, "W", tuple(zip(times, column, strict=True)), subject)
        for (label, subject), column in zip(names, columns, strict=True)
    )
    heads, *rows = rows_of("".join(csv_pieces(SeriesSet(START, START, 20, lines))))
    assert not any(head.lstrip().startswith(("=", "+", "-", "@", "|")) for head in heads)
    assert [datetime.fromisoformat(row[0]) for row in rows] == (times if names else [])
    for number, column in enumerate(columns, start=1):
        assert [None if row[number] == "" else float(row[number]) for row in rows] == column


def test_a_gpu_has_the_lines_that_it_has_on_its_node(bench: Bench) -> None:
    end = bench.ticks(12)
    client, device = signed_in(bench.world.platform_admin), bench.device(0)
    span = {"start": START.isoformat(), "end": end.isoformat(), "step": 20}
    own = client.get(SERIES, {"level": "gpu", "id": device.pk, **span}).json()["series"]
    node = client.get(SERIES, {"level": "node", "id": device.node_id, **span}).json()["series"]
    of_node = {line["measure"]: line["values"] for line in node if line["subject"] == str(device.pk)}
    assert {line["measure"]: line["values"] for line in own} == of_node
    assert len(of_node) == 6


def test_compute_in_gpus_is_unknown_while_a_slice_is_not_measured(bench: Bench) -> None:
    end = bench.ticks(6)
    client = signed_in(bench.world.viewer)
    span = {"start": START.isoformat(), "end": end.isoformat(), "step": 20}
    query = {"level": "workspace", "id": bench.world.workspace.pk, **span}
    lines = {line["measure"]: line["values"] for line in client.get(SERIES, query).json()["series"]}
    assert lines["compute_allocated"] == [0.6, 0.6, 0.6]
    assert lines["compute_used"] == [pytest.approx(0.3)] * 3
    cluster = {"level": "cluster", "id": bench.world.cluster.pk, **span}
    of_cluster = signed_in(bench.world.platform_admin).get(SERIES, cluster).json()["series"]
    assert {line["measure"]: line["values"] for line in of_cluster}["compute_used"] == [None] * 3
