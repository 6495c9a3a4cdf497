"""Every route and method of the API, tried by everybody: the answer stands in one table.

The test walks the URL configuration, so a route that nobody thought about fails here by its absence.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import pytest
from django.urls import URLPattern, URLResolver, get_resolver
from rest_framework.test import APIClient

from scheduling.models import Job, JobState
from tests.api import access_actors, access_asking, access_tenancy
from tests.api.conftest import As
from tests.builders import jobs, tenancy
from tests.builders.world import World

METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
WHO: Final = ("anonymous", "outsider", "viewer", "editor", "admin", "platform_admin")
JOB: Final = {"name": "fresh", "roles": [{"resources": {"gpu": {"cards": 1}}}]}

BODIES: Final[dict[str, dict[str, Any]]] = {
    "workspaces/{ws}/keys": {"name": "mine"},
    "workspaces/{ws}/jobs/{job}/priority": {"priority_class": "normal"},
    "workspaces/{ws}/jobs/{job}/clone": {"name": "copy"},
    "admin/quotas/{node}": {"amounts": [{"flavor": "a100", "resource": "gpu.cards", "nominal": 8}]},
    "admin/quota-revisions/{revision}/revert": {},
    "admin/priority-grants": {"tenant": "team-a", "priority_class": "normal"},
    "workspaces/{ws}/queues": {"name": "second", "flavors": ["a100"]},
    "workspaces/{ws}/queues/{queue}": {"stop_policy": "none"},
    "workspaces/{ws}/queues/{queue}/preset": {"preset": "balanced"},
    "admin/clusters/{cluster}": {"live_resize": True},
    "workspaces/{ws}/jobs/{job}/resize": {"role": "main", "index": 0, "memory": "4Gi"},
    "admin/priority-classes": {"name": "urgent", "value": 10},
    "admin/priority-classes/{name}": {"value": 10},
    "tenants/{tenant}/policy": {"maximum": {"max_run_s": 864000}},
    "workspaces/{ws}/job-actions": {"action": "cancel", "jobs": ["known"]},
    "workspaces/{ws}/job-submissions": {"jobs": [{"name": "one"}]},
}

FILES: Final = {"admin/quota-file": "tenant,flavor,resource,nominal\nnobody,none,cpu,1\n"}

# Who gets which status, in the order of WHO. The job of the table is the editor's own.
ANYBODY = (200, 200, 200, 200, 200, 200)
EVERYBODY = (401, 200, 200, 200, 200, 200)
MEMBERS = (401, 404, 200, 200, 200, 200)
OPERATORS = (401, 403, 403, 403, 403, 200)
GONE = (401, 404, 404, 404, 404, 404)
STOPPERS = (401, 404, 403, 202, 202, 202)
TABLE: Final[dict[tuple[str, str], tuple[int, ...]]] = {
    ("schema", "GET"): ANYBODY,
    ("docs", "GET"): ANYBODY,
    ("me", "GET"): EVERYBODY,
    ("workspaces", "GET"): EVERYBODY,
    ("workspaces/{ws}", "GET"): MEMBERS,
    ("workspaces/{ws}/keys", "GET"): MEMBERS,
    ("workspaces/{ws}/keys", "POST"): (401, 404, 201, 201, 201, 201),
    ("workspaces/{ws}/keys/{prefix}", "DELETE"): (401, 404, 404, 404, 404, 404),
    ("workspaces/{ws}/queues", "GET"): MEMBERS,
    ("workspaces/{ws}/quota", "GET"): MEMBERS,
    ("workspaces/{ws}/jobs", "GET"): MEMBERS,
    ("workspaces/{ws}/jobs", "POST"): (401, 404, 403, 202, 202, 202),
    ("workspaces/{ws}/jobs/{job}", "GET"): MEMBERS,
    ("workspaces/{ws}/jobs/{job}/events", "GET"): MEMBERS,
    ("workspaces/{ws}/jobs/{job}/tasks", "GET"): MEMBERS,
    ("workspaces/{ws}/jobs/{job}/logs", "GET"): MEMBERS,
    ("workspaces/{ws}/jobs/{job}/pod-events", "GET"): MEMBERS,
    ("workspaces/{ws}/jobs/{job}/cancel", "POST"): STOPPERS,
    ("workspaces/{ws}/jobs/{job}/suspend", "POST"): STOPPERS,
    ("workspaces/{ws}/jobs/{job}/resume", "POST"): (401, 404, 403, 409, 409, 409),
    ("workspaces/{ws}/jobs/{job}/priority", "POST"): STOPPERS,
    ("workspaces/{ws}/jobs/{job}/resize", "GET"): MEMBERS,
    # The job of the table waits.
    ("workspaces/{ws}/jobs/{job}/resize", "POST"): (401, 404, 403, 409, 409, 409),
    ("workspaces/{ws}/jobs/{job}/clone", "POST"): (401, 404, 403, 202, 202, 202),
    ("workspaces/{ws}/jobs/{job}/explain", "GET"): MEMBERS,
    ("workspaces/{ws}/job-actions", "POST"): (401, 404, 403, 200, 200, 200),
    ("workspaces/{ws}/job-submissions", "POST"): (401, 404, 403, 202, 202, 202),
    ("admin/quotas", "GET"): EVERYBODY,
    ("admin/quotas/{node}", "GET"): MEMBERS,
    ("admin/quotas/{node}", "PATCH"): (401, 404, 403, 403, 200, 200),
    ("admin/quotas/{node}/history", "GET"): MEMBERS,
    ("admin/quota-revisions/{revision}/revert", "POST"): (401, 404, 404, 404, 404, 404),
    ("workspaces/{ws}/queues", "POST"): (401, 404, 403, 403, 201, 201),
    ("workspaces/{ws}/queues/{queue}", "GET"): MEMBERS,
    ("workspaces/{ws}/queues/{queue}", "PATCH"): (401, 404, 403, 403, 200, 200),
    # Jobs run in the queue of the table.
    ("workspaces/{ws}/queues/{queue}", "DELETE"): (401, 404, 403, 403, 409, 409),
    ("workspaces/{ws}/queues/{queue}/preset", "POST"): (401, 404, 403, 403, 200, 200),
    ("admin/priority-classes", "GET"): EVERYBODY,
    ("admin/priority-classes", "POST"): (401, 403, 403, 403, 403, 201),
    ("admin/priority-classes/{name}", "GET"): GONE,
    ("admin/priority-classes/{name}", "PATCH"): GONE,
    ("admin/policies", "GET"): EVERYBODY,
    ("tenants/{tenant}/policy", "GET"): MEMBERS,
    ("tenants/{tenant}/policy", "PUT"): (401, 404, 403, 403, 200, 200),
    ("tenants/{tenant}/policy", "DELETE"): (401, 404, 403, 403, 204, 204),
    ("workspaces/{ws}/policy", "GET"): MEMBERS,
    ("admin/priority-grants", "GET"): EVERYBODY,
    ("admin/priority-grants", "POST"): (401, 404, 403, 403, 403, 400),
    ("admin/priority-grants/{grant}", "DELETE"): (401, 404, 404, 404, 404, 404),
    ("admin/quota-file", "GET"): EVERYBODY,
    ("admin/quota-file", "POST"): (401, 400, 403, 403, 400, 400),
    ("workspaces/{ws}/audit", "GET"): (401, 404, 403, 403, 200, 200),
    ("workspaces/{ws}/audit/export", "GET"): (401, 404, 403, 403, 200, 200),
    ("events", "GET"): (401, 404, 200, 200, 200, 200),
    ("admin/audit", "GET"): OPERATORS,
    ("admin/audit/export", "GET"): OPERATORS,
    ("admin/clusters", "GET"): OPERATORS,
    ("admin/clusters/{cluster}", "GET"): OPERATORS,
    ("admin/clusters/{cluster}", "PATCH"): OPERATORS,
    ("admin/nodes", "GET"): OPERATORS,
    ("admin/nodes/{name}", "GET"): OPERATORS,
    ("admin/nodes/{name}/holds", "GET"): OPERATORS,
    ("admin/devices", "GET"): OPERATORS,
    ("admin/devices/{uuid}", "GET"): OPERATORS,
    ("admin/devices/{uuid}/holds", "GET"): OPERATORS,
    ("metrics/series", "GET"): OPERATORS,
    **access_tenancy.TENANCY,
    **access_asking.ASKING,
}
QUERY: Final = {"metrics/series": "?level=cluster", "events": "?workspace=team-a"}


def routes() -> list[str]:
    """Every address below /api/v1/, its parameters in braces."""
    found = [path.removeprefix("api/v1/") for path in _walk(get_resolver(), "") if path.startswith("api/")]
    return sorted(set(found))


def _walk(resolver: URLResolver, prefix: str) -> Iterator[str]:
    for pattern in resolver.url_patterns:
        path = prefix + re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(pattern.pattern))
        if isinstance(pattern, URLPattern):
            yield path
        else:
            yield from _walk(pattern, path)


@pytest.fixture
def job(w: World) -> Job:
    return jobs.job(w.queue, w.editor, "known")


def address(route: str, w: World, job: Job, **places: str) -> str:
    """Where a route is in this world; `places` stand in for the ids that belong to nothing."""
    values = {"ws": w.workspace.slug, "job": str(job.pk), "prefix": "deadbeef", "name": "node-1"}
    values |= {**access_tenancy.VALUES, **access_asking.VALUES, "tenant": str(w.workspace.pk)}
    values["uuid"] = w.nodes[0].devices.first().uuid
    values |= {"node": str(w.queue.node_id), "revision": str(w.cell.pk), "grant": str(w.cell.pk)}
    values |= {"queue": w.queue.name, "cluster": w.cluster.name, **places}
    return "/api/v1/" + re.sub(r"\{(\w+)\}", lambda match: values[match[1]], route) + QUERY.get(route, "")


def client_of(who: str, w: World, as_user: As) -> APIClient:
    if who in access_actors.DERIVED:
        return access_actors.client(who, w, as_user)
    return as_user(None if who == "anonymous" else getattr(w, who))


def expected(who: str, route: tuple[str, str], row: tuple[int, ...]) -> int:
    if who in WHO:
        return row[WHO.index(who)]
    # What is open to strangers is open to every key that is one.
    if row == ANYBODY and who != "expired_key":
        return 200
    return access_actors.expected(who, route, row[WHO.index("admin")])


def call(client: APIClient, method: str, path: str, route: str) -> Any:
    """The answer to a request with the body of the table."""
    if method == "GET":
        return client.generic(method, path)
    if route in FILES:
        return client.generic(method, path, FILES[route], content_type="text/csv")
    made = {**BODIES, **access_asking.BODIES, **access_tenancy.bodies(str(tenancy.root().pk))}
    body = made.get(route, JOB)
    sent = {} if method == "DELETE" else {"data": json.dumps(body), "content_type": "application/json"}
    return client.generic(method, path, headers={"If-Match": "*"}, **sent)


def test_the_table_names_every_route() -> None:
    assert sorted({route for route, _ in TABLE}) == routes()


@pytest.mark.parametrize("who", [*WHO, *access_actors.DERIVED])
def test_who_may_do_what(who: str, w: World, job: Job, as_user: As) -> None:
    client = client_of(who, w, as_user)
    wrong = {}
    for (route, method), row in TABLE.items():
        Job.unscoped.exclude(pk=job.pk).delete()
        Job.unscoped.filter(pk=job.pk).update(state=JobState.QUEUED)
        got = call(client, method, address(route, w, job), route).status_code
        if got != expected(who, (route, method), row):
            wrong[route, method] = got
    assert not wrong


def test_no_route_takes_a_method_that_the_table_lacks(w: World, job: Job, as_user: As) -> None:
    client = as_user(w.platform_admin)
    for route in routes():
        for method in METHODS:
            if (route, method) not in TABLE:
                answer = client.generic(method, address(route, w, job))
                assert answer.status_code == 405, (route, method)


def test_a_job_of_another_workspace_does_not_exist_below_ones_own(w: World, as_user: As) -> None:
    foreign = jobs.job(w.other_queue, w.outsider, "theirs")
    client = as_user(w.admin)

    for ref in (str(foreign.pk), foreign.name):
        for tail in ("", "/events", "/tasks"):
            assert client.get(f"/api/v1/workspaces/team-a/jobs/{ref}{tail}").status_code == 404
        for verb in ("cancel", "suspend", "resume"):
            assert client.post(f"/api/v1/workspaces/team-a/jobs/{ref}/{verb}").status_code == 404
