"""A request without permission is refused before its body is read, whatever the body is."""

from __future__ import annotations

import pytest

from foundation.web.parsers import BodyParser
from tests.api.conftest import As
from tests.builders import tenancy
from tests.builders.world import World

TEAM = "/api/v1/workspaces/team-a"
BOMB = b"[" * 50_000


@pytest.fixture
def unread(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the sizes of the bodies that parsers of any kind have read."""
    sizes: list[int] = []
    for kind in _kinds(BodyParser):
        if "read_body" in vars(kind):
            original = kind.read_body

            def read(self: BodyParser, body: bytes, original: object = original) -> object:
                sizes.append(len(body))
                return original(self, body)  # type: ignore[operator]

            monkeypatch.setattr(kind, "read_body", read)
    return sizes


def _kinds(kind: type[BodyParser]) -> list[type[BodyParser]]:
    return [kind, *(each for below in kind.__subclasses__() for each in _kinds(below))]


@pytest.mark.parametrize(
    ("method", "path", "media"),
    [
        ("POST", f"{TEAM}/jobs", "application/yaml"),
        ("POST", f"{TEAM}/jobs", "application/json"),
        ("POST", f"{TEAM}/job-submissions", "application/json"),
        ("POST", f"{TEAM}/job-actions", "application/json"),
        ("POST", f"{TEAM}/queues", "application/json"),
        ("POST", "/api/v1/admin/quota-file", "application/yaml"),
        ("POST", "/api/v1/admin/quota-file", "text/csv"),
        ("POST", "/api/v1/admin/overrides", "application/json"),
        ("POST", "/api/v1/tenants", "application/json"),
    ],
)
def test_a_viewer_is_refused_before_the_body_is_read(
    w: World, as_user: As, unread: list[int], method: str, path: str, media: str
) -> None:
    answer = as_user(w.viewer).generic(method, path, BOMB, content_type=media)

    assert (answer.status_code, answer.json()["code"]) == (403, "PERMISSION_DENIED")
    assert unread == []


def test_a_stranger_learns_nothing_of_a_workspace_by_sending_to_it(
    w: World, as_user: As, unread: list[int]
) -> None:
    nobody = tenancy.user("nobody")

    answer = as_user(nobody).generic("POST", f"{TEAM}/jobs", BOMB, content_type="application/yaml")
    file = as_user(nobody).generic("POST", "/api/v1/admin/quota-file", BOMB, content_type="application/yaml")

    assert (answer.status_code, file.status_code) == (404, 403)
    assert unread == []


def test_an_editor_who_sends_it_gets_its_mistakes(w: World, as_user: As) -> None:
    answer = as_user(w.editor).generic("POST", f"{TEAM}/jobs", BOMB, content_type="application/yaml")

    assert (answer.status_code, answer.json()["code"]) == (400, "YAML_INVALID")
    assert "32" in answer.json()["detail"]
