"""Retries that repeat no change, and refusals as errors that help."""

from __future__ import annotations

import httpx
import pytest

from allotment_client import Problem, ServerUnreachable
from tests.client.server import KEY, Scripted, problem

ACCEPTED = httpx.Response(202, json={"id": "1", "name": "train", "state": "queued"})
LOST = httpx.ConnectError("connection refused")


def test_a_submission_is_repeated_with_the_same_key() -> None:
    server = Scripted(LOST, httpx.Response(503), problem(409, "IDEMPOTENCY_KEY_IN_USE"), ACCEPTED)
    assert server.client().submit("vision", {"roles": []})["name"] == "train"
    keys = {request.headers["Idempotency-Key"] for request in server.seen}
    assert (len(server.seen), len(keys)) == (4, 1)
    assert server.seen[0].url.path == "/api/v1/workspaces/vision/jobs"


def test_two_submissions_have_two_keys() -> None:
    server = Scripted(ACCEPTED, ACCEPTED)
    client = server.client()
    client.submit("vision", {})
    client.submit("vision", {})
    assert len({request.headers["Idempotency-Key"] for request in server.seen}) == 2


@pytest.mark.parametrize(
    ("header", "low", "high"),
    [("7", 7, 7), ("86400", 60, 60), ("Thu, 01 Jan 1970 00:00:00 GMT", 0, 0.5), ("soon", 0.1, 0.5)],
)
def test_retry_after_is_honoured_within_reason(header: str, low: float, high: float) -> None:
    server = Scripted(problem(429, "RATE_LIMITED", headers={"Retry-After": header}), ACCEPTED)
    server.client().submit("vision", {})
    assert low <= server.slept[0] <= high


def test_a_refusal_is_not_repeated_and_names_the_fields() -> None:
    errors = [{"field": "roles.0.image", "code": "IMAGE_NOT_ALLOWED", "message": "not this one"}]
    server = Scripted(problem(422, "POLICY_DENIED", errors=errors))
    with pytest.raises(Problem) as caught:
        server.client().submit("vision", {})
    assert (caught.value.status, caught.value.code) == (422, "POLICY_DENIED")
    assert caught.value.errors[0].field == "roles.0.image"
    assert "roles.0.image: not this one" in str(caught.value)
    assert len(server.seen) == 1


def test_giving_up_says_where_and_shows_no_key() -> None:
    server = Scripted(LOST, LOST)
    with pytest.raises(ServerUnreachable) as caught:
        server.client(tries=2).me()
    assert "http://allotment.test" in str(caught.value)
    assert KEY not in str(caught.value)
    assert len(server.seen) == 2


def test_a_page_that_is_no_problem_is_still_one() -> None:
    with pytest.raises(Problem, match="502"):
        Scripted(httpx.Response(502, text="<html>")).client(tries=1).me()


def test_a_redirect_does_not_carry_the_key_elsewhere() -> None:
    server = Scripted(httpx.Response(302, headers={"Location": "http://elsewhere.test/"}))
    with pytest.raises(Problem):
        server.client().me()
    assert len(server.seen) == 1


def test_names_stay_inside_their_part_of_the_address() -> None:
    server = Scripted(ACCEPTED)
    server.client().job("vision", "../../admin/users")
    assert server.seen[0].url.raw_path == b"/api/v1/workspaces/vision/jobs/..%2F..%2Fadmin%2Fusers"


def test_yaml_is_sent_as_it_is() -> None:
    server = Scripted(ACCEPTED)
    server.client().submit("vision", "name: train\n")
    assert server.seen[0].headers["Content-Type"] == "application/yaml"
    assert server.seen[0].content == b"name: train\n"


def test_pages_are_read_until_the_limit() -> None:
    pages = [
        httpx.Response(200, json={"items": [{"name": str(n)} for n in (1, 2)], "total": None, "next": "c"}),
        httpx.Response(200, json={"items": [{"name": str(n)} for n in (3, 4)], "total": None, "next": "d"}),
    ]
    server = Scripted(*pages)
    assert [job["name"] for job in server.client().jobs("vision", limit=3)] == ["1", "2", "3"]
    assert "cursor=c" in str(server.seen[1].url)
