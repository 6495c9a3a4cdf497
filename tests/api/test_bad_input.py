"""Invalid input: each row is refused with a 4xx that names the field, and changes nothing."""

from __future__ import annotations

import json
from typing import Any, Final

import pytest
from rest_framework.test import APIClient

from foundation.models import AuditRecord, Hint, IdempotencyKey
from scheduling.models import Job, JobEvent, JobRole, Task
from tenants.models import AccessKey
from tests.api.conftest import As
from tests.builders import jobs
from tests.builders.world import World

TEAM: Final = "/api/v1/workspaces/team-a"
JOBS: Final = f"{TEAM}/jobs"
ROLE: Final = {"replicas": 2, "resources": {"cpu": 1, "memory": "1Gi", "gpu": {"cards": 1}}}
GOOD: Final[dict[str, Any]] = {"name": "fresh", "roles": [ROLE]}
DEEP: Final[dict[str, Any]] = {}
inner = DEEP
for _ in range(20):
    inner["a"] = inner = {}


def role(**values: Any) -> dict[str, Any]:
    """Return a job whose only role has these values."""
    return {"roles": [ROLE | values]}


def gpu(**values: Any) -> dict[str, Any]:
    """Return a job whose only role asks for these cards."""
    return role(resources={"gpu": values})


JOB_ROWS: Final[list[tuple[dict[str, Any], str]]] = [
    # Types.
    ({"roles": "main"}, "roles"),
    ({"roles": []}, "roles"),
    ({"roles": None}, "roles"),
    ({"roles": [[]]}, "roles.0"),
    ({"name": 7}, "name"),
    ({"queue": ["default"]}, "queue"),
    ({"preemptible": "perhaps"}, "preemptible"),
    ({"environment": ["A=1"]}, "environment"),
    ({"environment": []}, "environment"),
    ({"gang": ""}, "gang"),
    ({"placement": {"node_selector": 0}}, "placement.node_selector"),
    ({"environment": {"A": {"b": 1}}}, "environment.A"),
    ({"environment": {"A": True}}, "environment.A"),
    ({"volumes": "data"}, "volumes"),
    ({"lifecycle": {"on": "task_failed"}}, "lifecycle"),
    ({"gang": 3}, "gang"),
    (role(command="python train.py"), "roles.0.command"),
    (role(image=["a"]), "roles.0.image"),
    (role(resources=[]), "roles.0.resources"),
    (role(replicas="2"), "roles.0.replicas"),
    (role(replicas=1.5), "roles.0.replicas"),
    (role(replicas=True), "roles.0.replicas"),
    (gpu(cards="one"), "roles.0.resources.gpu.cards"),
    # Ranges and quantities.
    (role(replicas=0), "roles.0.replicas"),
    (role(replicas=-1), "roles.0.replicas"),
    (role(replicas=10**30), "roles.0.replicas"),
    (role(min_replicas=3), "roles.0.min_replicas"),
    (gpu(cards=-1), "roles.0.resources.gpu.cards"),
    (gpu(cards=1e30), "roles.0.resources.gpu.cards"),
    (gpu(cards=65), "roles.0.resources.gpu.cards"),
    (gpu(cards=1, mode="slice", cores=0, memory="1Gi"), "roles.0.resources.gpu.cores"),
    (gpu(cards=1, mode="slice", cores=101, memory="1Gi"), "roles.0.resources.gpu.cores"),
    (gpu(cards=1, mode="slice", cores=50, memory="-1Gi"), "roles.0.resources.gpu.memory"),
    (gpu(cards=1, mode="slice", cores=50, memory="150%"), "roles.0.resources.gpu.memory"),
    (gpu(cards=1, mode="half"), "roles.0.resources.gpu.mode"),
    (gpu(cards=1, mode="mig"), "roles.0.resources.gpu.profile"),
    (gpu(cards=1, mode="mig", profile="9x.zz"), "roles.0.resources.gpu.profile"),
    (gpu(cards=1, cores=50), "roles.0.resources.gpu.cores"),
    (role(resources={"cpu": "-1"}), "roles.0.resources.cpu"),
    (role(resources={"cpu": "1e30"}), "roles.0.resources.cpu"),
    (role(resources={"cpu": 10**12}), "roles.0.resources.cpu"),
    (role(resources={"cpu": "eight"}), "roles.0.resources.cpu"),
    (role(resources={"memory": 64}), "roles.0.resources.memory"),
    (role(resources={"memory": "9999999Ti"}), "roles.0.resources.memory"),
    (role(resources={"memory": "1Qi"}), "roles.0.resources.memory"),
    ({"min_run_s": -1}, "min_run_s"),
    ({"max_run_s": 0}, "max_run_s"),
    ({"max_run_s": 10**12}, "max_run_s"),
    ({"checkpoint_interval_s": 0}, "checkpoint_interval_s"),
    ({"gang": {"min_available": 0}}, "gang.min_available"),
    ({"gang": {"min_available": 3}}, "gang.min_available"),
    ({"simulate": {"gpu_utilisation": 1.5}}, "simulate.gpu_utilisation"),
    ({"simulate": {"exit_code": 256}}, "simulate.exit_code"),
    # Text: form, length, characters.
    ({"name": "Train"}, "name"),
    ({"name": "训练"}, "name"),
    ({"name": "a" * 64}, "name"),
    ({"name": "-a"}, "name"),
    ({"name": "a\u0000b"}, ""),
    ({"environment": {"A": "\ud800"}}, ""),
    ({"environment": {"1A": "x"}}, "environment.1A"),
    ({"environment": {"A": "x" * 70_000}}, "environment"),
    ({"environment": {f"A{n}": "x" for n in range(300)}}, "environment"),
    (role(name="Main Role"), "roles.0.name"),
    (role(image="x" * 301), "roles.0.image"),
    (role(command=["x"] * 300), "roles.0.command"),
    # Words, unknown fields, contradictions, duplicates.
    ({"kind": "spark"}, "kind"),
    ({"colour": "red"}, "colour"),
    ({"state": "running"}, "state"),
    ({"priority": 1000}, "priority"),
    ({"workspace": "team-b"}, "workspace"),
    (role(colour="red"), "roles.0.colour"),
    (gpu(cards=1, colour="red"), "roles.0.resources.gpu.colour"),
    ({"queue": "nowhere"}, "queue"),
    ({"priority_class": "nothing"}, "priority_class"),
    ({"priority_class": "steep"}, "priority_class"),
    ({"roles": [ROLE | {"name": "main"}, ROLE | {"name": "main"}]}, "roles.1.name"),
    ({"roles": [ROLE | {"name": f"r{n}"} for n in range(17)]}, "roles"),
    ({"roles": [ROLE | {"name": f"r{n}", "replicas": 4096} for n in range(3)]}, "roles"),
    ({"lifecycle": [{"on": "sunset", "do": "restart_job"}]}, "lifecycle.0.on"),
    ({"lifecycle": [{"on": "task_failed", "do": "dance"}]}, "lifecycle.0.do"),
    ({"lifecycle": [{"on": "role_completed", "role": "none", "do": "complete_job"}]}, "lifecycle.0.role"),
    ({"placement": {"moon": True}}, "placement.moon"),
    ({"placement": {"node_selector": [1]}}, "placement.node_selector"),
    ({"placement": {"node_affinity": DEEP}}, "placement.node_affinity.a"),
    ({"name": "known"}, "name"),
]

OTHER_ROWS: Final[list[tuple[str, Any, str]]] = [
    (f"{JOBS}/known/priority", {}, "priority_class"),
    (f"{JOBS}/known/priority", {"priority_class": None}, "priority_class"),
    (f"{JOBS}/known/priority", {"priority_class": "x" * 64}, "priority_class"),
    (f"{JOBS}/known/priority", {"priority_class": "normal", "value": 9}, "value"),
    (f"{JOBS}/known/priority", {"priority_class": "nothing"}, "priority_class"),
    (f"{JOBS}/known/exchange", {}, "other"),
    (f"{JOBS}/known/exchange", {"other": "known", "before": True}, "before"),
    (f"{JOBS}/known/clone", {"name": "Known"}, "name"),
    (f"{JOBS}/known/clone", {"name": "known"}, "name"),
    (f"{JOBS}/known/clone", {"queue": "nowhere"}, "queue"),
    (f"{JOBS}/known/clone", {"roles": []}, "roles"),
    (f"{JOBS}/known/cancel?colour=red", None, "colour"),
    (f"{JOBS}/known/cancel?dry_run=maybe", None, "dry_run"),
    (f"{TEAM}/job-actions", {"action": "dance", "jobs": ["known"]}, "action"),
    (f"{TEAM}/job-actions", {"action": "cancel", "jobs": []}, "jobs"),
    (f"{TEAM}/job-actions", {"action": "cancel", "jobs": "known"}, "jobs"),
    (f"{TEAM}/job-actions", {"action": "cancel", "jobs": ["known"] * 201}, "jobs"),
    (f"{TEAM}/job-actions", {"action": "cancel", "jobs": [{}]}, "jobs.0"),
    (f"{TEAM}/job-actions", {"action": "priority", "jobs": ["known"]}, "priority_class"),
    (f"{TEAM}/job-actions", {"action": "cancel", "jobs": ["known"], "priority_class": "x"}, "priority_class"),
    (f"{TEAM}/keys", {}, "name"),
    (f"{TEAM}/keys", {"name": "x" * 81}, "name"),
    (f"{TEAM}/keys", {"name": "a\u0000"}, "name"),
    (f"{TEAM}/keys", {"name": "ci", "scopes": ["world.rule"]}, "scopes.0"),
    (f"{TEAM}/keys", {"name": "ci", "scopes": "job.view"}, "scopes"),
    (f"{TEAM}/keys", {"name": "ci", "expires_at": "tomorrow"}, "expires_at"),
]


@pytest.fixture
def editor(w: World, as_user: As) -> APIClient:
    jobs.priority_class("steep", 1000)
    jobs.job(w.queue, w.editor, "known")
    return as_user(w.editor)


def rows() -> list[Any]:
    """Return what a refused request may not change: rows and versions, without records of denials."""
    kept = [Job, JobRole, Task, JobEvent, Hint, IdempotencyKey, AccessKey]
    audit = AuditRecord.unscoped.exclude(result="denied").count()
    versions = list(Job.unscoped.order_by("pk").values_list("pk", "version", "state", "priority"))
    return [*(model._base_manager.count() for model in kept), audit, versions]


def refused(client: APIClient, path: str, body: Any, field: str) -> None:
    before = rows()

    # JSON in plain ASCII, because half of a surrogate pair cannot be sent otherwise.
    text = "" if body is None else json.dumps(body)
    headers = {"Idempotency-Key": "bad", "Accept-Language": "zh-hans"}
    answer = client.generic("POST", path, text, content_type="application/json", headers=headers)

    problem = answer.json()
    assert answer.status_code in (400, 409, 422), problem
    assert answer["Content-Type"] == "application/problem+json"
    assert field in {error["field"] for error in problem["errors"]}, problem
    assert problem["code"] and all(error["code"] and error["message"] for error in problem["errors"])
    assert rows() == before


def _name(value: Any) -> str:
    return str(value)[:60]


@pytest.mark.parametrize(("change", "field"), JOB_ROWS, ids=_name)
def test_a_job_that_cannot_be(editor: APIClient, change: dict[str, Any], field: str) -> None:
    refused(editor, JOBS, GOOD | change, field)


@pytest.mark.parametrize(("path", "body", "field"), OTHER_ROWS, ids=_name)
def test_a_request_that_cannot_be(editor: APIClient, path: str, body: Any, field: str) -> None:
    refused(editor, path, body, field)


def test_the_row_that_all_others_spoil_is_good(editor: APIClient) -> None:
    assert editor.post(JOBS, GOOD).status_code == 202
