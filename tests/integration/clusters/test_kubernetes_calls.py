"""Calls to an API that is slow, busy, broken, or swallows its answers."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from clusters.backends.base import BackendUnavailable
from clusters.backends.kubernetes.client import api as calls
from clusters.backends.kubernetes.client.api import (
    ATTEMPTS,
    Denied,
    KubernetesApi,
    OutcomeUnknown,
    RequestRefused,
)
from clusters.backends.kubernetes.client.breaker import FAILURES, CircuitBreaker
from clusters.backends.kubernetes.client.connection import open_client

Answer = tuple[int, bytes] | str  # a status and a body, or the name of what happens to the connection
NO = json.dumps({"kind": "Status", "reason": "AlreadyExists", "message": "pods x exists"}).encode()


class Server(ThreadingHTTPServer):
    """Sends the scripted answers in order, repeats the last one, and records the requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers: list[Answer] = [(200, b"{}")]
        self.asked: list[tuple[str, str, str]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def _any(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.server.asked.append((self.command, self.path, body))
        answers = self.server.answers
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, str):  # the answer is lost
            self.close_connection = True
            self.connection.close()
            return
        self.send_response(answer[0])
        self.send_header("Content-Length", str(len(answer[1])))
        self.end_headers()
        self.wfile.write(answer[1])

    do_GET = do_POST = do_PATCH = do_DELETE = _any  # noqa: N815 (names of the base class)

    def log_message(self, *_: object) -> None:
        """Log nothing: the test's own report is enough."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(calls, "_BACKOFF_S", 0.001)
    server = Server()
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def api(server: Server, tmp_path: Path) -> KubernetesApi:
    token = tmp_path / "token"
    token.write_text("t")
    address = f"http://127.0.0.1:{server.server_port}"
    client = open_client({"kind": "token", "server": address, "token_file": str(token)})
    return KubernetesApi("east", client, CircuitBreaker(), "here")


WRITES: list[Callable[[KubernetesApi], Any]] = [
    lambda api: api.create_object("/x", {}),
    lambda api: api.patch("/x", {}),
    lambda api: api.delete("/x", {}),
]


def test_a_read_is_tried_again_until_it_is_answered(server: Server, api: KubernetesApi) -> None:
    server.answers = [(500, b"oops"), "lost", (200, b'{"a": 1}')]
    assert api.get("/x", limit=5) == {"a": 1}
    assert server.asked == [("GET", "/x?limit=5", "")] * 3


@pytest.mark.parametrize("answer", [(500, b"oops"), (503, b""), (429, b""), "lost"])
def test_a_read_that_is_never_answered_ends_after_a_few_tries(
    server: Server, api: KubernetesApi, answer: Answer
) -> None:
    server.answers = [answer]
    with pytest.raises(BackendUnavailable, match="GET /x"):
        api.get("/x")
    assert len(server.asked) == ATTEMPTS


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("answer", [(500, b"oops"), (504, b""), "lost"])
def test_a_write_whose_answer_is_lost_is_not_sent_again(
    server: Server, api: KubernetesApi, write: Callable[[KubernetesApi], Any], answer: Answer
) -> None:
    server.answers = [answer]
    with pytest.raises(OutcomeUnknown):
        write(api)
    assert len(server.asked) == 1


@pytest.mark.parametrize("write", WRITES)
def test_a_write_that_was_turned_away_is_sent_again(
    server: Server, api: KubernetesApi, write: Callable[[KubernetesApi], Any]
) -> None:
    server.answers = [(429, b""), (201, b'{"a": 1}')]
    assert write(api) == {"a": 1}
    assert len(server.asked) == 2


def test_a_refusal_carries_the_words_of_the_api(server: Server, api: KubernetesApi) -> None:
    server.answers = [(409, NO)]
    with pytest.raises(RequestRefused) as caught:
        api.create_object("/x", {"n": 1})
    assert (caught.value.status, caught.value.reason, caught.value.message) == (
        409,
        "AlreadyExists",
        "pods x exists",
    )
    assert server.asked == [("POST", "/x", '{"n": 1}')]


def test_a_refusal_by_something_in_front_of_the_api_is_reported_too(
    server: Server, api: KubernetesApi
) -> None:
    server.answers = [(404, b"<html>no such page")]
    with pytest.raises(RequestRefused, match="404 : <html>no such page"):
        api.get("/x")


def test_a_token_that_is_not_accepted_makes_the_cluster_unavailable(
    server: Server, api: KubernetesApi
) -> None:
    server.answers = [(401, b"{}")]
    with pytest.raises(BackendUnavailable, match="does not accept the platform's token"):
        api.get("/x")


def test_an_answer_that_is_no_json_is_not_believed(server: Server, api: KubernetesApi) -> None:
    server.answers = [(200, b"hello")]
    with pytest.raises(BackendUnavailable, match="not JSON"):
        api.get("/x")


def test_a_redirect_is_not_followed(server: Server, api: KubernetesApi) -> None:
    server.answers = [(302, b"hello")]
    with pytest.raises(BackendUnavailable, match="not JSON"):
        api.get("/x")


def test_an_api_that_hangs_is_not_waited_for(
    server: Server, api: KubernetesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "ANSWER_S", 0.05)
    release = threading.Event()
    monkeypatch.setattr(_Handler, "do_POST", lambda _: release.wait(5))
    with pytest.raises(OutcomeUnknown, match="the answer was lost"):
        api.create_object("/x", {})
    release.set()


def test_a_list_is_read_page_by_page(server: Server, api: KubernetesApi) -> None:
    first = {"items": [1, 2], "metadata": {"continue": "next", "resourceVersion": "7"}}
    last = {"items": None, "metadata": {"resourceVersion": "7"}}
    server.answers = [(200, json.dumps(page).encode()) for page in (first, last)]
    assert api.list_objects("/x", labelSelector="a=b") == ([1, 2], "7")
    assert server.asked[1][1] == "/x?limit=500&labelSelector=a%3Db&continue=next"


def test_many_failures_open_the_breaker_and_no_call_is_made(server: Server, api: KubernetesApi) -> None:
    server.answers = [(500, b"")]
    for _ in range(FAILURES):
        with pytest.raises(BackendUnavailable):
            api.create_object("/x", {})
    asked = len(server.asked)
    with pytest.raises(BackendUnavailable, match="in a row failed"):
        api.create_object("/x", {})
    assert len(server.asked) == asked


def status(code: int, reason: str, message: str) -> Answer:
    return code, json.dumps({"kind": "Status", "reason": reason, "message": message}).encode()


@pytest.mark.parametrize(
    "answer",
    [
        status(500, "", "etcdserver: request is too large"),
        status(
            500,
            "",
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max (3 vs. 2)",
        ),
        status(413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728"),
        (413, b"<html>413 Request Entity Too Large"),
    ],
)
def test_an_object_that_is_too_large_is_refused_and_says_nothing_about_the_cluster(
    server: Server, api: KubernetesApi, answer: Answer
) -> None:
    server.answers = [answer]
    for _ in range(2 * FAILURES):
        with pytest.raises(RequestRefused, match=r"too large|larger than max|Too Large") as caught:
            api.create_object("/x", {})
        assert caught.value.status == 413
    server.answers = [(201, b'{"a": 1}')]
    assert api.create_object("/x", {}) == {"a": 1}


@pytest.mark.parametrize(
    "answer",
    [status(500, "InternalError", "Internal error occurred: failed calling webhook"), (504, b""), "lost"],
)
def test_what_fails_for_one_object_alone_does_not_close_the_cluster_for_others(
    server: Server, api: KubernetesApi, answer: Answer
) -> None:
    server.answers = [answer]
    for _ in range(2 * FAILURES):
        with pytest.raises(OutcomeUnknown):
            api.for_subject("team/fat").create_object("/x", {})
    server.answers = [(201, b'{"a": 1}')]
    assert api.for_subject("team/other").create_object("/x", {}) == {"a": 1}


@pytest.mark.parametrize("answer", [(500, b""), "lost"])
def test_what_fails_for_many_objects_closes_the_cluster(
    server: Server, api: KubernetesApi, answer: Answer
) -> None:
    server.answers = [answer]
    for number in range(FAILURES):
        with pytest.raises(OutcomeUnknown):
            api.for_subject(f"team/{number}").create_object("/x", {})
    asked = len(server.asked)
    with pytest.raises(BackendUnavailable, match="in a row failed"):
        api.for_subject("team/other").create_object("/x", {})
    assert len(server.asked) == asked


def test_an_api_server_that_is_not_ready_closes_the_cluster_whatever_was_asked(
    server: Server, api: KubernetesApi
) -> None:
    server.answers = [(503, b"")]
    for _ in range(FAILURES):
        with pytest.raises(BackendUnavailable):
            api.for_subject("team/one").create_object("/x", {})
    with pytest.raises(BackendUnavailable, match="in a row failed"):
        api.for_subject("team/other").create_object("/x", {})


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        (
            'configmaps is forbidden: User "allotment" cannot get resource "configmaps" in API group ""',
            Denied,
        ),
        ('forbidden: User "system:serviceaccount:allotment:allotment" cannot get path "/version"', Denied),
        ('pods "a" is forbidden: not yet ready to handle request', Denied),
        ('pods "a" is forbidden: status unknown for quota: cards', Denied),
        ('pods "a" is forbidden: exceeded quota: cards, requested: 8, used: 0, limited: 1', RequestRefused),
        ('pods "a" is forbidden: violates PodSecurity "restricted:latest"', RequestRefused),
        (
            'pods "a" is forbidden: unable to create new content in namespace b: it is being terminated',
            RequestRefused,
        ),
    ],
)
def test_a_missing_right_of_the_platform_differs_from_an_invalid_object(
    server: Server, api: KubernetesApi, message: str, kind: type[RequestRefused]
) -> None:
    server.answers = [status(403, "Forbidden", message)]
    with pytest.raises(RequestRefused) as caught:
        api.create_object("/x", {})
    assert type(caught.value) is kind
    assert caught.value.message == message


@pytest.mark.parametrize("answer", [(200, b"{}"), (404, NO), status(403, "Forbidden", "no")])
def test_any_answer_about_an_object_says_that_the_cluster_is_there(
    server: Server, api: KubernetesApi, answer: Answer
) -> None:
    server.answers = [answer]
    api.check_object("/x", 1.0)
    assert server.asked == [("GET", "/x", "")]


@pytest.mark.parametrize("answer", [(500, b""), (503, b""), (504, b""), (429, b""), (401, b"{}"), "lost"])
def test_a_check_asks_once(server: Server, api: KubernetesApi, answer: Answer) -> None:
    server.answers = [answer]
    with pytest.raises(BackendUnavailable, match="GET /x"):
        api.check_object("/x", 1.0)
    assert len(server.asked) == 1


def test_a_check_waits_no_longer_than_its_timeout(
    server: Server, api: KubernetesApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    release = threading.Event()
    monkeypatch.setattr(_Handler, "do_GET", lambda _: release.wait(5))
    began = time.monotonic()
    with pytest.raises(BackendUnavailable, match="the answer was lost"):
        api.check_object("/x", 0.05)
    assert time.monotonic() - began < 2
    release.set()


def test_a_refused_connection_is_known_to_have_done_nothing(server: Server, api: KubernetesApi) -> None:
    server.shutdown()
    server.server_close()
    with pytest.raises(BackendUnavailable, match="no connection") as caught:
        api.create_object("/x", {})
    assert not isinstance(caught.value, OutcomeUnknown)


def test_lines_end_when_nothing_more_comes(server: Server, api: KubernetesApi) -> None:
    server.answers = [(200, b'{"a":1}\n{"b":2}\n{"c"')]
    assert list(api.stream_lines("/x", 1.0, watch=1)) == [b'{"a":1}', b'{"b":2}', b'{"c"']


@pytest.mark.parametrize(("answer", "error"), [((410, b"{}"), RequestRefused), ("lost", BackendUnavailable)])
def test_a_stream_that_cannot_begin(
    server: Server, api: KubernetesApi, answer: Answer, error: type[Exception]
) -> None:
    server.answers = [answer]
    with pytest.raises(error):
        list(api.stream_lines("/x", 1.0))


@pytest.mark.parametrize("path", ["/api/v1/nodes", "/api/v1/pods"])
@pytest.mark.parametrize("answer", [(403, NO), (500, b"")])
def test_a_list_that_may_not_be_read_makes_the_cluster_unavailable(
    server: Server, api: KubernetesApi, path: str, answer: Answer
) -> None:
    server.answers = [answer]
    with pytest.raises(BackendUnavailable, match=str(answer[0])):
        api.list_objects(path)
    with pytest.raises(BackendUnavailable, match=str(answer[0])):
        list(api.stream_lines(f"{path}/a/log", 1.0))
