"""Whatever `docs/job-file.md` states about a field of a job file holds everywhere.

The page is read as text, so that only its declaration describes a field: the parser, the schema, the API, the
console's form, policies and the engine are compared with its bounds, default and words.
"""

from __future__ import annotations

import re
from copy import deepcopy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.test import Client
from rest_framework.test import APIClient

from foundation.core import clock
from foundation.core.errors import Invalid
from frontend.pages.submission.job_values import to_form
from quotas.models import Queue
from scheduling.engine.model import Job as EngineJob
from scheduling.engine_input.jobs import asked_job
from scheduling.job_file import parse_job
from scheduling.job_file.declaration.fields import FIELDS
from scheduling.models import WorkspacePolicy
from scheduling.policy import combine_policies, find_violations
from scheduling.policy.fields import CAPPED
from tests.api.conftest import As
from tests.builders.world import World

ROOT = Path(__file__).resolve().parents[2]
JOBS = "/api/v1/workspaces/team-a/jobs"
LARGEST = 2**31 - 1
# What a mapping needs besides the tested field, and what a field needs besides itself.
NEEDED: dict[str, dict[str, Any]] = {
    "lifecycle": {"on": "task_failed", "do": "restart_job"},
    "placement.topology": {"level": "rack"},
    "placement.tolerations": {"key": "dedicated"},
    "environment_from": {"secret": "hub", "prefix": "HUB_"},
    "roles.probes.startup.http": {"port": 8080},
    "roles.pre_stop.http": {"port": 8080},
    "volumes": {"claim": "data", "mount": "/data"},
    "roles.probes.startup": {"tcp": 80},
    "roles.probes.readiness": {"tcp": 80},
    "roles.resources.gpu.cores": {"mode": "slice", "memory": "1Gi"},
    "roles.resources.gpu.memory": {"mode": "slice", "cores": 30},
    "roles.resources.gpu.profile": {"mode": "mig"},
    "roles.min_replicas": {"replicas": 4096},
    "gang.min_available": {},
    "roles.resources.exclusive_cpus": {"cpu": 2, "memory": "1Gi"},
}
INSTEAD = {  # fields to remove for a field that excludes them
    "volumes": ("claim", "empty", "config", "secret"),
    "environment_from": ("secret", "config"),
    "roles.probes.startup": ("tcp", "command", "http"),
}


@dataclass(frozen=True)
class Described:
    """A row of the page."""

    path: str
    words: str
    open: str

    @property
    def bounds(self) -> tuple[float, float] | None:
        found = re.match(
            r"(?:whole number|number|percent), (?:at least )?([\d,.]+)(?: to ([\d,.]+))?$", self.words
        )
        if not found:
            return None
        low, high = (float(text.replace(",", "")) if text else LARGEST for text in found.groups())
        return low, high

    @property
    def limit(self) -> int | None:
        found = re.match(r"text, at most ([\d,]+) characters", self.words)
        return int(found[1].replace(",", "")) if found else None

    @property
    def choices(self) -> list[str]:
        return re.findall(r"`([^`]+)`", self.words) if re.fullmatch(r"(`[^`]+`(, )?)+", self.words) else []


def rows() -> list[Described]:
    page = (ROOT / "docs" / "job-file.md").read_text("utf-8")
    found = re.findall(r"^\| `([a-z_.]+)` \| (.*?) \| (.*?) \| (.*?) \|$", page, re.M)
    return [Described(path, words, left) for path, words, left, _meaning in found]


ROWS = rows()
each = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.path)
bounded = pytest.mark.parametrize("row", [row for row in ROWS if row.bounds], ids=lambda row: row.path)


def test_every_field_is_described() -> None:
    described = {row.path for row in ROWS}
    alike = ("roles.probes.readiness.", "roles.probes.liveness.", "roles.pre_stop.http.")
    assert {path for path in FIELDS if not path.startswith(alike)} == described
    assert len(ROWS) == len(described)


def body_with(path: str, value: Any) -> dict[str, Any]:
    """Return a job file that is valid except for the value at `path`."""
    body: dict[str, Any] = {"name": "one", "roles": [{}]}
    place, walked = body, ""
    *way, last = path.split(".")
    for key in way:
        walked = f"{walked}.{key}".strip(".")
        if key in INSTEAD.get(walked.rpartition(".")[0], ()):
            place.clear()
        inner = deepcopy(NEEDED.get(walked, {}))
        if FIELDS[walked].kind.words.startswith("list"):
            place[key] = place.get(key) or [inner]
            place = place[key][0]
        else:
            place = place.setdefault(key, inner)
    if last in INSTEAD.get(walked, ()):
        for other in INSTEAD[walked]:
            place.pop(other, None)
    if only := FIELDS[path].only:
        for other in INSTEAD.get(walked, ()):
            place.pop(other, None)
        place |= {"empty": {"empty": "1Gi"}}.get(only[0], {only[0]: "data"} if walked == "volumes" else {})
    place |= NEEDED.get(path, {}) if path.count(".") or path not in ("lifecycle", "volumes") else {}
    place[last] = value
    return body


def mistakes(body: dict[str, Any]) -> set[str]:
    """Return the paths of invalid values, without indices of lists."""
    try:
        parse_job(body)
    except Invalid as error:
        return {re.sub(r"\.\d+", "", found.field) for found in error.errors}
    return set()


@bounded
def test_the_parser_takes_the_bounds_and_nothing_beyond(row: Described) -> None:
    assert row.bounds is not None
    low, high = row.bounds
    whole = not row.words.startswith("number")
    step = 1 if whole else 0.5
    # Only readiness may ask for several successes, and the most tasks of a gang are those of its job.
    path = row.path.replace("startup.successes", "readiness.successes")
    for value in (low, high) if path != "gang.min_available" else (low,):
        assert mistakes(body_with(path, int(value) if whole else value)) == set(), value
    for value in (low - step, *((high + step,) if high < LARGEST else ()), "many", True):
        wrong = int(value) if whole and isinstance(value, float) else value
        assert mistakes(body_with(path, wrong)) == {path}, value


@pytest.mark.parametrize("row", [row for row in ROWS if row.limit], ids=lambda row: row.path)
def test_the_parser_takes_texts_of_the_documented_length(row: Described) -> None:
    assert row.limit is not None
    assert row.path in mistakes(body_with(row.path, "a" * (row.limit + 1)))
    assert row.path in mistakes(body_with(row.path, 5))
    begins = {"mount": "/", "path": "/", "working_directory": "/", "level": "example.com/"}.get(
        row.path.rpartition(".")[2], ""
    )
    # A profile has a form of its own, and a role must be one of the job's.
    if row.path not in ("roles.resources.gpu.profile", "lifecycle.role"):
        text = begins + "a" * (row.limit - len(begins))
        assert mistakes(body_with(row.path, text)) == set()


@pytest.mark.parametrize("row", [row for row in ROWS if row.choices], ids=lambda row: row.path)
def test_the_parser_takes_the_documented_words_and_no_other(row: Described) -> None:
    needed = {
        "slice": {"cores": 1, "memory": "1Gi"},
        "mig": {"profile": "1g.5gb"},
        "task_completed": {"do": "complete_job"},
        "role_completed": {"do": "complete_job", "role": "main"},
    }
    for word in row.choices:
        body = body_with(row.path, word)
        if row.path == "roles.resources.gpu.mode":
            body["roles"][0]["resources"]["gpu"] |= needed.get(word, {})
        if row.path == "lifecycle.on":
            body["lifecycle"][0] |= needed.get(word, {})
        assert mistakes(body) == set(), word
    assert row.path in mistakes(body_with(row.path, "another"))


@each
def test_the_default_is_the_documented_one(row: Described) -> None:
    told = re.fullmatch(r"`(.*)`", row.open)
    if told is None or row.path.startswith(("roles.", "placement.")):
        return  # The document has no default, or the field is below a mapping that is absent.
    spec = parse_job({"name": "one", "roles": [{}]})
    value = getattr(spec, row.path)
    assert (str(value).lower() if isinstance(value, bool) else str(value)) == told[1]


@pytest.fixture(scope="module")
def components() -> dict[str, Any]:
    found: dict[str, Any] = yaml.load((ROOT / "docs" / "openapi.yaml").read_text("utf-8"), yaml.CSafeLoader)
    return dict(found["components"]["schemas"])


def resolved(schema: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    for part in (schema, *schema.get("allOf", ())):
        if "$ref" in part:
            own = {key: schema[key] for key in schema if key != "$ref"}
            return dict(components[part["$ref"].rpartition("/")[2]]) | own
    return schema


@each
def test_the_schema_documents_the_same(row: Described, components: dict[str, Any]) -> None:
    above: dict[str, Any] = {}
    schema: dict[str, Any] = components["JobFileRequest"]
    for key in row.path.split("."):
        above = schema
        schema = resolved(schema["properties"][key], components)
        if schema.get("type") == "array":
            schema = resolved(schema["items"], components) | {"listed": schema}
    if row.bounds:
        low, high = row.bounds
        assert (schema["minimum"], schema["maximum"]) == (low, high)
    if row.limit:
        assert schema["maxLength"] == row.limit
    if row.choices:
        assert schema["enum"] == row.choices
    if row.words == "true or false":
        assert schema["type"] == "boolean"
    if listed := re.match(r"list of at most (\d+) (?:texts|whole)", row.words):
        assert schema["listed"]["maxItems"] == int(listed[1])
    assert (row.path.rpartition(".")[2] in above.get("required", ())) == (row.open == "required")
    if told := re.fullmatch(r"`(.*)`", row.open):
        value = schema["default"]
        assert (str(value).lower() if isinstance(value, bool) else str(value)) == told[1]


def shown_rows() -> list[Described]:
    return [row for row in ROWS if row.bounds and FIELDS[row.path].form]


@pytest.mark.parametrize("row", shown_rows(), ids=lambda row: row.path)
def test_the_api_and_the_form_refuse_what_is_beyond(
    row: Described, client: Client, w: World, as_user: As
) -> None:
    assert row.bounds is not None
    low, high = row.bounds
    editor: APIClient = as_user(w.editor)
    client.force_login(w.editor)
    beyond = low - 1 if high == LARGEST else high + 1
    for value, right in ((low, True), (beyond, False)):
        body = body_with(row.path, int(value))
        problem = editor.post(f"{JOBS}?dry_run=true", body).json()
        named = {re.sub(r"\.\d+", "", error["field"]) for error in problem.get("errors", ())}
        assert (row.path in named) == (not right), problem
        page = client.post("/w/team-a/jobs/new", typed(body)).content.decode()
        name = FIELDS[row.path].input_name
        prefix = "roles-0-" if row.path.startswith("roles.") else ""
        assert (f'id="id_{prefix}{name}_error"' in page) == (not right), value


def typed(body: dict[str, Any]) -> dict[str, Any]:
    """Return the values of the form for a job file; `do` is anything that submits."""
    values = to_form(body)
    found = {key: value for key, value in values.main.items() if value is not None and value is not False}
    for key, value in values.roles[0].items():
        if key != "more" and value is not None:
            found[f"roles-0-{key}"] = value
    found.setdefault("roles-0-replicas", 1)
    return found | {"tab": "form", "do": "submit"}


LIMITED = [
    row for row in ROWS if FIELDS[row.path].policy == "amount" and row.bounds and row.path not in CAPPED
]


@pytest.mark.parametrize("row", LIMITED, ids=lambda row: row.path)
def test_a_policy_limits_what_the_file_says(row: Described, w: World) -> None:
    assert row.bounds is not None
    low = int(row.bounds[0]) + 1
    policy = combine_policies([WorkspacePolicy(tenant=w.workspace, maximum={row.path: low})])
    for value, refused in ((low, False), (low + 1, True)):
        body = body_with(row.path, value)
        if row.path == "gang.min_available":
            body["roles"][0]["replicas"] = value
        found = {re.sub(r"\.\d+", "", error.field) for error in find_violations(parse_job(body), policy)}
        assert found == ({row.path} if refused else set())


def test_the_engine_gets_every_field_that_it_needs(w: World) -> None:
    of_engine = {field.name for field in FIELDS.values() if field.engine}
    assert of_engine <= {field.name for field in fields(EngineJob)}
    for path, field in FIELDS.items():
        if field.engine:
            value = False if field.kind.words == "true or false" else 7
            body = body_with(path, value)
            body["roles"][0]["replicas"] = 9
            job = asked_job(parse_job(body), Queue(workspace_id=w.workspace.pk), priority=0, now=clock.now())
            assert getattr(job, field.name) == value, path
