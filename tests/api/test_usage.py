"""Usage reports and prices over HTTP: figures, files without formulas, and values that never change."""

from __future__ import annotations

import csv
import html
import io
import re
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
import time_machine

from scheduling.models import Allocation, Attempt
from telemetry.models import Price
from tenants.models import User
from tests.api.conftest import As
from tests.builders import jobs
from tests.builders.world import World

pytestmark = pytest.mark.django_db
START = datetime(2026, 3, 30, 20, 0, tzinfo=UTC)
EVIL = ["=1+1", "+cmd|' /C calc'!A0", "-2+3", "@SUM(A1)", "\t=1", " =1", "|calc", "safe"]


@pytest.fixture
def now() -> Iterator[time_machine.Coordinates]:
    with time_machine.travel(START, tick=False) as clock:
        yield clock


def run(w: World, user: User, hours: float, *, name: str = "train", cards: int = 2) -> None:
    """A job that held whole GPUs for some hours until now."""
    job = jobs.job(w.queue, user, name, roles=[jobs.RoleOf(cards=cards)])
    attempt = jobs.allocate(job, w.nodes[0])
    begun = START - timedelta(hours=hours)
    Attempt.unscoped.filter(pk=attempt.pk).update(admitted_at=begun, ended_at=START, end_reason="")
    charge = {"gpu.cards": cards, "gpu.cores": 100 * cards}
    Allocation.unscoped.filter(attempt=attempt).update(charge=charge, released_at=START)


def report(client: Any, **query: str) -> Any:
    answer = client.get("/api/v1/workspaces/team-a/usage/report", query)
    assert answer.status_code == 200, answer.data
    return answer.data


def test_a_report_has_a_total_days_and_rows(w: World, as_user: As, now: time_machine.Coordinates) -> None:
    run(w, w.editor, 3)
    Price.unscoped.create(flavor=w.flavor, effective_at=START - timedelta(hours=1), gpu_hour=Decimal("1.005"))
    body = report(as_user(w.viewer))

    assert (body["month"], body["time_zone"], body["currency"]) == ("2026-03", "UTC", "USD")
    assert body["total"] == {
        "reserved_gpu_hours": 6.0,
        "used_gpu_hours": None,
        "idle_gpu_hours": None,
        "unmeasured_gpu_hours": 6.0,
        "borrowed_gpu_hours": 0.0,
        "lost_gpu_hours": 0.0,
        "billed_gpu_hours": 6.0,
        "unpriced_gpu_hours": 4.0,
        "cost_per_gpu_hour": "1.00",
        "amount": "2.01",
        "cpu_core_hours": 3.0,
        "memory_gib_hours": 3.0,
    }
    assert [row["name"] for row in body["rows"]] == ["ed"]
    assert [day["reserved_gpu_hours"] for day in body["days"] if day["reserved_gpu_hours"]] == [6.0]
    assert len(body["days"]) == 31


def test_the_time_zone_decides_to_which_month_and_day_an_hour_belongs(
    w: World, as_user: As, now: time_machine.Coordinates
) -> None:
    run(w, w.editor, 1)
    begun, ended = START + timedelta(hours=20), START + timedelta(hours=22, minutes=30)
    Attempt.unscoped.update(admitted_at=begun, ended_at=ended)
    Allocation.unscoped.update(released_at=ended)
    now.move_to(ended)
    client = as_user(w.viewer)

    assert report(client, month="2026-03")["total"]["reserved_gpu_hours"] == 5.0
    # In Kathmandu, 5:45 ahead, the month ends at 18:15 in UTC.
    march = report(client, month="2026-03", time_zone="Asia/Kathmandu")
    april = report(client, month="2026-04", time_zone="Asia/Kathmandu")
    assert march["total"]["reserved_gpu_hours"] == 4.5
    assert april["days"][0]["reserved_gpu_hours"] == 0.5


def test_bad_months_and_zones_are_named(w: World, as_user: As) -> None:
    client = as_user(w.viewer)
    for query, field in (
        ({"month": "2026-13"}, "month"),
        ({"month": "later"}, "month"),
        ({"time_zone": "Mars/Base"}, "time_zone"),
        ({"time_zone": "../../etc/passwd"}, "time_zone"),
        ({"group_by": "color"}, "group_by"),
    ):
        answer = client.get("/api/v1/workspaces/team-a/usage/report", query)
        assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)


def test_no_cell_of_a_file_is_a_formula(w: World, as_user: As, now: time_machine.Coordinates) -> None:
    for name in EVIL:
        run(w, w.editor, 1, name=name, cards=1)
    client = as_user(w.viewer)
    address = "/api/v1/workspaces/team-a/usage/export"

    text = client.get(address, {"group_by": "job"}).content.decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {row["name"] for row in rows} == {f"'{name}" if name != "safe" else name for name in EVIL}
    assert all(Decimal(row["reserved_gpu_hours"]) == 1 for row in rows)
    assert all(row["used_gpu_hours"] == "" for row in rows)

    book = client.get(address, {"group_by": "job", "type": "xlsx"})
    assert "usage-2026-03-job.xlsx" in book["Content-Disposition"]
    with zipfile.ZipFile(io.BytesIO(book.content)) as parts:
        sheets = [parts.read(name).decode() for name in parts.namelist() if "worksheets/sheet" in name]
        strings = parts.read("xl/sharedStrings.xml").decode()
    assert len(sheets) == 2
    assert not any("<f>" in sheet or "hyperlink" in sheet for sheet in sheets)
    assert {html.unescape(text) for text in re.findall(r"<t[^>]*>(.*?)</t>", strings)} >= set(EVIL)


def test_heads_of_a_workbook_are_in_the_language_of_the_reader(
    w: World, as_user: As, now: time_machine.Coordinates
) -> None:
    run(w, w.editor, 1)
    query = {"group_by": "user", "type": "xlsx"}
    book = as_user(w.viewer).get(
        "/api/v1/workspaces/team-a/usage/export", query, HTTP_ACCEPT_LANGUAGE="zh-hans"
    )
    with zipfile.ZipFile(io.BytesIO(book.content)) as parts:
        assert "因抢占损失" in parts.read("xl/sharedStrings.xml").decode()


def test_a_job_has_its_gpu_hours_and_cost(w: World, as_user: As, now: time_machine.Coordinates) -> None:
    job, client = jobs.job(w.queue, w.editor, "costs", roles=[jobs.RoleOf(cards=2)]), as_user(w.viewer)
    address = f"/api/v1/workspaces/team-a/jobs/{job.pk}/cost"
    before = client.get(address).data
    assert (before["gpu_hours"], before["amount"], before["is_estimate"]) == (0, None, True)
    Price.unscoped.all().delete()
    jobs.allocate(job, w.nodes[0])
    now.shift(timedelta(hours=3))
    assert client.get(address).data["amount"] is None, "no price is known"
    Price.unscoped.create(flavor=w.flavor, gpu_hour=Decimal("2.5"), effective_at=START - timedelta(days=90))
    found = client.get(address).data
    assert found["gpu_hours"] == pytest.approx(6)
    assert (Decimal(found["amount"]), found["is_estimate"]) == (15, True)


def price(w: World, at: datetime, amount: str = "2.5", **more: Any) -> dict[str, Any]:
    return {"flavor": w.flavor.name, "gpu_hour": amount, "effective_at": at.isoformat(), **more}


def test_prices_that_took_effect_never_change(w: World, as_user: As, now: time_machine.Coordinates) -> None:
    client, address = as_user(w.platform_admin), "/api/v1/admin/prices"
    first = client.post(address, price(w, START - timedelta(days=40)), format="json")
    assert first.status_code == 201, first.data
    again = client.post(address, price(w, START - timedelta(days=50)), format="json")
    assert (again.status_code, again.data["errors"][0]["field"]) == (400, "effective_at")
    later = client.post(address, price(w, START + timedelta(days=1), "3", slice_hour="4.25"), format="json")
    assert (later.status_code, later.data["slice_hour"]) == (201, "4.250000")
    twice = client.post(address, price(w, START + timedelta(days=1), "9"), format="json")
    assert (twice.status_code, twice.data["code"]) == (409, "PRICE_EXISTS")

    assert client.delete(f"{address}/{first.data['id']}").data["code"] == "PRICE_IN_EFFECT"
    assert client.delete(f"{address}/{later.data['id']}").status_code == 204
    assert client.get(f"{address}/{later.data['id']}").status_code == 404
    assert [item["gpu_hour"] for item in client.get(address).data["items"]] == ["2.500000"]


@pytest.mark.parametrize("amount", ["-1", "NaN", "Infinity", "1000001", "0.0000001", "1e400", "x"])
def test_amounts_that_are_no_prices_are_refused(w: World, as_user: As, amount: str) -> None:
    body = price(w, START + timedelta(days=900), amount)
    answer = as_user(w.platform_admin).post("/api/v1/admin/prices", body, format="json")
    assert (answer.status_code, Price.unscoped.exists()) == (400, False)


def test_a_report_of_the_platform_covers_what_the_viewer_may_see(
    w: World, as_user: As, now: time_machine.Coordinates
) -> None:
    run(w, w.editor, 1)
    other = jobs.job(w.other_queue, w.outsider, "other")
    jobs.allocate(other, w.nodes[1])
    now.shift(timedelta(hours=2))

    def tenants(user: User) -> set[str]:
        answer = as_user(user).get("/api/v1/admin/usage/report")
        return {row["name"] for row in answer.data["rows"]}

    assert tenants(w.platform_admin) == {w.workspace.name, w.other_workspace.name}
    assert tenants(w.viewer) == {w.workspace.name}
    hidden = as_user(w.viewer).get("/api/v1/admin/usage/report", {"tenant": "team-b"})
    assert hidden.status_code == 404
