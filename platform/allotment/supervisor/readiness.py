"""Asks the web process whether the platform works."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass, field

TIMEOUT_S = 3.0


@dataclass(frozen=True, kw_only=True)
class Readiness:
    """The answer of `/readyz/platform`: `problems` has one line for each part that does not work."""

    ready: bool
    problems: list[str] = field(default_factory=list)


def query_readiness(port: int, host: str = "127.0.0.1") -> Readiness:
    """Query `/readyz/platform` once; a web process that does not answer is a problem like any other."""
    connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_S)
    try:
        connection.request("GET", "/readyz/platform")
        response = connection.getresponse()
        body = response.read()
    except (OSError, http.client.HTTPException) as error:
        return Readiness(ready=False, problems=[f"web: unreachable ({error})"])
    finally:
        connection.close()
    if response.status == http.client.OK:
        return Readiness(ready=True)
    return Readiness(ready=False, problems=_problems(body) or [f"web: answers with status {response.status}"])


def _problems(body: bytes) -> list[str]:
    try:
        checks = json.loads(body)["checks"]
        return [f"{check['name']}: {check['message']}" for check in checks if not check["ok"]]
    except (ValueError, KeyError, TypeError):
        return []
