"""Requests to the API by kind: each kind draws addresses as users and tools of a team would."""

from __future__ import annotations

import json
import random
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

Team = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request; with a body it is a POST. `follow` requests the next page as well."""

    path: str
    body: str | None = None
    follow: bool = False


def _jobs(team: Team, query: str = "") -> str:
    return f"/api/v1/workspaces/{team['slug']}/jobs{query}"


def _recent(draw: random.Random) -> str:
    since = datetime.now(UTC) - timedelta(hours=draw.randrange(6, 24 * 60))
    return since.strftime("%Y-%m-%dT%H:%M:%SZ")


def _submission(team: Team, draw: random.Random) -> ApiRequest:
    role = {
        "replicas": draw.choice((1, 1, 1, 2, 4)),
        "image": "train:1",
        "command": ["python", "train.py"],
        "resources": {"cpu": 8, "memory": "64Gi", "gpu": {"cards": 1}},
    }
    name = f"new-{secrets.token_hex(6)}"  # not from the seed: a kept database has earlier names
    body = {"name": name, "queue": f"queue-{draw.randrange(4)}", "roles": [role]}
    return ApiRequest(_jobs(team), json.dumps(body))


Draw = Callable[[Team, random.Random], ApiRequest]
KINDS: Final[dict[str, Draw]] = {
    "list": lambda team, draw: ApiRequest(_jobs(team), follow=True),
    "list by name": lambda team, draw: ApiRequest(_jobs(team, "?sort=name"), follow=True),
    "list by priority": lambda team, draw: ApiRequest(_jobs(team, "?sort=-priority"), follow=True),
    "filter state": lambda team, draw: ApiRequest(
        _jobs(team, f"?state={draw.choice(('queued', 'running', 'failed', 'suspended', 'queued,running'))}")
    ),
    "filter queue": lambda team, draw: ApiRequest(_jobs(team, f"?queue=queue-{draw.randrange(4)}")),
    "filter owner": lambda team, draw: ApiRequest(
        _jobs(team, f"?submitted_by={team['slug']}-{draw.randrange(5)}"), follow=True
    ),
    "filter mine and state": lambda team, draw: ApiRequest(_jobs(team, "?mine=true&state=running,queued")),
    "filter name, common": lambda team, draw: ApiRequest(
        _jobs(team, f"?name={draw.choice(('llama', 'train', 'whisper'))}")
    ),
    "filter name, rare": lambda team, draw: ApiRequest(
        _jobs(team, f"?name={draw.choice(team['names'])[-5:]}")
    ),
    "filter name, none": lambda team, draw: ApiRequest(_jobs(team, f"?name=nothing{draw.randrange(99)}")),
    "filter priority": lambda team, draw: ApiRequest(
        _jobs(team, f"?priority_class={draw.choice(('normal', 'high'))}")
    ),
    "filter time": lambda team, draw: ApiRequest(_jobs(team, f"?filterBy=submitted_at<={_recent(draw)}")),
    "filter end and time": lambda team, draw: ApiRequest(
        _jobs(team, f"?end_reason=TASK_FAILED&filterBy=finished_at>={_recent(draw)}")
    ),
    "get by id": lambda team, draw: ApiRequest(_jobs(team, f"/{draw.choice(team['jobs'])}")),
    "get by name": lambda team, draw: ApiRequest(_jobs(team, f"/{draw.choice(team['names'])}")),
    "get tasks": lambda team, draw: ApiRequest(_jobs(team, f"/{draw.choice(team['jobs'])}/tasks")),
    "get workspace": lambda team, draw: ApiRequest(f"/api/v1/workspaces/{team['slug']}"),
    "list queues": lambda team, draw: ApiRequest(f"/api/v1/workspaces/{team['slug']}/queues"),
    "submit": _submission,
}
"""The function that draws a request, by kind. Requests of no kind have no limits."""
