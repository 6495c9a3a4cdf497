"""Checks that an invalid request gets a problem that names the field, and changes nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction
from rest_framework.test import APIClient

from tests.access.tables import contents

REFUSED: Final = (400, 404, 409, 413, 422)


@dataclass(frozen=True, slots=True)
class Bad:
    """An invalid request; `{name}` in the path and in texts of the body is a thing of the small world.

    `field` is one that the answer must name; empty for the body as a whole.
    """

    method: str
    path: str
    body: Any
    field: str
    media: str = "application/json"

    def __str__(self) -> str:
        return f"{self.method} {self.path} {str(self.body)[:80]}"


def _filled(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, str):
        for name, known in names.items():
            value = value.replace(f"{{{name}}}", known)
        return value
    if isinstance(value, dict):
        return {key: _filled(item, names) for key, item in value.items()}
    return [_filled(item, names) for item in value] if isinstance(value, list) else value


def faults(client: APIClient, rows: Sequence[Bad], names: dict[str, str]) -> str:
    """Send each row and return a line for each one that is answered wrongly, or that changed something."""
    client.raise_request_exception = False
    before, found = contents(), []
    for bad in rows:
        with transaction.atomic():
            fault = _fault(client, bad, names) or ("" if contents() == before else "something was changed")
            transaction.set_rollback(True)
        if fault:
            found.append(f"{bad}: {fault}")
    return "\n".join(found)


def _fault(client: APIClient, bad: Bad, names: dict[str, str]) -> str:
    # JSON in plain ASCII, because half of a surrogate pair cannot be sent otherwise. Bytes stay as they are.
    body = _filled(bad.body, names)
    text = body if bad.media != "application/json" or isinstance(body, bytes) else json.dumps(body)
    headers = {"Idempotency-Key": "bad", "Accept-Language": "zh-hans", "If-Match": "*"}
    path = f"/api/v1/{_filled(bad.path, names)}"
    answer = client.generic(bad.method, path, text, content_type=bad.media, headers=headers)
    if answer.status_code not in REFUSED or answer["Content-Type"] != "application/problem+json":
        return f"{answer.status_code} {answer.content[:300]!r}"
    problem = answer.json()
    # Fields of a file have the line before them: `body.csv:2 nominal`.
    told = [re.sub(r"^body\.\w+:\d+ ?", "", error["field"]) for error in problem["errors"]]
    if bad.field not in told:
        return f"names {told}: {problem['detail']}"
    whole = problem["code"] and all(error["code"] and error["message"] for error in problem["errors"])
    return "" if whole else f"leaves something out: {problem}"
