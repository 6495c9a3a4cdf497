"""Calls to a cluster's API: each with a time limit, bounded retries where they are safe, plain JSON back.

What is not known is kept apart from what was refused. A write whose answer was lost raises
`OutcomeUnknown`: the object may or may not exist, and only looking tells.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from kubernetes.client import ApiClient
from kubernetes.client.exceptions import ApiException
from urllib3 import BaseHTTPResponse, Timeout
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ReadTimeoutError

from clusters.backends.base import AccessDenied, BackendUnavailable
from clusters.backends.kubernetes.client import answers
from clusters.backends.kubernetes.client.breaker import CircuitBreaker
from foundation.messaging import leases
from foundation.monitoring.counters import Counter, Histogram

Json = dict[str, Any]

CONNECT_S: Final = 3.0
ANSWER_S: Final = 10.0
ATTEMPTS: Final = 3
MERGE_PATCH: Final = "application/merge-patch+json"
_BACKOFF_S: Final = 0.2
_LONGEST_WAIT_S: Final = 3.0
_PAGE: Final = 500
_UNAUTHORISED, _TOO_MANY, _SERVER_ERROR, _UNAVAILABLE = 401, 429, 500, 503


_CALLS: Final = Histogram(
    "allotment_cluster_call_seconds", "One call to the API of a cluster.", ("cluster", "method")
)
_FAILURES: Final = Counter(
    "allotment_cluster_failures_total",
    "Calls that a cluster did not answer, or that were held back because others had failed.",
    ("cluster", "kind"),
)


class RequestRefused(BackendUnavailable):
    """The API said no. `status` is HTTP's, `reason` the API's word for it, such as AlreadyExists.

    A write that was refused is known not to have happened. Of a read nothing more is learnt than from
    silence, so whoever does not look closer may treat it so.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason, self.message = status, reason, message


class Denied(RequestRefused, AccessDenied):
    """The API does not let the platform's account do this, or not yet: an API server that has just started
    denies everything until it has read its roles.

    It says nothing about the object, so whoever asked for it asks again.
    """


class ObjectNameTaken(Exception):
    """A name, or the object of that name, is somebody else's; `code` and the text say by what."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class OutcomeUnknown(BackendUnavailable):
    """A write was sent and its answer lost."""


class _AskAgain(Exception):
    """Nothing has happened, so that asking again is safe; after `wait_s` seconds where the API says so.

    `of_object`: the object may be the cause, and not the cluster.
    """

    def __init__(self, message: str, wait_s: float = 0.0, *, of_object: bool = False) -> None:
        super().__init__(message)
        self.wait_s, self.of_object = wait_s, of_object


class KubernetesApi:
    """One cluster's API, safe to share among threads.

    `cluster` is its name, `installation` the id that objects made here carry. `subject` names what all
    calls are about, such as a namespace, or "" for nothing: the breaker counts its failures once.
    Every method raises `RequestRefused` when the API says no, and `BackendUnavailable` when it says nothing.
    """

    def __init__(
        self, cluster: str, client: ApiClient, breaker: CircuitBreaker, installation: str, subject: str = ""
    ) -> None:
        self.cluster, self.installation = cluster, installation
        self._client, self._breaker, self._subject = client, breaker, subject

    def for_subject(self, subject: str) -> KubernetesApi:
        """The same API, for calls that are all about one thing."""
        return KubernetesApi(self.cluster, self._client, self._breaker, self.installation, subject)

    def check_object(self, path: str, answer_s: float) -> None:
        """Ask for one object, once, and wait `answer_s` seconds at most; any answer about it will do.

        Raises: BackendUnavailable.
        """
        try:
            self._once("GET", path, None, {}, answer_s)
        except _AskAgain as error:
            self._breaker.record_failure()
            raise BackendUnavailable(str(error)) from error
        except RequestRefused:
            return

    def get(self, path: str, **query: str | int) -> Json:
        """Read one object."""
        return self._call("GET", path, query=query)

    def list_objects(self, path: str, **query: str | int) -> tuple[list[Json], str]:
        """Read a whole list, page by page: its items, and the version to watch from."""
        page = self.get(path, limit=_PAGE, **query)
        items: list[Json] = page.get("items") or []
        while following := page["metadata"].get("continue"):
            page = self.get(path, limit=_PAGE, **query, **{"continue": following})
            items += page.get("items") or []
        return items, str(page["metadata"]["resourceVersion"])

    def create_object(self, path: str, body: Json) -> Json:
        """Write a new object, or carry out a subresource such as a binding."""
        return self._call("POST", path, body)

    def patch(self, path: str, body: Json) -> Json:
        """Merge `body` into an object: null removes a key, a resourceVersion makes it compare and swap."""
        return self._call("PATCH", path, body)

    def delete(self, path: str, options: Json) -> Json:
        """Ask for the end of an object."""
        return self._call("DELETE", path, options)

    def stream_lines(self, path: str, idle_s: float, **query: str | int) -> Iterator[bytes]:
        """The lines of a streamed answer, until it ends or nothing has come for `idle_s` seconds."""
        answer = None
        try:
            answer = self._open("GET", path, query, None, idle_s)
            if answer.status >= 400:
                raise _refusal(answer, answer.data)
            self._breaker.record_success()
            yield from _split(answer)
        except ReadTimeoutError:
            return
        except (HTTPError, ApiException) as error:
            self._breaker.record_failure()
            raise BackendUnavailable(f"GET {path}: {error}") from error
        finally:
            if answer is not None:
                answer.close()  # the rest is not wanted, so the connection cannot serve another call

    def _call(
        self, method: str, path: str, body: Json | None = None, query: Mapping[str, str | int] | None = None
    ) -> Json:
        for attempt in range(1, ATTEMPTS + 1):
            try:
                return self._once(method, path, body, query or {})
            except _AskAgain as error:
                _FAILURES.add(cluster=self.cluster, kind="unanswered")
                self._breaker.record_failure(self._subject if error.of_object else "")
                if attempt == ATTEMPTS:
                    raise BackendUnavailable(str(error)) from error
                backoff_s = _BACKOFF_S * 2**attempt * random.uniform(0.5, 1.0)
                time.sleep(min(error.wait_s or backoff_s, _LONGEST_WAIT_S))
        raise AssertionError("the last attempt returns or raises")

    def _once(
        self,
        method: str,
        path: str,
        body: Json | None,
        query: Mapping[str, str | int],
        answer_s: float | None = None,
    ) -> Json:
        call, reads = f"{method} {path}", method == "GET"
        if not reads:
            _require_held(call)
        try:
            with _CALLS.time_block(cluster=self.cluster, method=method):
                answer = self._open(method, path, query, body, answer_s)
                data = answer.data
        except (NewConnectionError, ConnectTimeoutError, ApiException) as error:
            raise _AskAgain(f"{call}: no connection: {error}") from error
        except HTTPError as error:
            raise self._lost(f"{call}: the answer was lost: {error}", reads=reads, of_object=True) from error
        if answer.status == _TOO_MANY:
            raise _AskAgain(f"{call}: {answer.status}", _retry_after_s(answer))
        if answer.status >= _SERVER_ERROR:
            raise self._failed(call, answer, data, reads=reads)
        self._breaker.record_success()
        if answer.status == _UNAUTHORISED:
            raise BackendUnavailable(f"{call}: the cluster does not accept the platform's token")
        if answer.status >= 400:
            raise _refusal(answer, data)
        return _parsed(call, data)

    def _failed(self, call: str, answer: BaseHTTPResponse, data: bytes, *, reads: bool) -> Exception:
        """Return the error of an answer of 500 or more: the cluster is down, or this object is too large."""
        refusal = _refusal(answer, data)
        if answers.is_too_large(refusal.message):
            self._breaker.record_success()
            return RequestRefused(answers.TOO_LARGE, "RequestEntityTooLarge", refusal.message)
        of_object = answer.status != _UNAVAILABLE
        message = f"{call}: {answer.status} {refusal.message}".rstrip()
        return self._lost(message, reads=reads, of_object=of_object)

    def _lost(self, message: str, *, reads: bool, of_object: bool) -> Exception:
        """A read may be asked again; of a write nobody knows whether it was carried out."""
        if reads:
            return _AskAgain(message, of_object=of_object)
        _FAILURES.add(cluster=self.cluster, kind="unanswered")
        self._breaker.record_failure(self._subject if of_object else "")
        return OutcomeUnknown(message)

    def _check_breaker(self) -> None:
        """Raises: BackendUnavailable while too many calls have failed."""
        try:
            self._breaker.check_closed()
        except BackendUnavailable:
            _FAILURES.add(cluster=self.cluster, kind="held-back")
            raise

    def _open(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int],
        body: Json | None,
        answer_s: float | None,
    ) -> BaseHTTPResponse:
        self._check_breaker()
        headers = {**self._client.default_headers, "Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = MERGE_PATCH if method == "PATCH" else "application/json"
        try:
            self._client.update_params_for_auth(headers, [], ["BearerToken"], path, method, body)
        except OSError as error:
            raise BackendUnavailable(f"the token can't be read: {error}") from error
        answer: BaseHTTPResponse = self._client.rest_client.pool_manager.request(
            method,
            self._client.configuration.host + path + (f"?{urlencode(query)}" if query else ""),
            body=None if body is None else json.dumps(body),
            headers=headers,
            preload_content=False,
            redirect=False,
            timeout=Timeout(connect=CONNECT_S, read=ANSWER_S if answer_s is None else answer_s),
        )
        return answer


def _require_held(call: str) -> None:
    """Nothing is written by a worker that has lost its lease: another may have decided otherwise."""
    try:
        leases.require_held()
    except leases.LeaseLost as error:
        raise BackendUnavailable(f"{call}: not sent: {error}") from error


def _refusal(answer: BaseHTTPResponse, data: bytes) -> RequestRefused:
    try:
        status = json.loads(data)
        reason, message = str(status.get("reason", "")), str(status.get("message", ""))
        denied = answers.is_denied(answer.status, message)
        return (Denied if denied else RequestRefused)(answer.status, reason, message)
    except (ValueError, AttributeError):  # not the API but something in front of it
        return RequestRefused(answer.status, "", data[:300].decode(errors="replace"))


def _parsed(call: str, data: bytes) -> Json:
    try:
        parsed: Json = json.loads(data)
    except ValueError as error:
        raise BackendUnavailable(f"{call}: the answer is not JSON") from error
    return parsed


def _retry_after_s(answer: BaseHTTPResponse) -> float:
    text = answer.headers.get("Retry-After", "")
    return float(text) if text.isdecimal() else 0.0


def _split(answer: BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for chunk in answer.stream(amt=None, decode_content=True):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line)
    if rest:
        yield rest
