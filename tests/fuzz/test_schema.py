"""Requests generated from the published schema: none fails inside, and each answer is documented there.

Half of the cases name things that exist, so that they pass the 404. Each case is rolled back. A run of CI
sends `REQUESTS`; `ALLOTMENT_FUZZ=5000` sends that many, other ones each time.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, Final

import pytest
import schemathesis
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from rest_framework.test import APIClient

from tests.builders import clusters, jobs, tenancy
from tests.builders.world import World, world

DOCUMENT: Final = Path(__file__).resolve().parents[2] / "docs" / "openapi.yaml"
REQUESTS: Final = 500
WANTED: Final = int(os.environ.get("ALLOTMENT_FUZZ", REQUESTS))
Names = dict[str, str]


@pytest.fixture
def w(db: None) -> World:
    return world()


@pytest.fixture
def known(w: World) -> Names:
    """Return a value of each address parameter that belongs to something."""
    job = jobs.job(w.queue, w.editor, "known")
    device = w.nodes[0].devices.first()
    return {
        "account": "nobody",
        "ws": w.workspace.slug,
        "job": str(job.pk),
        "queue": w.queue.name,
        "tenant": str(w.workspace.pk),
        "member": str(w.editor.memberships.get().pk),
        "role": str(tenancy.custom_role(w.workspace, "Helper", "job.view").pk),
        "user": str(w.editor.pk),
        "group": str(tenancy.group("ml", w.editor).pk),
        "node": str(w.queue.node_id),
        "name": clusters.node(w.flavor, "node-9").name,
        "uuid": str(device.uuid if device else ""),
    }


def operations() -> Iterator[Any]:
    for found in schemathesis.openapi.from_path(str(DOCUMENT)).get_all_operations():
        yield found.ok()


def send(client: APIClient, case: Any, names: Names) -> Any:
    """Send the case, naming things that exist where `names` has them."""
    path = case.path
    for name, value in {**(case.path_parameters or {}), **names}.items():
        path = path.replace("{" + name + "}", str(value))
    headers = {name: str(value) for name, value in (case.headers or {}).items() if _sendable(str(value))}
    query = {name: value for name, value in (case.query or {}).items() if value is not None}
    body = case.body
    if isinstance(body, (dict, list, int, float, bool)) or body is None:
        body = json.dumps(body)
    elif not isinstance(body, (str, bytes)):
        body = ""  # no body at all
    return client.generic(
        case.method.upper(),
        path,
        body if case.method.upper() != "GET" else "",
        content_type=case.media_type or "application/json",
        query_params=query,
        headers=headers,
    )


def _sendable(value: str) -> bool:
    """Return whether an HTTP client could have sent the text in a header at all."""
    return value.isascii() and value.isprintable()


def documented(case: Any) -> set[str]:
    return {str(status) for status in case.operation.definition.raw["responses"]}


def test_what_the_schema_allows_is_answered_as_it_says(w: World, known: Names) -> None:
    client = APIClient(raise_request_exception=False)
    client.force_authenticate(w.platform_admin)
    every = list(operations())
    each, made, wrong = -(-WANTED // len(every)), count(), {}

    for operation in every:

        @settings(
            max_examples=each,
            derandomize=WANTED == REQUESTS,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def try_one(case: Any) -> None:
            number = next(made)
            with transaction.atomic():
                answer = send(client, case, known if number % 2 else {})
                transaction.set_rollback(True)
            status = str(answer.status_code)
            if status.startswith("5") or status not in documented(case):
                wrong.setdefault((case.method, case.path, status), _shown(case))

        try_one()

    assert not wrong, "\n".join(f"{key}: {text}" for key, text in wrong.items())
    assert next(made) >= WANTED * 0.9


def _shown(case: Any) -> str:
    parts = {"path": case.path_parameters, "query": case.query, "headers": case.headers, "body": case.body}
    return str({name: value for name, value in parts.items() if value})[:400]
