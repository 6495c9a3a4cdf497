"""A server with scripted answers, for tests of the client without a network."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx

from allotment_client import Client, Configuration

Reply = Callable[[httpx.Request], httpx.Response]
KEY = "alt_secretsecretsecret"


def problem(status: int, code: str, **more: Any) -> httpx.Response:
    """Return a refusal as the platform sends it."""
    headers = more.pop("headers", {}) | {"Content-Type": "application/problem+json"}
    return httpx.Response(status, json={"code": code, "detail": f"said {code}", **more}, headers=headers)


class Scripted:
    """Answers requests in order; an exception in the script is raised in place of an answer."""

    def __init__(self, *script: httpx.Response | Exception) -> None:
        self.script = list(script)
        self.seen: list[httpx.Request] = []
        self.slept: list[float] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def client(self, **settings: Any) -> Client:
        configuration = Configuration("http://allotment.test", KEY, **settings)
        return Client(configuration, sleep=self.slept.append, transport=httpx.MockTransport(self))
