"""Problems outside REST views have the same shape, in the reader's language, with the same codes."""

from __future__ import annotations

import pytest
from django.core.exceptions import PermissionDenied, SuspiciousOperation
from django.test import Client

from tests.builders.world import World

ME = "/api/v1/me"
TITLES = {400: "请求无效", 403: "没有权限", 404: "未找到", 500: "内部错误"}


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (SuspiciousOperation("no"), 400, "INVALID"),
        (PermissionDenied("no"), 403, "PERMISSION_DENIED"),
        (RuntimeError("secret"), 500, "INTERNAL"),
        (None, 404, "NOT_FOUND"),
    ],
)
def test_what_fails_around_the_views(
    w: World, monkeypatch: pytest.MonkeyPatch, error: Exception | None, status: int, code: str
) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(w.editor)

    def fail(*_: object, **__: object) -> None:
        assert error is not None
        raise error

    if error is not None:
        monkeypatch.setattr("django_htmx.middleware.HtmxMiddleware.__call__", fail)
    for language, title in (("zh-hans", TITLES[status]), ("en", None)):
        path = "/api/v1/nowhere" if error is None else ME
        answer = client.get(path, headers={"Accept-Language": language})
        body = answer.json()
        assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
        assert (body["status"], body["code"], body["errors"]) == (status, code, [])
        assert body["instance"] and "secret" not in answer.content.decode()
        assert title is None or body["title"] == title


def test_a_host_that_is_not_ours(client: Client) -> None:
    answer = client.get(ME, headers={"Host": "evil.example"})

    assert (answer.status_code, answer.json()["code"]) == (400, "INVALID")


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("get", ME, 401, "NOT_AUTHENTICATED"),
        ("put", ME, 401, "NOT_AUTHENTICATED"),
    ],
)
def test_problems_of_the_framework_are_translated(
    client: Client, db: None, method: str, path: str, status: int, code: str
) -> None:
    answers = [
        getattr(client, method)(path, headers={"Accept-Language": language}).json()
        for language in ("en", "zh-hans")
    ]

    assert [(body["status"], body["code"]) for body in answers] == [(status, code)] * 2
    assert answers[0]["title"] != answers[1]["title"]
