"""Lists: what filters leave, in pages and files; columns that a reader chose; actions on several rows."""

from __future__ import annotations

import csv
import io
import json
import operator
import random
import re
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from alerts.models import Alert, AlertRule, NotificationChannel, Silence, UserMessage
from foundation.audit import audit_log
from foundation.core import clock
from frontend.lists.conditions import MOST, PARAMETER
from quotas.models import Budget, QuotaRequest
from scheduling.models import Job, JobKind, JobState, JobTemplate, PriorityGrant
from telemetry.models import Price, TelemetrySource
from tests.builders import jobs, quotas, replays, tenancy
from tests.builders.jobs import RoleOf
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import page

JOBS: Final = "/w/team-a/jobs"
WHOLE: Final = f"{JOBS}?who=all"
"""The bare address leads a member to what they submitted lately."""
LISTS: Final = {
    JOBS: "jobs",
    "/ops/jobs": "all-jobs",
    "/w/team-a/notebooks": "notebooks",
    "/ops/nodes": "nodes",
    "/ops/gpus": "gpus",
    "/ops/queues": "queues",
    "/ops/users": "users",
    "/ops/alerts": "alerts",
    "/w/team-a/alerts": "alerts",
    "/w/team-a/requests": "requests",
    "/ops/requests": "inbox",
    "/ops/audit": "audit",
    "/ops/groups": "groups",
    "/ops/replays": "replays",
    "/ops/budgets": "budgets",
    "/account/keys": "keys",
    "/messages": "messages",
    "/w/team-a/keys/accounts": "accounts",
    "/ops/prices": "prices",
    "/ops/roles": "roles",
    "/ops/priorities": "priorities",
    "/ops/priorities/grants": "grants",
    "/ops/clusters": "clusters",
    "/ops/sources": "sources",
    "/ops/sources/agents": "agents",
    "/w/team-a/job-templates": "templates",
    "/ops/tenants": "tenants",
    "/ops/policies": "policies",
    "/w/team-a/members": "members",
    "/w/team-a/members/permissions": "permissions",
    "/ops/alerts/rules": "rules",
    "/ops/alerts/channels": "channels",
    "/ops/alerts/silences": "silences",
    "/w/team-a/alerts/rules": "rules",
    "/w/team-a/alerts/channels": "channels",
    "/w/team-a/alerts/silences": "silences",
}
"""The address of each list, and the name of its declaration."""
WITHOUT_FILE: Final = {"/ops/audit"}
"""The audit has files of its own, without a limit."""
TEXT: Final[dict[str, Callable[[str, str], bool]]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "=@": lambda have, want: want.lower() in have.lower(),
    "!@": lambda have, want: want.lower() not in have.lower(),
    "=^": lambda have, want: have.lower().startswith(want.lower()),
    "=$": lambda have, want: have.lower().endswith(want.lower()),
}
TAGS: Final = ("baseline", "team:nlp", "team:cv", "base", "<b>&", "🚀 go", "שלום", "100%")
ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {">=": operator.ge, "<=": operator.le}
EQUAL: Final[dict[str, Callable[[Any, Any], bool]]] = {"==": operator.eq, "!=": operator.ne}


@pytest.fixture
def w(db: None) -> World:
    return world()


def listed(client: Client, query: str) -> list[str]:
    """The names of the jobs on all pages of the list, in their order."""
    names: list[str] = []
    number = 1
    while True:
        text = page(client, f"{JOBS}?{query}&pageSize=50&page={number}")
        names += re.findall(r'<a href="/w/team-a/jobs/[0-9a-f-]{36}">([^<]+)</a>', text)
        if 'rel="next"' not in text:
            return names
        number += 1


def file_of(client: Client, query: str) -> list[dict[str, str]]:
    answer = client.get(f"{JOBS}?{query}&format=csv")
    assert answer["Content-Type"].startswith("text/csv")
    return list(csv.DictReader(io.StringIO(answer.content.decode("utf-8-sig"))))


def fill(w: World, count: int, chance: random.Random) -> list[Job]:
    """Jobs of all states, kinds, queues and users, the times of which may be missing."""
    queues = [w.queue, quotas.queue(w.cell, w.workspace, [w.flavor], name="night", cards=1)]
    ranks = [jobs.priority_class(name, value) for name, value in (("low", -5), ("normal", 0), ("high", 20))]
    start = datetime(2026, 3, 1, tzinfo=UTC)
    made = []
    for number in range(count):
        submitted = start + timedelta(minutes=chance.randrange(5000))
        began = submitted + timedelta(minutes=3) if chance.random() < 0.6 else None
        model = chance.choice([("A100",), ("L40S", "A100"), ()])
        made.append(
            jobs.job(
                chance.choice(queues),
                chance.choice([w.editor, w.admin]),
                f"{chance.choice(['train', 'eval', 'TRAIN'])}-{number}",
                state=chance.choice(list(JobState)),
                roles=[RoleOf(cards=chance.randrange(1, 4), models=model)],
                priority=chance.choice(ranks),
                submitted_at=submitted,
                started_at=began,
                kind=chance.choice(list(JobKind)),
                preemptible=chance.random() < 0.5,
                reason=chance.choice(["", "WAITING_FOR_QUOTA", "NO_ROOM"]),
                attempt_number=chance.randrange(4),
                tags=chance.sample(TAGS, chance.randrange(4)),
            )
        )
    return made


def values_of(job: Job) -> dict[str, Any]:
    """Return the values of a job under the names of the filters."""
    return {
        "name": job.name,
        "state": str(job.state.value if isinstance(job.state, JobState) else job.state),
        "kind": str(job.kind.value if isinstance(job.kind, JobKind) else job.kind),
        "queue": job.queue.name,
        "submitted_by": job.submitted_by.username,
        "priority_class": job.priority_class.name,
        "reason": job.reason,
        "priority": job.priority,
        "attempt": job.attempt_number,
        "tags": job.tags,
        "preemptible": job.preemptible,
        "submitted_at": job.submitted_at,
        "started_at": job.started_at,
    }


def cases(made: Sequence[Job], chance: random.Random) -> list[tuple[str, str, str, Any]]:
    """Every field with every operator that it takes, and values that some have and some do not."""
    found: list[tuple[str, str, str, Any]] = []
    some = [values_of(job) for job in chance.sample(list(made), 3)]
    for one in some:
        for name in ("name", "state", "kind", "queue", "submitted_by", "priority_class", "reason"):
            text = one[name] or "NO_ROOM"
            part = text[: max(1, len(text) // 2)]
            found += [(name, sign, value, value) for sign in TEXT for value in (text, part, part.upper())]
        tags = one["tags"] or ["team:nlp"]
        for text in (tags[0], f"{tags[-1]}, none", tags[0][:2].upper()):
            found += [("tags", sign, text, text) for sign in TEXT]
        for name in ("priority", "attempt"):
            found += [(name, sign, str(one[name]), one[name]) for sign in (*EQUAL, *ORDER)]
        found += [("preemptible", sign, "true", True) for sign in EQUAL]
        for name in ("submitted_at", "started_at"):
            moment = one[name] or one["submitted_at"]
            found += [(name, sign, moment.strftime("%Y-%m-%dT%H:%M:%SZ"), moment) for sign in ORDER]
    return found


def meets(value: Any, sign: str, wanted: Any) -> bool:
    """The oracle of one condition: what has no value is unequal to everything and in no range."""
    if isinstance(value, list):
        wholes = wanted.split(", ") if sign in ("==", "!=") else [wanted]
        without = sign in ("!=", "!@")
        one = {"!=": "==", "!@": "=@"}.get(sign, sign)
        return without != any(TEXT[one](entry, text) for entry in value for text in wholes)
    if isinstance(wanted, str):
        return TEXT[sign](value, wanted)
    if value is None:
        return sign == "!="
    return (EQUAL | ORDER)[sign](value, wanted)


def test_each_filter_leaves_what_a_reader_of_all_jobs_would_leave(client: Client, w: World) -> None:
    chance = random.Random(4)
    made = fill(w, 60, chance)
    client.force_login(w.editor)
    # Jobs share states, kinds and queues: what was asked of one isn't asked again.
    for name, sign, text, wanted in dict.fromkeys(cases(made, chance)):
        expected = {job.name for job in made if meets(values_of(job)[name], sign, wanted)}
        query = urlencode({"filterBy": f"{name}{sign}{text}"})
        assert {row["Name"] for row in file_of(client, query)} == expected, (name, sign, text)


def test_filters_add_up_and_pages_and_files_and_the_api_agree(client: Client, w: World) -> None:
    chance = random.Random(7)
    made = fill(w, 120, chance)
    client.force_login(w.editor)
    seen = 0
    for _round in range(12):
        chosen = chance.sample(cases(made, chance), 2)
        expected = [
            job
            for job in made
            if all(meets(values_of(job)[name], sign, want) for name, sign, _, want in chosen)
        ]
        query = urlencode([("filterBy", f"{name}{sign}{text}") for name, sign, text, _ in chosen])
        expected.sort(key=lambda job: (job.submitted_at, job.pk), reverse=True)
        names = [job.name for job in expected]
        assert listed(client, query) == names, query
        assert [row["Name"] for row in file_of(client, query)] == names, query
        api = client.get(f"/api/v1/workspaces/team-a/jobs?{query}&limit=200").json()
        assert [item["name"] for item in api["items"]] == names, query
        seen += len(names)
    assert seen


def test_jobs_are_found_by_the_gpu_model_that_they_request_or_hold(client: Client, w: World) -> None:
    jobs.job(w.queue, w.editor, "asks", roles=[RoleOf(models=("L40S",))])
    jobs.job(w.queue, w.editor, "asks-more", roles=[RoleOf(models=("L40S-48G",))])
    held = jobs.job(w.queue, w.editor, "holds")
    jobs.allocate(held, w.nodes[0])
    jobs.job(w.queue, w.editor, "open")
    client.force_login(w.editor)
    model = w.flavor.card_model
    for asked, names in (("L40S", {"asks"}), (model, {"holds"}), ("H100", set())):
        assert set(listed(client, urlencode({"gpu_model": asked}))) == names
        api = client.get(f"/api/v1/workspaces/team-a/jobs?gpu_model={asked}").json()
        assert {item["name"] for item in api["items"]} == names


def test_a_range_leaves_what_was_submitted_in_it(client: Client, w: World) -> None:
    now = clock.now()
    for hours in (1, 20, 30, 24 * 40):
        jobs.job(w.queue, w.editor, f"before-{hours}", submitted_at=now - timedelta(hours=hours))
    client.force_login(w.editor)
    assert listed(client, "range=24h") == ["before-1", "before-20"]
    assert len(listed(client, "range=30d")) == 3
    assert len(listed(client, "range=nonsense")) == 4


def test_a_member_sees_first_what_they_submitted_lately(client: Client, w: World) -> None:
    now = clock.now()
    client.force_login(w.editor)
    jobs.job(w.queue, w.admin, "others", submitted_at=now)
    jobs.job(w.queue, w.editor, "long-ago", submitted_at=now - timedelta(days=8))
    assert ">others</a>" in page(client, JOBS), "nothing of one's own is hidden behind an empty list"
    jobs.job(w.queue, w.editor, "own", submitted_at=now - timedelta(days=6))
    answer = client.get(JOBS)
    assert answer["Location"] == f"{JOBS}?who=mine&range=7d"
    assert listed(client, "who=mine&range=7d") == ["own"]
    text = page(client, answer["Location"])
    assert f'<a href="{WHOLE}">Show all jobs</a>' in text and '<option value="7d" selected>' in text
    whole = page(client, WHOLE)
    assert "Show all jobs" not in whole and all(
        f">{name}</a>" in whole for name in ("own", "others", "long-ago")
    )
    client.force_login(w.admin)
    assert ">own</a>" in page(client, JOBS), "who may stop any job sees all"


def test_the_form_adds_a_condition_to_the_address(client: Client, w: World) -> None:
    client.force_login(w.editor)
    filled = {"state": "running", "field": "name", "operator": "=@", "value": "a b&c", "page": "3"}
    answer = client.get(JOBS, filled)
    assert answer["Location"] == f"{JOBS}?state=running&filterBy=name%3D%40a+b%26c"
    text = page(client, answer["Location"])
    assert "Name contains <b>a b&amp;c</b>" in text
    assert "No matching jobs" in text and f'href="{WHOLE}"' in text
    # What cannot be applied is said, and nothing is added.
    for wrong, sentence in (({"value": "x", "operator": "<="}, "Operator"), ({"value": ""}, "Enter a value")):
        answer = client.get(JOBS, filled | wrong)
        assert answer["Location"] == f"{JOBS}?state=running"
        assert sentence in page(client, answer["Location"])


def test_a_filter_that_cannot_be_applied_is_said(client: Client, w: World) -> None:
    jobs.job(w.queue, w.editor, "one")
    client.force_login(w.editor)
    text = page(client, f"{JOBS}?filterBy=shoe=@x&filterBy=nonsense&filterBy=priority==many")
    assert text.count("A filter isn&#x27;t applied") + text.count("A filter isn't applied") == 3
    assert ">one</a>" in text


def populate(w: World) -> None:
    """At least one row in every list."""
    jobs.allocate(jobs.job(w.queue, w.editor, "runs"), w.nodes[0])
    jobs.job(w.queue, w.editor, "waits")
    jobs.job(w.queue, w.editor, "lab", kind=JobKind.NOTEBOOK)
    asked = {"cluster": w.cluster.name, "flavor": w.flavor.name, "resource": "gpu.cards", "nominal": 20}
    QuotaRequest.unscoped.create(
        node=quotas.quota_node(w.cell, w.workspace),
        asker=w.editor,
        reason="more",
        expires_at=clock.now() + timedelta(days=1),
        current=[],
        asked=[asked],
    )
    tenancy.group("crowd", w.viewer)
    replays.replay(w.cell)
    audit_log.record_action(w.admin, "job.test", entity="job", entity_id="1")
    facts = {"tenant": w.workspace, "metric": "job.pending_s", "threshold": 1}
    rule = AlertRule.unscoped.create(name="slow", **facts)
    seen = {"subject": "1", "label": "waits", "state": "firing", "started_at": clock.now()}
    Alert.unscoped.create(rule=rule, rule_name="slow", comparison="above", severity="info", **facts, **seen)
    Budget.unscoped.create(tenant=w.workspace, gpu_hours=10)
    populate_settings(w)
    for tenant in (w.workspace, None):
        of = {"tenant": tenant}
        AlertRule.unscoped.create(name="fast", **facts | of)
        NotificationChannel.unscoped.create(name="hook", kind="webhook", **of)
        hour = {"starts_at": clock.now(), "ends_at": clock.now() + timedelta(hours=1)}
        Silence.unscoped.create(created_by=w.admin, **hour, **of)
    facts = {"kind": "job", "event": "failed", "facts": {"job": "train"}, "source": "test"}
    UserMessage.unscoped.create(user=w.platform_admin, tenant=w.workspace, **facts)


def populate_settings(w: World) -> None:
    tenancy.access_key(w.platform_admin)
    tenancy.service_account("robot", w.workspace)
    Price.unscoped.create(flavor=w.flavor, effective_at=clock.now(), gpu_hour=3)
    PriorityGrant.unscoped.create(tenant=w.workspace, priority_class=jobs.priority_class("steep", 5))
    TelemetrySource.unscoped.create(
        cluster=w.cluster, name="source", kind="dcgm", address="http://10.0.0.1/metrics"
    )
    JobTemplate.unscoped.create(
        workspace=w.workspace, name="usual", text="kind: batch", saved_by=w.editor, saved_at=clock.now()
    )


def heads_and_cells(text: str) -> tuple[list[str], list[list[str]]]:
    heads = re.findall(r'<th [^>]*data-column="(\w+)"', text)
    body = text.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr id=[^>]+>(.*?)</tr>", body, re.DOTALL)
    return heads, [re.findall(r'<td [^>]*data-column="(\w+)"', row) for row in rows]


def test_a_reader_chooses_columns_and_rows_per_page_for_good(client: Client, w: World) -> None:
    for number in range(12):
        jobs.job(w.queue, w.editor, f"job-{number:02}", tags=["team:vision", "base"])
    client.force_login(w.editor)
    heads, rows = heads_and_cells(page(client, WHOLE))
    assert len(rows) == 12 and all(row == heads for row in rows) and "cost" not in heads

    chosen = {
        "columns": ["tags", "cost", "nonsense", "state"],
        "size": "10",
        "every": "0",
        "next": f"{JOBS}?q=job",
    }
    answer = client.post("/lists/jobs", chosen)
    assert answer["Location"] == f"{JOBS}?q=job"
    text = page(client, WHOLE)
    heads, rows = heads_and_cells(text)
    assert heads == ["name", "state", "cost", "tags"] and len(rows) == 10
    assert all(row == heads for row in rows)
    assert "page 1 of 2" in text and 'data-live-every="0"' in text and "live-mark" not in text
    assert file_of(client, "")[0]["Tags"] == "team:vision, base"
    assert list(file_of(client, "")[0]) == ["Name", "Status", "Cost", "Tags"]
    assert len(heads_and_cells(page(client, f"{JOBS}?pageSize=20"))[1]) == 12, "the address counts more"

    client.post("/lists/jobs", {"reset": "1", "next": "https://elsewhere.example/"})
    assert "cost" not in heads_and_cells(page(client, WHOLE))[0]


def test_a_narrow_screen_gets_fewer_rows_unless_the_reader_chose_more(client: Client, w: World) -> None:
    for number in range(60):
        audit_log.record_action(w.platform_admin, "job.test", entity="job", entity_id=str(number))
    client.force_login(w.platform_admin)
    assert len(heads_and_cells(page(client, "/ops/audit"))[1]) == 50
    client.cookies["narrow"] = "1"
    assert len(heads_and_cells(page(client, "/ops/audit"))[1]) == 20
    client.post("/lists/audit", {"columns": ["at"], "size": "100", "every": "0", "next": "/ops/audit"})
    assert len(heads_and_cells(page(client, "/ops/audit"))[1]) > 50


def conditions_of(address: str) -> list[str]:
    return parse_qs(urlsplit(address).query).get(PARAMETER, [])


def assert_file_has(client: Client, address: str, every: Sequence[str], rows: int) -> None:
    answer = client.get(f"{address}?format=csv")
    file = list(csv.reader(io.StringIO(answer.content.decode("utf-8-sig"))))
    assert len(file) == rows + 1 and all(len(row) == len(every) for row in file)


@pytest.mark.parametrize("address", LISTS)
def test_every_list_has_its_columns_filters_orders_and_file(client: Client, w: World, address: str) -> None:
    """Each row has a cell for each column in the order of the heads, and each filter and order answers."""
    populate(w)
    client.force_login(w.platform_admin)
    text = page(client, address)
    every = re.findall(r'name="columns" value="(\w+)"', text)
    client.post(f"/lists/{LISTS[address]}", {"columns": every})
    text = page(client, address)
    assert "<dialog" not in text, "those of a row are fetched: twenty would take most of the time of a page"
    heads, rows = heads_and_cells(text)
    assert heads == every and rows and all(row == every for row in rows)
    with CaptureQueriesContext(connection) as captured:
        assert heads_and_cells(page(client, f"{address}?part=rows")) == (heads, rows)
    assert len(captured) < 45
    if address not in WITHOUT_FILE:
        assert_file_has(client, address, every, len(rows))

    (item,) = re.findall(r'data-list-details="([^"]+)"', text)[:1]
    panel = page(client, f"{address}?show={item}").partition('id="list-panel"')[2]
    assert panel.count("<dt>") == len(every) - 1
    for order in re.findall(r'<option value="(-?\w+)"[^>]*>[^<]+(?:scending)', text):
        page(client, f"{address}?sort={order}")
    fields = json.loads(
        unescape(re.findall(r'type="application/json">(.*?)</script>', text.partition("filter-")[2])[0])
    )
    assert fields
    for name, offered in fields.items():
        values = [value for value, _label in offered["choices"][:2]] or ["1", "2026-01-01T00:00:00Z"]
        filtered: list[str] = []
        for sign, _word in offered["operators"]:
            answers = [
                client.get(address, {"field": name, "operator": sign, "value": value}) for value in values
            ]
            added = [condition for answer in answers for condition in conditions_of(answer["Location"])]
            assert added, (name, sign)
            filtered += added
            for one in added:
                page(client, f"{address}?{urlencode({PARAMETER: one, 'part': 'rows'})}")
        # One page says of as many conditions as an address may have which of them aren't applied.
        for first in range(0, len(filtered), MOST):
            some = filtered[first : first + MOST]
            text = page(client, f"{address}?{urlencode([(PARAMETER, one) for one in some])}")
            assert text.count('<li class="condition">') == len(some)
            assert "isn&#x27;t applied" not in text


def test_all_columns_have_a_cell_each_and_details_show_them_all(client: Client, w: World) -> None:
    job = jobs.job(w.queue, w.editor, "held")
    jobs.allocate(job, w.nodes[0])
    client.force_login(w.editor)
    every = [key for key, _label in re.findall(r'name="columns" value="(\w+)"([^>]*)', page(client, WHOLE))]
    assert len(every) > 20
    client.post("/lists/jobs", {"columns": every})
    heads, rows = heads_and_cells(page(client, WHOLE))
    assert heads == every and rows == [every]
    text = page(client, f"{JOBS}?show={job.pk}")
    panel = text[text.index('id="list-panel"') :]
    assert panel.count("<dt>") == len(every) - 1 and "GPUs allocated / requested" in panel
    assert 'id="list-panel"' not in page(client, f"{JOBS}?show=nonsense")


def test_lists_are_sorted_by_their_heads_and_on_a_phone(client: Client, w: World) -> None:
    for name in ("b", "a", "c"):
        jobs.job(w.queue, w.editor, name)
    client.force_login(w.editor)
    assert listed(client, "sort=name") == ["a", "b", "c"]
    text = page(client, f"{JOBS}?sort=name")
    assert 'aria-sort="ascending"><a href="/w/team-a/jobs?sort=-name">Name</a>' in text
    assert '<option value="name" selected>Name, ascending</option>' in text


def test_an_action_on_several_jobs_asks_first_and_reports_each(client: Client, w: World) -> None:
    own = [jobs.job(w.queue, w.editor, f"own-{number}") for number in range(2)]
    others = jobs.job(w.queue, w.admin, "others")
    ended = jobs.job(w.queue, w.editor, "ended", state=JobState.SUCCEEDED, finished_at=clock.now())
    client.force_login(w.editor)
    asked = {"do": "cancel", "item": [str(job.pk) for job in (*own, others, ended)], "next": f"{JOBS}?q=o"}
    question = client.post("/w/team-a/job-batch", asked).content.decode()
    assert "Queue position held for" in question and question.count('name="item"') == 4
    assert not Job.unscoped.filter(state=JobState.CANCELLED).exists(), (
        "nothing is done before it is confirmed"
    )

    answer = client.post("/w/team-a/job-batch", asked | {"confirmed": "1"})
    text = answer.content.decode()
    assert answer.status_code == 200 and "Done for 2 of 4" in text
    assert "The job has already finished." in text and "doesn&#x27;t allow this action" in text
    assert set(Job.unscoped.filter(state=JobState.CANCELLED)) == set(own)

    # When all went well, the list is shown again.
    rest = jobs.job(w.queue, w.editor, "rest")
    done = {"do": "suspend", "item": [str(rest.pk)], "next": f"{JOBS}?q=o", "confirmed": "1"}
    assert client.post("/w/team-a/job-batch", done)["Location"] == f"{JOBS}?q=o"
    rest.refresh_from_db()
    assert rest.state == JobState.SUSPENDED
    high = jobs.priority_class("higher", -1)
    done = {"do": "priority", "item": [str(rest.pk)], "choice": high.name, "confirmed": "1"}
    client.post("/w/team-a/job-batch", done)
    rest.refresh_from_db()
    assert rest.priority_class == high


def test_finished_jobs_are_deleted_and_shown_apart(client: Client, w: World) -> None:
    ended = jobs.job(w.queue, w.editor, "ended", state=JobState.SUCCEEDED, finished_at=clock.now())
    waits = jobs.job(w.queue, w.editor, "waits")
    client.force_login(w.editor)
    whole = page(client, WHOLE)
    assert f'value="delete {ended.pk}"' in whole and f'value="delete {waits.pk}"' not in whole
    assert ">Deleted" not in whole
    question = client.post("/w/team-a/job-batch", {"one": f"delete {ended.pk}"}).content.decode()
    assert "Their usage, cost, preemptions and audit records are kept." in question
    asked = {"do": "delete", "item": [str(ended.pk), str(waits.pk)], "confirmed": "1"}
    text = client.post("/w/team-a/job-batch", asked).content.decode()
    assert "Done for 1 of 2" in text and "Only finished jobs can be deleted." in text
    assert listed(client, "who=all") == ["waits"]
    assert listed(client, "who=all&state=deleted") == ["ended"]
    deleted = page(client, f"{JOBS}?state=deleted")
    assert 'Deleted <span class="count">1</span>' in deleted and "delete " + str(ended.pk) not in deleted
    own = page(client, f"{JOBS}/{ended.pk}")
    assert "Deleted" in own and f"delete {ended.pk}" not in own, "its page stays for what links to it"


def test_an_action_on_several_jobs_stays_within_the_workspace(client: Client, w: World) -> None:
    job = jobs.job(w.queue, w.editor, "here")
    client.force_login(w.outsider)
    asked = {"do": "cancel", "item": [str(job.pk)], "confirmed": "1"}
    assert client.post("/w/team-a/job-batch", asked).status_code == 404
    client.post("/w/team-b/job-batch", asked)
    client.force_login(w.viewer)
    assert "batch-jobs" not in page(client, WHOLE)
    assert client.post("/w/team-a/job-batch", asked).status_code == 403
    client.force_login(w.editor)
    assert client.post("/w/team-a/job-batch", asked | {"do": "nonsense"}).status_code == 404
    assert client.post("/w/team-a/job-batch", asked | {"item": ["x"]}).status_code == 404
    assert client.post("/w/team-a/job-batch", {"do": "cancel", "next": "//evil.example"})["Location"] == JOBS
    job.refresh_from_db()
    assert job.state == JobState.QUEUED


def test_the_cost_of_jobs_is_their_time_by_the_prices_of_their_pools(client: Client, w: World) -> None:
    job = jobs.job(w.queue, w.editor, "held", roles=[RoleOf(cards=2)])
    jobs.allocate(job, w.nodes[0])
    jobs.job(w.queue, w.editor, "never")
    since = clock.now() - timedelta(hours=3)
    Job.unscoped.filter(pk=job.pk).update(submitted_at=since, admitted_at=since)
    job.attempts.update(admitted_at=since)
    client.force_login(w.editor)
    client.post("/lists/jobs", {"columns": ["gpu_hours", "cost"]})
    rows = {row["Name"]: row for row in file_of(client, "")}
    assert float(rows["held"]["GPU-hours"]) == pytest.approx(6, abs=0.01)
    assert rows["held"]["Cost"] == "", "no price is known"
    assert rows["never"]["GPU-hours"] == "" and rows["never"]["Cost"] == ""
    Price.unscoped.create(flavor=w.flavor, effective_at=since - timedelta(days=1), gpu_hour=3)
    assert float({row["Name"]: row for row in file_of(client, "")}["held"]["Cost"]) == pytest.approx(
        18, abs=0.1
    )


def test_several_users_are_changed_at_once_with_a_result_for_each(client: Client, w: World) -> None:
    client.force_login(w.platform_admin)
    asked = {"do": "disable", "item": [str(w.viewer.pk), str(w.platform_admin.pk)]}
    question = client.post("/ops/users/batch", asked).content.decode()
    assert w.viewer.username in question and "Disabled users can" in question
    text = client.post("/ops/users/batch", asked | {"confirmed": "1"}).content.decode()
    assert "Done for 1 of 2" in text
    w.viewer.refresh_from_db()
    w.platform_admin.refresh_from_db()
    assert not w.viewer.is_active and w.platform_admin.is_active
    client.force_login(w.admin)
    assert client.post("/ops/users/batch", asked | {"confirmed": "1"}).status_code == 403


def test_queues_show_their_jobs_to_users_who_may_see_them(client: Client, w: World) -> None:
    now = clock.now()
    for number in range(3):
        jobs.job(w.queue, w.editor, f"waits-{number}", submitted_at=now - timedelta(hours=number))
    jobs.allocate(jobs.job(w.queue, w.editor, "runs"), w.nodes[0])
    client.force_login(w.platform_admin)
    text = client.get("/ops/queues?format=csv").content.decode("utf-8-sig")
    rows = {row["Workspace"]: row for row in csv.DictReader(io.StringIO(text))}
    own = rows[w.workspace.name]
    assert (own["Pending jobs"], own["Running jobs"]) == ("3", "1")
    assert 7200 <= int(own["Longest wait"]) < 7300
