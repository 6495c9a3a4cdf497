"""Form and YAML describe the same job: the form keeps all of a file, and one change changes one thing.

The files are laid out by `job_texts`, which knows the path of each line and shares no code with the console.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest
from django.http import QueryDict
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from foundation.core.bounded_parsing import load_yaml
from frontend.pages.submission.drafts import JobDraft, edit_draft, read_draft
from frontend.pages.submission.job_form import JobForm
from scheduling.job_file import JOB_BOUNDS
from tests.builders.job_texts import JobText, any_job, write_job_text

EXAMPLES = int(os.environ.get("ALLOTMENT_EXAMPLES", "60"))
SEEDS = st.integers(0, 2**32)
OFTEN = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))


def in_form(text: str) -> QueryDict:
    """Return what a browser sends when the form of this text is sent back unchanged."""
    draft = JobDraft(read_draft(QueryDict("tab=yaml")).values, text, "yaml")
    edit_draft(draft, "to-form")
    assert draft.tab == "form", draft.errors
    form = JobForm(draft.values, queues=["first", "default"], classes=[], pools=[])
    sent = QueryDict(mutable=True)
    sent["tab"], sent["source"] = "form", draft.text.replace("\n", "\r\n")
    for part in (form.main, *form.roles):
        for bound in part:
            value = bound.value()
            options = getattr(bound.field, "choices", None)
            if value in (None, "") and options:
                value = next(iter(options))[0]  # a browser chooses the first of a list without a chosen one
            if isinstance(value, bool):
                if value:
                    sent[bound.html_name] = "on"
            else:
                sent[bound.html_name] = str("" if value is None else value).replace("\n", "\r\n")
    return sent


def to_yaml(sent: QueryDict) -> JobDraft:
    draft = read_draft(sent)
    edit_draft(draft, "to-yaml")
    return draft


def written(seed: int) -> tuple[Random, dict[str, Any], JobText]:
    random = Random(seed)
    job = any_job(random)
    text = write_job_text(random, job)
    assert load_yaml(text.text, JOB_BOUNDS) == job, text.text
    return random, job, text


@given(SEEDS)
@OFTEN
def test_an_untouched_form_gives_the_text_back(seed: int) -> None:
    _random, job, text = written(seed)
    sent = in_form(text.text)
    assert to_yaml(sent).text == text.text
    assert read_draft(sent).read_body() == job
    again = in_form(to_yaml(sent).text)
    assert again == sent


CHANGES = {
    "max_run_s": (("max_run_s",), "7200", 7200),
    "name": (("name",), "other", "other"),
    "queue": (("queue",), "first", "first"),
    "min_available": (("gang", "min_available"), "1", 1),
    "roles-0-replicas": (("roles", 0, "replicas"), "17", 17),
    "roles-0-image": (("roles", 0, "image"), "x: #y", "x: #y"),
    "roles-0-role_memory": (("roles", 0, "resources", "memory"), "1Gi", "1Gi"),
    "roles-0-shared_memory": (("roles", 0, "resources", "shared_memory"), "1Gi", "1Gi"),
    "roles-0-working_directory": (("roles", 0, "working_directory"), "/srv", "/srv"),
    "roles-0-args": (("roles", 0, "args"), "--lr '0.1 x'", ["--lr", "0.1 x"]),
    "run_s": (("simulate", "run_s"), "5", 5),
}


@given(SEEDS, st.sampled_from(sorted(CHANGES)))
@OFTEN
def test_a_change_of_one_field_changes_its_lines_alone(seed: int, name: str) -> None:
    _random, job, text = written(seed)
    path, typed, value = CHANGES[name]
    sent = in_form(text.text)
    sent[name] = typed
    draft = to_yaml(sent)
    assert draft.tab == "yaml", (draft.errors, text.text)
    assert load_yaml(draft.text, JOB_BOUNDS) == with_value(job, path, value)
    kept = text.lines_but(path)
    assert is_part(kept, draft.text.split("\n")), (text.text, draft.text)
    if has(job, path):
        assert len(draft.text.split("\n")) == len(text.text.split("\n")) or "|-" in text.text


@given(SEEDS)
@OFTEN
def test_an_emptied_field_removes_its_lines_alone(seed: int) -> None:
    random, job, text = written(seed)
    paths = [path for path in (("max_run_s",), ("roles", 0, "replicas"), ("gang",)) if has(job, path)]
    if not paths:
        return
    path = random.choice(paths)
    sent = in_form(text.text)
    sent[{"gang": "min_available", "replicas": "roles-0-replicas"}.get(str(path[-1]), "max_run_s")] = ""
    draft = to_yaml(sent)
    assert load_yaml(draft.text, JOB_BOUNDS) == without(job, path)
    kept = text.lines_but(path, gone=path)
    assert is_part(kept, draft.text.split("\n")), (text.text, draft.text)


@given(SEEDS)
@OFTEN
def test_a_removed_role_takes_its_lines_alone(seed: int) -> None:
    random, job, text = written(seed)
    count = len(job["roles"])
    if count == 1:
        return
    gone = random.randrange(count)
    draft = read_draft(in_form(text.text))
    edit_draft(draft, f"remove-role-{gone}")
    assert draft.error is None
    expected = {**job, "roles": [role for place, role in enumerate(job["roles"]) if place != gone]}
    assert load_yaml(draft.text, JOB_BOUNDS) == expected
    kept = text.lines_but(("roles", gone), gone=("roles", gone))
    assert is_part(kept, draft.text.split("\n"))


@given(SEEDS)
@OFTEN
def test_an_added_role_and_a_variable_take_no_line_away(seed: int) -> None:
    _random, job, text = written(seed)
    draft = read_draft(in_form(text.text))
    edit_draft(draft, "add-role")
    assert draft.error is None
    sent = in_form(draft.text)
    sent["environment"] = f"{sent['environment']}\r\nNEW=yes".strip()
    draft = to_yaml(sent)
    found = load_yaml(draft.text, JOB_BOUNDS)
    assert found["environment"] == {**job.get("environment", {}), "NEW": "yes"}
    assert found["roles"][:-1] == job["roles"]
    kept = text.lines_but(("roles", len(job["roles"])), ("environment",))
    assert is_part(kept, draft.text.split("\n")), (text.text, draft.text)


LINES = (
    ("environment", "A=1\r\nNOTANASSIGN", "LR=0.1", "NOTANASSIGN"),
    ("environment", "=1", "LR=0.1", "=1"),
    ("environment", "A=1\r\nA=2", "A is set more than once.", "A=2"),
    ("node_selector", "x", "disktype=ssd", "x"),
    ("volumes", "data:/data:ro\r\nother", "for example data:/data:ro, instead of: other", "other"),
    ("volumes", "data:/data:", "instead of: data:/data:", "data:/data:"),
    ("volumes", "data:/data:wo", "instead of: data:/data:wo", "data:/data:wo"),
    ("roles-0-command", "sh -c 'never closed", "Close every quote", "never closed"),
)


@pytest.mark.parametrize(("name", "typed", "said", "kept"), LINES)
def test_a_line_that_no_yaml_can_say_keeps_the_form_open(name: str, typed: str, said: str, kept: str) -> None:
    sent = in_form("name: a\nroles: [{replicas: 1}]\n")
    sent[name] = typed
    draft = to_yaml(sent)
    assert draft.tab == "form"
    form = JobForm(draft.values, queues=[], classes=[], pools=[])
    form.add_errors(draft.errors)
    part = form.roles[0] if name.startswith("roles") else form.main
    bound = part[name.removeprefix("roles-0-")]
    assert said in str(bound.errors)
    assert kept in str(bound.value())


@pytest.mark.parametrize(
    "text",
    [
        "roles: [{replicas: 1}, 7]",
        "roles: {a: 1}",
        "roles: []",
        "roles:\n" + "- {replicas: 1}\n" * 17,
        "a: &x 1",
        "a: 1\na: 2",
    ],
)
def test_a_text_that_the_form_cannot_show_stays_yaml(text: str) -> None:
    draft = JobDraft(read_draft(QueryDict("tab=yaml")).values, text, "yaml")
    edit_draft(draft, "to-form")
    assert (draft.tab, draft.text) == ("yaml", text)
    assert draft.errors


ODD = (
    "name: [1, 2]\nroles: [{replicas: 1}]\n",
    'name: "two\\nlines"\nkind: unknown\nroles: [{replicas: 1, command: python x.py}]\n',
    "preemptible: perhaps\nmax_run_s:\nroles:\n-\n  replicas: 1\n",
    "environment: {A: , B: true, C: ' x ', D: ''}\nroles: [{resources: {gpu: {cards: 0, memory: 3}}}]\n",
    "# only a comment\n\nroles: # here\n  - # there\n    replicas: 1\n...\n",
    "placement: {node_selector: {'a=b': c, d: 1.50}}\nqueue: null\nroles: [{replicas: 1,}]",
    "gang: x\nroles: [{resources: 3, command: [a, [b]]}]\nunknown: {deep: [1, 2, {x: ~}]}\n",
    '{"name": "json", "roles": [{"replicas": 1}]}',
    "name: without-roles\n",
    "roles:\nname: a\n",
)


@pytest.mark.parametrize("text", ODD)
def test_odd_values_survive_the_form(text: str) -> None:
    sent = in_form(text)
    assert to_yaml(sent).text == text
    sent["max_run_s"] = "60"
    changed = load_yaml(to_yaml(sent).text, JOB_BOUNDS)
    assert changed.pop("max_run_s") == 60
    before = load_yaml(text, JOB_BOUNDS)
    before.pop("max_run_s", None)
    assert changed == before


def test_a_new_key_is_written_where_a_job_file_has_it() -> None:
    sent = in_form("name: a\n\n# the tasks\nroles:\n  - replicas: 1\n    # cheap\n    image: x\n")
    sent["max_run_s"], sent["roles-0-min_replicas"] = "60", "1"
    assert to_yaml(sent).text == (
        "name: a\nmax_run_s: 60\n\n# the tasks\nroles:\n  - replicas: 1\n    min_replicas: 1\n"
        "    # cheap\n    image: x\n"
    )


LISTS = """name: a
roles: [{replicas: 1}]
lifecycle:
  - {on: task_failed, exit_codes: [137], do: restart_task}
  # the last resort
  - {on: task_failed, do: restart_job}
volumes:
  - {empty: 8Gi, mount: /tmp}   # scratch
  - {claim: one, mount: /one, read_only: true}
  - {claim: two, mount: /two}   # results
"""


def test_the_form_shows_claims_and_retries_and_keeps_the_rest_of_their_lists() -> None:
    sent = in_form(LISTS)
    assert sent["volumes"] == "one:/one:ro\r\ntwo:/two"
    assert sent["retries"] == "1"
    assert JobForm(read_draft(sent).values, queues=[], classes=[], pools=[]).retained == []
    sent["volumes"], sent["retries"] = "two:/two\r\nthree:/3", "5"
    assert to_yaml(sent).text == LISTS.replace("do: restart_job}", "do: restart_job, max: 5}").replace(
        "one, mount: /one, read_only: true}", "three, mount: /3}"
    )
    sent["volumes"], sent["retries"] = "", "0"
    assert load_yaml(to_yaml(sent).text, JOB_BOUNDS) == {
        "name": "a",
        "roles": [{"replicas": 1}],
        "lifecycle": [{"on": "task_failed", "exit_codes": [137], "do": "restart_task"}],
        "volumes": [{"empty": "8Gi", "mount": "/tmp"}],
    }


def test_no_gpu_takes_all_of_the_request_away() -> None:
    sent = in_form("name: a\nroles: [{resources: {cpu: 1, gpu: {cards: 2, odd: 3}}}]\n")
    sent["roles-0-gpu"] = "none"
    assert to_yaml(sent).text == "name: a\nroles: [{resources: {cpu: 1}}]\n"


def has(job: Any, path: tuple[Any, ...]) -> bool:
    for key in path:
        if not (isinstance(job, list) or (isinstance(job, dict) and key in job)):
            return False
        job = job[key]
    return True


def with_value(job: Any, path: tuple[Any, ...], value: Any) -> Any:
    if not path:
        return value
    if isinstance(job, list):
        return [with_value(one, path[1:], value) if n == path[0] else one for n, one in enumerate(job)]
    return {**job, path[0]: with_value(job.get(path[0], {}), path[1:], value)}


def without(job: Any, path: tuple[Any, ...]) -> Any:
    if isinstance(job, list):
        return [without(one, path[1:]) if n == path[0] else one for n, one in enumerate(job)]
    if len(path) == 1:
        return {key: value for key, value in job.items() if key != path[0]}
    return {**job, path[0]: without(job[path[0]], path[1:])}


def is_part(kept: list[str], lines: list[str]) -> bool:
    """Return whether the kept lines appear among the others in their order."""
    rest = iter(lines)
    return all(any(line == other for other in rest) for line in kept)
