"""The form for a job: conversions lose nothing, mistakes appear at their fields, typed text is kept."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.test import Client
from django.utils.html import strip_tags

from clusters.backends.base import TaskRef, TaskSpec
from clusters.backends.kubernetes.pods.pods import build_manifest
from clusters.models import GpuMode
from foundation.core import clock
from foundation.core.bounded_parsing import read_yaml
from foundation.core.errors import FieldError
from frontend.pages.jobs.detail.spec_text import spec_text
from frontend.pages.submission.drafts import add_lines
from frontend.pages.submission.job_values import FormValues, field_of, to_form, to_mapping
from quotas.models import QueueFlavor, Quota
from scheduling.job_file import find_lines, load_text, parse_job
from scheduling.models import Job, StartEstimate
from scheduling.services.policy_replay import run as policy_replays
from scheduling.services.start_estimate import draft as start_draft
from scheduling.services.start_estimate import request
from scheduling.services.start_estimate import run as start_estimates
from telemetry.models import Price
from tests.builders import clusters, jobs
from tests.builders.world import World, world
from tests.unit.scheduling.spec.test_run_settings import FULL as RUN_SETTINGS

NEW = "/w/team-a/jobs/new"
TYPED: dict[str, Any] = {
    "tab": "form", "name": "train-1", "kind": "pytorch", "queue": "default", "priority_class": "normal",
    "preemptible": "on", "roles-0-name": "worker", "roles-0-replicas": "2", "roles-0-cpu": "8",
    "roles-0-role_memory": "32Gi", "roles-0-gpu": "whole:A100-40G", "roles-0-cards": "1",
    "roles-0-image": "pytorch/pytorch:2.8", "roles-0-command": "python 'my train.py' --fast",
    "environment": "A=1\nB=two=2", "max_run_s": "3600", "do": "submit",
}  # fmt: skip
FULL = """
kind: pytorch
name: llama
queue: default
priority_class: normal
preemptible: false
min_run_s: 600
max_run_s: 86400
gang: {min_available: 5}
roles:
  - name: master
    replicas: 1
    image: pytorch/pytorch:2.8
    command: [python, "a b.py"]
    resources: {cpu: 8, memory: 64Gi, gpu: {cards: 1, mode: whole}}
  - name: worker
    replicas: 8
    min_replicas: 4
    resources: {cpu: 500m, memory: 64Gi, gpu: {cards: 1, mode: slice, cores: 30, memory: 50%, model: [A, B]}}
placement: {node_selector: {disk: ssd}, tolerations: [{key: x, operator: Exists}]}
lifecycle: [{on: task_failed, do: restart_job, max: 3}]
environment: {KEY: value}
volumes: [{claim: data, mount: /data, read_only: true}]
simulate: {run_s: 1200, gpu_utilisation: 0.7}
"""


@pytest.fixture
def w(db: None) -> World:
    return world()


MIG = """
name: small
roles:
  - {name: main, image: x, resources: {cpu: 1, memory: 1Gi, gpu: {cards: 2, mode: mig, profile: 1g.10gb}}}
"""
SECRETS = {"LEVEL": "info", "TOKEN": {"secret": "hub", "key": "token"}}


@pytest.mark.parametrize("text", [FULL, RUN_SETTINGS, MIG])
def test_a_full_file_survives_the_way_to_the_form_and_back(text: str) -> None:
    body = load_text(text)
    assert parse_job(to_mapping(to_form(body))) == parse_job(body)
    assert parse_job(load_text(spec_text(body))) == parse_job(body)


def test_variables_that_are_typed_are_listed_beside_those_that_are_read() -> None:
    values = to_form({"environment": SECRETS})
    assert values.main["environment"] == "LEVEL=info"
    values.main["environment"] = "LEVEL=debug\nMORE=1"
    assert to_mapping(values)["environment"] == {**SECRETS, "LEVEL": "debug", "MORE": "1"}


@pytest.mark.parametrize(
    "body", [{}, {"roles": 3}, {"roles": [1, None]}, {"gang": "x", "environment": [1], "placement": "y"}]
)
def test_a_file_of_the_wrong_shape_does_not_break_the_form(body: dict[str, Any]) -> None:
    assert isinstance(to_form(body), FormValues)
    to_mapping(to_form(body))


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("name", (None, "name")),
        ("gang.min_available", (None, "min_available")),
        ("environment.A", (None, "environment")),
        ("roles.1.resources.memory", (1, "role_memory")),
        ("roles.0.resources.gpu.memory", (0, "memory")),
        ("roles.0.resources.gpu.model.0", (0, "gpu")),
        ("roles.0.command.2", (0, "command")),
        ("volumes.0.mount", (None, "volumes")),
        ("lifecycle.0.max", (None, "retries")),
        ("security.run_as_user", (None, "")),
        ("roles", (None, "")),
    ],
)
def test_paths_find_their_field(path: str, field: tuple[int | None, str]) -> None:
    assert field_of(path) == field


def test_the_form_submits_a_job(client: Client, w: World) -> None:
    client.force_login(w.editor)
    assert client.get(NEW).status_code == 200
    answer = client.post(NEW, TYPED)
    job = Job.unscoped.get(name="train-1")
    assert answer["Location"] == f"/w/team-a/jobs/{job.pk}"
    role = job.roles.get()
    assert (role.replicas, role.gpu_cards, role.gpu_models) == (2, 1, ["A100-40G"])
    assert role.command == ["python", "my train.py", "--fast"]
    assert job.environment == {"A": "1", "B": "two=2"}
    assert job.max_run_s == 3600


def test_what_the_form_says_of_the_program_reaches_its_pods(client: Client, w: World) -> None:
    client.force_login(w.editor)
    told = {"roles-0-args": "--data '/my data'", "roles-0-working_directory": "/srv", "retries": "4",
            "roles-0-shared_memory": "16Gi", "volumes": "data:/data:ro\nresults:/out"}  # fmt: skip
    assert client.post(NEW, TYPED | told).status_code == 302
    job = Job.unscoped.get(name="train-1")
    assert job.lifecycle == [{"on": "task_failed", "do": "restart_job", "max": 4}]
    role = job.roles.get()
    spec = TaskSpec(
        ref=TaskRef("team-a", "p"), node="n", cpu_millicores=1, memory_mib=1, devices=(), image=role.image,
        command=tuple(role.command), environment=job.environment, labels={}, workspace="w",
        options={**job.runtime, **role.container, "volumes": job.volumes},
    )  # fmt: skip
    pod = build_manifest(spec, "here")["spec"]
    (container,) = pod["containers"]
    assert (container["args"], container["workingDir"]) == (["--data", "/my data"], "/srv")
    assert pod["volumes"] == [
        {"name": "volume-0", "persistentVolumeClaim": {"claimName": "data"}},
        {"name": "volume-1", "persistentVolumeClaim": {"claimName": "results"}},
        {"name": "shared-memory", "emptyDir": {"sizeLimit": "16384Mi", "medium": "Memory"}},
    ]
    assert container["volumeMounts"] == [
        {"name": "volume-0", "mountPath": "/data", "readOnly": True},
        {"name": "volume-1", "mountPath": "/out"},
        {"name": "shared-memory", "mountPath": "/dev/shm"},
    ]


@pytest.mark.parametrize(
    ("name", "typed"),
    [
        ("roles-0-shared_memory", "33Gi"),
        ("roles-0-shared_memory", "0Gi"),
        ("roles-0-working_directory", "srv"),
        ("volumes", "data:data"),
        ("volumes", "/host:/data"),
        ("volumes", "a:/data\nb:/data"),
        ("retries", "many"),
        ("retries", "101"),
    ],
)
def test_a_wrong_setting_of_the_program_is_refused_at_its_field(
    client: Client, w: World, name: str, typed: str
) -> None:
    client.force_login(w.editor)
    page = client.post(NEW, TYPED | {name: typed})
    assert page.status_code == 400
    assert f'id="id_{name}_error"' in page.content.decode()
    assert not Job.unscoped.exists()


def test_mistakes_are_shown_at_their_fields_and_what_was_typed_stays(client: Client, w: World) -> None:
    client.force_login(w.editor)
    wrong = TYPED | {"name": "Not Good", "roles-0-replicas": "many", "roles-0-role_memory": "32 bananas"}
    answer = client.post(NEW, wrong)
    assert answer.status_code == 400
    text = answer.content.decode()
    for field in ("id_name", "id_roles-0-replicas", "id_roles-0-role_memory"):
        assert f'id="{field}_error"' in text, field
    for typed in ("Not Good", "many", "32 bananas", "B=two=2", "my train.py"):
        assert typed in text
    assert not Job.unscoped.exists()


def test_a_job_that_never_fits_is_refused_with_the_reason(client: Client, w: World) -> None:
    client.force_login(w.editor)
    answer = client.post(NEW, TYPED | {"roles-0-cards": "64"})
    assert answer.status_code == 422
    assert "Can&#x27;t be scheduled" in answer.content.decode()


def test_instances_are_asked_for_by_profile(client: Client, w: World) -> None:
    pool = clusters.flavor(w.cluster, "h100-mig", card_model="H100", mode=GpuMode.MIG)
    QueueFlavor.unscoped.create(queue=w.queue, flavor=pool, position=1)
    client.force_login(w.editor)
    assert "H100, MIG instances" in client.get(NEW).content.decode()
    asked = {**TYPED, "roles-0-gpu": "mig:H100", "roles-0-profile": "1g.10gb", "do": "to-yaml"}
    text = client.post(NEW, asked).content.decode()
    assert "profile: 1g.10gb" in text
    assert "memory: 32Gi" in text


def test_a_wrong_line_is_named_with_the_other_mistakes(client: Client, w: World) -> None:
    client.force_login(w.editor)
    wrong = TYPED | {"environment": "A=1\r\nNOTANASSIGN", "roles-0-replicas": "many"}
    for action in ("submit", "to-yaml"):
        text = client.post(NEW, wrong | {"do": action}).content.decode()
        assert 'id="id_environment_error"' in text, action
        assert "A=1\nNOTANASSIGN" in text
        assert 'name="tab" value="form"' in text
        assert ('id="id_roles-0-replicas_error"' in text) == (action == "submit")
    assert not Job.unscoped.exists()


def test_a_taken_name_is_said(client: Client, w: World) -> None:
    jobs.job(w.queue, w.editor, "train-1")
    client.force_login(w.editor)
    answer = client.post(NEW, TYPED)
    assert answer.status_code == 409 and 'id="id_name_error"' in answer.content.decode()


def test_form_to_yaml_and_back(client: Client, w: World) -> None:
    client.force_login(w.editor)
    text = client.post(NEW, TYPED | {"do": "to-yaml"}).content.decode()
    assert "name: train-1" in text
    assert 'name="tab" value="yaml"' in text
    back = client.post(NEW, {"tab": "yaml", "yaml": FULL, "do": "to-form"}).content.decode()
    assert 'value="llama"' in back
    assert "Kept: placement.tolerations." in back
    bad = client.post(NEW, {"tab": "yaml", "yaml": "a: [", "do": "to-form"}).content.decode()
    assert bad.count("Invalid YAML in line") == 1
    assert "submitted" not in bad.partition("data-refusal")[2].partition("</div>")[0]
    assert "a: [" in bad
    sent = client.post(NEW, {"tab": "yaml", "yaml": "a: [", "do": "submit"}).content.decode()
    assert sent.count("Invalid YAML in line") == 1 and "The job wasn't submitted" in sent


def test_yaml_is_submitted_and_its_mistakes_are_named(client: Client, w: World) -> None:
    client.force_login(w.editor)
    answer = client.post(NEW, {"tab": "yaml", "yaml": "name: y-1\nroles: [{replicas: 0}]", "do": "submit"})
    assert answer.status_code == 400
    assert "roles.0.replicas" in answer.content.decode()
    answer = client.post(NEW, {"tab": "yaml", "yaml": "name: y-1\nroles: [{replicas: 1}]", "do": "submit"})
    assert answer.status_code == 302


def test_roles_are_added_and_removed(client: Client, w: World) -> None:
    client.force_login(w.editor)
    two = client.post(NEW, TYPED | {"do": "add-role"}).content.decode()
    assert "roles-1-replicas" in two
    more = TYPED | {"roles-1-name": "second", "roles-1-replicas": "1"}
    one = client.post(NEW, more | {"do": "remove-role-0"}).content.decode()
    assert 'value="second"' in one
    assert "roles-1-replicas" not in one


def test_a_clone_starts_from_the_job(client: Client, w: World) -> None:
    source = jobs.job(w.queue, w.editor, "origin")
    client.force_login(w.editor)
    text = client.get(f"{NEW}?from={source.pk}").content.decode()
    assert 'value="origin-' in text
    assert client.get(f"{NEW}?from=nothing").status_code == 404


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Starts immediately"),
        ({"roles-0-cards": "64"}, "Can&#x27;t be scheduled"),
        ({"roles-0-cards": "x"}, "<b>Task role 1: GPUs per task</b>"),
        ({"environment": "LR"}, "Use NAME=value, for example LR=0.1, instead of: LR"),
        ({"queue": "none"}, "Will be rejected"),
        ({"roles-0-gpu": "none"}, "Starts immediately"),
        ({"tab": "yaml", "yaml": "a: ["}, "Invalid YAML"),
    ],
)
def test_the_rail_shows_the_check_before_submission(
    client: Client, w: World, changes: dict[str, str], said: str
) -> None:
    client.force_login(w.editor)
    answer = client.post(f"{NEW}/check", TYPED | changes)
    assert answer.status_code == 200
    assert said in answer.content.decode()
    assert not Job.unscoped.exists()


def test_the_rail_shows_that_nothing_is_free(client: Client, w: World) -> None:
    for node in w.nodes:
        holder = jobs.job(w.other_queue, w.outsider, roles=[jobs.RoleOf(cards=8)])
        jobs.allocate(holder, node)
    client.force_login(w.editor)
    assert "Will be queued" in client.post(f"{NEW}/check", TYPED).content.decode()


def test_only_granted_classes_are_offered(client: Client, w: World) -> None:
    jobs.priority_class("high", 100)
    client.force_login(w.editor)
    text = client.get(NEW).content.decode()
    assert "normal (0)" in text
    assert "high (100)" not in text


@pytest.mark.parametrize(
    "changes",
    [
        {"do": "remove-role-" + "9" * 5000},
        {"roles-0-cpu": "9" * 5000},
        {"roles-0-replicas": "9" * 5000},
        {"max_run_s": "9" * 5000},
        {"source": "[" * 100_000},
        {"source": "roles." + "9" * 5000 + ".name: 1"},
        {"source": "a: &a [*a]"},
        {"roles-0-command": "'" + "a" * 200_000},
        {"tab": "yaml", "yaml": "[" * 50_000},
        {"tab": "yaml", "yaml": "[" * 50_000, "do": "to-form"},
        {"tab": "yaml", "yaml": "roles." + "9" * 5000 + ".name: 1"},
        {"tab": "yaml", "yaml": "roles: [{resources: {limits: {cpu: '" + "9" * 5000 + "'}}}]"},
        {"tab": "yaml", "yaml": "roles: [{resources: {limits: {cpu: " + "9" * 5000 + "}}}]"},
    ],
)
def test_what_is_typed_beyond_all_measure_is_a_mistake_like_any(
    client: Client, w: World, changes: dict[str, Any]
) -> None:
    client.force_login(w.editor)

    sent = client.post(NEW, {**TYPED, **changes})
    checked = client.post(f"{NEW}/check", {**TYPED, **changes})

    assert (sent.status_code, checked.status_code) in [(200, 200), (400, 200), (413, 200), (302, 200)]


def button_values(page: str) -> list[str]:
    return [html.unescape(value) for value in re.findall(r'name="do" value="(change:[^"]+)"', page)]


def test_a_recommendation_of_the_check_changes_the_form(client: Client, w: World) -> None:
    client.force_login(w.editor)
    large = TYPED | {"roles-0-cards": "64"}
    (change,) = button_values(client.post(f"{NEW}/check", large).content.decode())
    answer = client.post(NEW, large | {"do": change})
    page = answer.content.decode()
    assert (answer.status_code, Job.unscoped.exists()) == (200, False)
    assert re.search(r'name="roles-0-cards"[^>]*value="8"', page)
    assert "B=two=2" in page


def test_a_recommendation_of_the_check_changes_the_yaml(client: Client, w: World) -> None:
    client.force_login(w.editor)
    resources = "{cpu: 1, memory: 1Gi, gpu: {cards: 64, mode: whole}}"
    text = f"# kept\nname: big\nroles:\n  - {{name: main, replicas: 1, image: x, resources: {resources}}}\n"
    typed = {"tab": "yaml", "yaml": text}
    (change,) = button_values(client.post(f"{NEW}/check", typed).content.decode())
    page = client.post(NEW, typed | {"do": change}).content.decode()
    assert "# kept" in page
    assert "cards: 8" in page
    assert "cards: 64" not in page


def test_a_change_that_is_not_one_leaves_the_draft(client: Client, w: World) -> None:
    client.force_login(w.editor)
    for change in ("change:", "change:[", 'change:[{"code": "DELETE"}]'):
        answer = client.post(NEW, TYPED | {"do": change})
        assert (answer.status_code, Job.unscoped.exists()) == (200, False)
        assert "B=two=2" in answer.content.decode()


def test_a_recommendation_for_more_quota_leads_to_a_filled_request(client: Client, w: World) -> None:
    client.force_login(w.admin)
    Quota.unscoped.filter(resource__startswith="gpu").update(borrowing_limit=0)
    page = client.post(f"{NEW}/check", TYPED | {"roles-0-replicas": "10"}).content.decode()
    (link,) = re.findall(r'href="(/w/team-a/requests[^"]+)"', page)
    request = client.get(html.unescape(link)).content.decode()
    assert "Filled in for job train-1" in request
    assert re.search(r'name="gpu.cards.nominal"[^>]*value="10"', request)


@pytest.mark.parametrize("short", ["", "gpu.cards:x", "rocks:4", "gpu.cards:" + "9" * 60])
def test_a_request_that_names_no_amount_is_not_filled(client: Client, w: World, short: str) -> None:
    client.force_login(w.admin)
    query = {"queue": "default", "pool": w.flavor.name, "short": short}
    page = client.get("/w/team-a/requests", query)
    assert page.status_code == 200
    assert "Filled in for job" not in page.content.decode()


def test_a_draft_that_would_wait_gets_an_estimate_that_its_own_user_sees(client: Client, w: World) -> None:
    waits = TYPED | {"roles-0-replicas": "1", "roles-0-cards": "8", "roles-0-gpu": "whole:"}
    for node in w.nodes:
        jobs.allocate(
            jobs.job(w.other_queue, w.outsider, roles=[jobs.RoleOf(cards=8)], preemptible=False), node
        )
    client.force_login(w.editor)

    rail = client.post(f"{NEW}/check", waits).content.decode()

    assert "Queue position" in rail and "1 of 1 in default" in rail
    assert "Estimate start" in rail
    assert (
        "Estimate start" not in client.post(f"{NEW}/check", TYPED | {"roles-0-cards": "900"}).content.decode()
    )
    asked = client.post(f"{NEW}/estimate", waits | {"do": "estimate"}).content.decode()
    made = StartEstimate.unscoped.get()
    live = f"{NEW}/estimate?of={made.pk}"
    assert f'data-live="{live}"' in asked and "Pending: one simulation is computed at a time." in asked
    assert f'data-live="{live}"' in client.post(f"{NEW}/check", waits).content.decode()
    assert (
        f'data-live="{live}"' not in client.post(f"{NEW}/check", waits | {"max_run_s": "60"}).content.decode()
    )
    StartEstimate.unscoped.update(state="running", progress=420, seen_at=clock.now())
    answer = client.get(live)
    assert answer.status_code == 200 and "Running: 42 %" in answer.content.decode()

    client.force_login(w.admin)
    foreign = client.get(live)
    assert foreign.status_code == 286 and "canceled" in foreign.content.decode()
    client.post(f"{NEW}/estimate", {"do": "cancel"})
    assert "data-live" not in client.post(f"{NEW}/check", waits).content.decode()

    client.force_login(w.editor)
    bounds = {"low_s": 600, "likely_low_s": 900, "median_s": 1200, "likely_high_s": 1800, "high_s": None}
    found = {"made_at": clock.now().isoformat(), "horizon_s": 7200, "futures": 24, "runs": 40,
             "run_group": "same_job", "outcomes": 3, "simulated": []}  # fmt: skip
    StartEstimate.unscoped.update(state="done", result=bounds | found, finished_at=clock.now())
    answer = client.get(live)
    text = html.unescape(answer.content.decode())
    assert answer.status_code == 286
    assert "90 % range; may not start within 2 h." in text and "40 runs of this user" in text
    assert "90 % range" in html.unescape(client.post(f"{NEW}/check", waits).content.decode())
    ended = clock.now() - request.SHOWN_FOR - timedelta(seconds=1)
    StartEstimate.unscoped.update(finished_at=ended)
    for expired in (client.get(live), client.post(f"{NEW}/check", waits)):
        text = expired.content.decode()
        assert "has expired" in text and "90 % range" not in text and "canceled" not in text


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        ((500, 600, 700, 800, 900), ("8 min 20 s – 15 min after submission", "50 % range: 10 min – 13 min.")),
        ((0, 0, 0, 60, 120), ("0 s – 2 min after submission",)),
        ((0, 0, 0, 0, 0), ("Immediately after submission",)),
        ((600, 900, 1200, None, None), ("10 min after submission or later", "50 % range: 15 min or later.")),
        ((600, None, None, None, None), ("10 min after submission or later",)),
        ((None,) * 5, ("Not within 2 h of submission",)),
    ],
)
def test_an_estimate_of_a_draft_counts_from_submission_while_time_passes(
    client: Client, w: World, bounds: tuple[int | None, ...], said: tuple[str, ...]
) -> None:
    client.force_login(w.editor)
    client.post(f"{NEW}/estimate", TYPED | {"roles-0-cards": "8", "do": "estimate"})
    names = ("low_s", "likely_low_s", "median_s", "likely_high_s", "high_s")
    made_at = clock.now() - timedelta(minutes=9, seconds=20)
    found = {"made_at": made_at.isoformat(), "horizon_s": 7200, "futures": 24, "runs": 40,
             "run_group": "same_job", "outcomes": 3, "simulated": []}  # fmt: skip
    result = dict(zip(names, bounds, strict=True)) | found
    StartEstimate.unscoped.update(state="done", result=result, finished_at=made_at)

    answer = client.get(f"{NEW}/estimate?of={StartEstimate.unscoped.get().pk}")

    text = html.unescape(answer.content.decode())
    for sentence in (*said, "Estimated for a submission at", made_at.strftime("%Y-%m-%d")):
        assert sentence in text
    assert "now" not in strip_tags(text) and "canceled" not in text


def test_the_form_states_how_long_an_estimate_may_take(client: Client, w: World) -> None:
    assert start_draft.OPTIONS.budget_s * start_draft.MOST_WALL_PER_WORK < start_estimates.TASK_LIMIT_S - 10
    assert start_draft.OPTIONS.budget_s * start_draft.MOST_WALL_PER_WORK <= 4 * 60
    assert policy_replays.TASK_LIMIT_S == 45 * 60
    for node in w.nodes:
        held = jobs.job(w.other_queue, w.outsider, roles=[jobs.RoleOf(cards=8)], preemptible=False)
        jobs.allocate(held, node)
    client.force_login(w.editor)
    waits = TYPED | {"roles-0-replicas": "1", "roles-0-cards": "8", "roles-0-gpu": "whole:"}
    page = client.post(f"{NEW}/check", waits).content.decode()
    assert "Estimate start" in page
    assert "up to 4 minutes" in page and "45 minutes" in page


@pytest.mark.parametrize(
    ("state", "error", "said"),
    [
        ("failed", "NO_HISTORY", "fewer than 20 jobs have finished"),
        ("failed", "OUT_OF_TIME", "took too long"),
        ("failed", "INTERRUPTED", "worker stopped twice"),
        ("failed", "INTERNAL", "worker's log"),
        ("failed", "QUEUE_UNKNOWN", "would be refused"),
        ("canceled", "", "was canceled"),
    ],
)
def test_an_estimate_without_a_result_says_why(
    client: Client, w: World, state: str, error: str, said: str
) -> None:
    client.force_login(w.editor)
    client.post(f"{NEW}/estimate", TYPED | {"roles-0-cards": "8", "do": "estimate"})
    StartEstimate.unscoped.update(state=state, error=error)

    answer = client.get(f"{NEW}/estimate?of={StartEstimate.unscoped.get().pk}")

    assert answer.status_code == 286
    text = html.unescape(answer.content.decode())
    assert said in text and "Estimate again" in text and "data-live" not in text


def test_a_draft_that_would_be_refused_gets_no_estimate(client: Client, w: World) -> None:
    client.force_login(w.editor)
    answer = client.post(f"{NEW}/estimate", TYPED | {"queue": "nowhere", "do": "estimate"})
    assert "nowhere" in answer.content.decode()
    client.post(f"{NEW}/estimate", TYPED | {"environment": "no sign", "do": "estimate"})
    assert not StartEstimate.unscoped.exists()


def test_pools_show_the_price_that_is_in_effect(client: Client, w: World, settings: Any) -> None:
    settings.ALLOTMENT_CURRENCY = "EUR"
    client.force_login(w.editor)
    assert 'data-label="EUR per GPU-hour">–<' in client.get(NEW).content.decode()
    now = clock.now()
    for days, price in ((-2, "7.5"), (-1, "2.25"), (1, "9")):
        Price.unscoped.create(
            flavor=w.flavor,
            gpu_hour=Decimal(price),
            slice_hour=Decimal(1),
            effective_at=now + timedelta(days),
        )
    assert 'data-label="EUR per GPU-hour">2.25<' in client.get(NEW).content.decode()


@pytest.mark.parametrize(
    ("text", "field", "line"),
    [
        ("name: y-1\nrolls: []\nroles:\n  - replicas: 1\n", "rolls", 2),
        (
            "roles:\n  - replicas: 1\n  - name: b\n    replicas: 1\n    imag: x\n",
            "roles.1.imag",
            5,
        ),
        (
            "roles: [{replicas: 1, resources: {gpu: {\n  card: 1}}}]",
            "roles.0.resources.gpu.card",
            2,
        ),
    ],
)
def test_an_unknown_field_of_the_yaml_is_reported_with_its_line(
    client: Client, w: World, text: str, field: str, line: int
) -> None:
    client.force_login(w.editor)
    sent = {"tab": "yaml", "yaml": text, "do": "submit"}
    for address in (NEW, f"{NEW}/check"):
        answer = html.unescape(client.post(address, sent).content.decode())
        assert f"<code>{field}</code> Line {line}: Unknown field." in answer, address


def test_the_lines_of_many_errors_are_found_in_one_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The preview of a long text with 100 errors, which runs while typing, parsed it 100 times."""
    text = "roles:\n" + "".join(f"  - name: r-{n}\n    wrong: {'x' * 600}\n" for n in range(100))
    parsed: list[str] = []

    def count_parsing(content: str, bounds: Any) -> Any:
        parsed.append(content)
        return read_yaml(content, bounds)

    monkeypatch.setattr("scheduling.job_file.values.text.read_yaml", count_parsing)
    fields = [f"roles.{n}.wrong" for n in range(100)]

    found = add_lines(text, [FieldError(field, "UNKNOWN", "Unknown field.") for field in fields])

    assert [error.message for error in found] == [f"Line {2 * n + 3}: Unknown field." for n in range(100)]
    assert len(parsed) == 1


@pytest.mark.parametrize("field", ["roles.9", "roles.-1.name", f"roles.{'9' * 5000}", "roles.x", "roles"])
def test_an_error_of_a_missing_part_has_the_line_of_the_part_above(field: str) -> None:
    assert find_lines("name: a\nroles:\n  - name: b\n", [field, "rolls"]) == [2, 0]
