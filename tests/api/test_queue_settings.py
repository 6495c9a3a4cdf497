"""Opening queues and changing their settings, and priority classes, without a shell."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.models import AuditRecord, Hint
from quotas.models import LedgerEntry, Queue
from scheduling.models import Job, JobEvent, PriorityClass, PriorityGrant
from tests.api.conftest import As
from tests.builders import clusters, jobs, quotas
from tests.builders.world import World

PLACE = "/api/v1/workspaces/team-a/queues/default"
CLASSES = "/api/v1/admin/priority-classes"


def patch(client: Any, version: int | str = "*", place: str = PLACE, **body: Any) -> Any:
    match = version if version == "*" else f'"{version}"'
    return client.patch(place, body, headers={"If-Match": match})


def test_settings_change_under_their_version(w: World, as_user: As) -> None:
    client = as_user(w.admin)
    seen = client.get(PLACE)
    assert (seen.headers["ETag"], seen.json()["preset"]) == ('"0"', "balanced")
    assert client.patch(PLACE, {"stop_policy": "hold"}).status_code == 428
    Hint.unscoped.all().delete()
    held = patch(client, 0, stop_policy="hold", strategy="strict-fifo")
    assert (held.status_code, held.headers["ETag"]) == (200, '"1"')
    assert (held.json()["stop_policy"], held.json()["strategy"]) == ("hold", "strict-fifo")
    assert Hint.unscoped.filter(topic="cycle").exists()
    assert patch(client, 0, stop_policy="none").status_code == 412
    record = AuditRecord.unscoped.get(action="queue.update")
    assert (record.before["stop_policy"], record.after["stop_policy"]) == ("none", "hold")


def test_a_preset_and_what_is_named_on_top_of_it(w: World, as_user: As) -> None:
    answer = patch(as_user(w.admin), preset="deterministic", backfill=False)
    assert (answer.json()["allocation_mode"], answer.json()["backfill"]) == ("static", False)
    assert answer.json()["preset"] is None
    assert patch(as_user(w.admin), preset="deterministic").json()["preset"] == "deterministic"


def test_pushing_out_higher_priorities_to_borrow_is_decided_above(w: World, as_user: As) -> None:
    refused = patch(as_user(w.admin), while_borrowing="any")
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (403, "while_borrowing")
    assert patch(as_user(w.platform_admin), while_borrowing="any", max_priority=10).status_code == 200
    assert patch(as_user(w.admin), backfill=False).status_code == 200
    assert patch(as_user(w.admin), max_priority=None).status_code == 403


def test_flavors_are_reordered_and_kept_while_in_use(w: World, as_user: As) -> None:
    second = clusters.flavor(w.cluster, "h100")
    client = as_user(w.admin)
    assert patch(client, flavors=["h100", "a100"]).json()["flavors"] == ["h100", "a100"]
    LedgerEntry.unscoped.create(node_id=w.queue.node_id, flavor=second, resource="gpu.cards", reserved=1)
    assert patch(client, flavors=["a100"]).json()["code"] == "FLAVOR_IN_USE"
    for wrong in (["no-such"], ["a100", "a100"], []):
        assert patch(client, flavors=wrong).status_code == 400
    assert client.get(PLACE).json()["flavors"] == ["h100", "a100"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"strategy": "fastest"}, "strategy"),
        ({"stop_policy": True}, "stop_policy"),
        ({"preemption": "perhaps"}, "preemption"),
        ({"max_priority": 1e30}, "max_priority"),
        ({"flavors": "a100"}, "flavors"),
        ({"flavors": ["nothing"]}, "flavors.0"),
        ({"preset": "fast"}, "preset"),
        ({"name": "Other"}, "name"),
        ({"cell": "other"}, "cell"),
    ],
)
def test_settings_that_are_none(w: World, as_user: As, body: dict[str, Any], field: str) -> None:
    answer = patch(as_user(w.admin), **body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
    assert Queue.unscoped.get(pk=w.queue.pk).version == 0


def test_a_queue_is_opened(w: World, as_user: As) -> None:
    client, place = as_user(w.admin), "/api/v1/workspaces/team-a/queues"
    made = client.post(place, {"name": "night", "flavors": ["a100"], "preset": "throughput"})
    assert (made.status_code, made.json()["preset"]) == (201, "throughput")
    assert client.get(made.headers["Location"]).json()["name"] == "night"
    assert client.post(place, {"name": "night", "flavors": ["a100"]}).status_code == 409
    for body, field in (({"flavors": ["x"]}, "flavors.0"), ({"cell": "x", "flavors": ["a100"]}, "cell")):
        wrong = client.post(place, {"name": "other", **body})
        assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, field)


def test_classes_are_made_changed_and_retired(w: World, as_user: As) -> None:
    client = as_user(w.platform_admin)
    made = client.post(CLASSES, {"name": "urgent", "value": 50})
    assert (made.status_code, made.headers["ETag"]) == (201, '"0"')
    place = made.headers["Location"]
    assert client.post(CLASSES, {"name": "urgent", "value": 5}).status_code == 409
    assert client.patch(place, {"value": 60}).status_code == 428
    jobs.job(w.queue, w.editor, "known", priority=PriorityClass.unscoped.get(name="urgent"))
    changed = patch(client, 0, place, value=60, description="Reviews")
    assert (changed.json()["value"], changed.headers["ETag"]) == (60, '"1"')
    assert patch(client, 0, place, value=70).status_code == 412
    assert patch(client, 1, place, retired=True).json()["retired_at"]
    assert Job.unscoped.get(name="known").priority == 50
    assert patch(client, "*", f"{CLASSES}/normal", retired=True).json()["code"] == "CLASS_NEEDED"
    assert patch(as_user(w.admin), "*", place, value=1).status_code == 403


def test_no_job_is_submitted_with_a_retired_class(w: World, as_user: As) -> None:
    old = jobs.priority_class("old", 10)
    PriorityGrant.unscoped.create(tenant=w.workspace, priority_class=old)
    patch(as_user(w.platform_admin), "*", f"{CLASSES}/old", retired=True)
    body = {"priority_class": "old", "roles": [{"resources": {"gpu": {"cards": 1}}}]}
    refused = as_user(w.editor).post("/api/v1/workspaces/team-a/jobs", body)
    assert (refused.status_code, refused.json()["code"]) == (422, "PRIORITY_CLASS_RETIRED")
    patch(as_user(w.platform_admin), "*", f"{CLASSES}/old", retired=False)
    assert as_user(w.editor).post("/api/v1/workspaces/team-a/jobs", body).status_code == 202


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"name": "Urgent !", "value": 1}, "name"),
        ({"name": "", "value": 1}, "name"),
        ({"name": "urgent"}, "value"),
        ({"name": "urgent", "value": 1e30}, "value"),
        ({"name": "urgent", "value": "high"}, "value"),
        ({"name": "urgent", "value": 1, "preempts": True}, "preempts"),
        ({"name": "urgent", "value": 1, "description": "x" * 201}, "description"),
    ],
)
def test_classes_that_are_none(w: World, as_user: As, body: dict[str, Any], field: str) -> None:
    answer = as_user(w.platform_admin).post(CLASSES, body)
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (400, field)
    assert not PriorityClass.unscoped.filter(name__istartswith="urgent").exists()


def test_a_queue_is_renamed_with_its_jobs(w: World, as_user: As) -> None:
    client = as_user(w.admin)
    jobs.job(w.queue, w.editor, "known")
    seen = client.get(PLACE)["ETag"]
    taken = client.patch(PLACE, {"name": "Main"}, headers={"If-Match": seen})
    assert (taken.status_code, taken.json()["errors"][0]["field"]) == (400, "name")
    renamed = client.patch(PLACE, {"name": "main", "backfill": False}, headers={"If-Match": seen})
    assert (renamed.status_code, renamed.json()["name"], renamed.json()["backfill"]) == (200, "main", False)
    assert client.get(PLACE).status_code == 404
    assert client.get("/api/v1/workspaces/team-a/jobs/known").json()["queue"] == "main"
    assert AuditRecord.unscoped.get(action="queue.rename").before == {"name": "default"}


def test_an_unused_queue_is_deleted(w: World, as_user: As) -> None:
    client = as_user(w.admin)
    second = client.post("/api/v1/workspaces/team-a/queues", {"name": "second", "flavors": ["a100"]})
    held, waits = jobs.job(w.queue, w.editor, "held", state="running"), jobs.job(w.queue, w.editor, "waits")
    over = jobs.job(w.queue, w.editor, "over", state="succeeded")
    every = {"If-Match": "*"}
    refused = client.delete(f"{PLACE}?move_to=second", headers=every)
    assert (refused.status_code, refused.json()["code"]) == (409, "QUEUE_IN_USE")
    assert refused.json()["numbers"] == {"running": 1, "waiting": 1}
    Job.unscoped.filter(pk=held.pk).update(state="succeeded")
    assert client.delete(PLACE, headers=every).status_code == 409
    for wrong in ("nowhere", "default"):
        answer = client.delete(f"{PLACE}?move_to={wrong}", headers=every)
        assert answer.status_code in (400, 404) and answer.json()["errors"][0]["field"] == "move_to"
    previewed = client.delete(f"{PLACE}?move_to=second&dry_run=true", headers=every)
    assert previewed.status_code == 204 and client.get(PLACE).status_code == 200

    assert client.delete(f"{PLACE}?move_to=second", headers=every).status_code == 204

    assert [queue["name"] for queue in client.get("/api/v1/workspaces/team-a/queues").json()["items"]] == [
        "second"
    ]
    waits.refresh_from_db()
    assert (waits.queue.name, waits.state, waits.reason) == ("second", "queued", "PENDING_EVALUATION")
    assert JobEvent.unscoped.get(job=waits, code="moved").numbers == {"from": "default", "to": "second"}
    assert client.get(f"/api/v1/workspaces/team-a/jobs/{over.pk}").json()["queue"] == "default"
    lines = client.get(f"/api/v1/admin/quotas/{quotas.quota_node(w.cell, w.workspace).pk}").json()["quotas"]
    cards = next(line for line in lines if line["resource"] == "gpu.cards")
    assert (cards["nominal"], cards["own_nominal"], cards["distributed"]) == (8, 8, 0)
    late = {"name": "late", "queue": "default", "roles": [{}]}
    assert client.post("/api/v1/workspaces/team-a/jobs", late).json()["errors"][0]["field"] == "queue"
    again = client.post("/api/v1/workspaces/team-a/queues", {"name": "default", "flavors": ["a100"]})
    assert (second.status_code, again.status_code) == (201, 201)
    nodes = client.get("/api/v1/admin/quotas", {"tenant": "team-a"}).json()["items"]
    assert sorted(node["queue"] for node in nodes) == ["", "default", "second"]
