"""Calls to a cluster's API: each with a time limit, with bounded retries if they are safe, in plain JSON.

An unknown outcome is distinguished from a refusal. A write whose answer was lost raises `OutcomeUnknown`: the
object may or may not exist, and only a read can find out.
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
    """The API refused a request. `status` is the HTTP status, `reason` the API's, such as AlreadyExists.

    A refused write has certainly not happened. A refused read says no more about the object than a missing
    answer, so callers may treat it as a `BackendUnavailable`.
    """

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason, self.message = status, reason, message


class Denied(RequestRefused, AccessDenied):
    """The API does not permit this to the platform's account, or not yet: an API server that has just started
    denies everything until it has read its roles.

    It proves nothing about the object, so the caller asks again.
    """


class ObjectNameTaken(Exception):
    """A name is taken by an object of another owner; `code` and the text give the reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


class OutcomeUnknown(BackendUnavailable):
    """A write was sent and its answer was lost."""


class _AskAgain(Exception):
    """The request had no effect, so a retry is safe; after `wait_s` seconds if the API names them.

    `of_object`: the object may be the cause, and not the cluster.
    """

    def __init__(self, message: str, wait_s: float = 0.0, *, of_object: bool = False) -> None:
        super().__init__(message)
        self.wait_s, self.of_object = wait_s, of_object


class KubernetesApi:
    """The API of one cluster, safe to share among threads.

    `cluster` is its name, `installation` the id that objects made here carry. `subject` names what all
    calls are about, such as a namespace, or "" for nothing: the breaker counts its failures once.
    Every method raises `RequestRefused` for a refusal, and `BackendUnavailable` without an answer.
    """

    def __init__(
        self, cluster: str, client: ApiClient, breaker: CircuitBreaker, installation: str, subject: str = ""
    ) -> None:
        self.cluster, self.installation = cluster, installation
        self._client, self._breaker, self._subject = client, breaker, subject

    def for_subject(self, subject: str) -> KubernetesApi:
        """Return the same API, for calls that are all about one subject."""
        return KubernetesApi(self.cluster, self._client, self._breaker, self.installation, subject)

    def check_object(self, path: str, answer_s: float) -> None:
        """Ask for one object, once, and wait `answer_s` seconds at most; any answer about it counts.

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
        """Request the deletion of an object."""
        return self._call("DELETE", path, options)

    def stream_lines(self, path: str, idle_s: float, **query: str | int) -> Iterator[bytes]:
        """Yield the lines of a streamed answer, until it ends or nothing has come for `idle_s` seconds."""
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
                answer.close()  # the rest is not read, so the connection cannot serve another call

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
        """Return the error for a status of 500 or more: the cluster is down, or this object is too large."""
        refusal = _refusal(answer, data)
        if answers.is_too_large(refusal.message):
            self._breaker.record_success()
            return RequestRefused(answers.TOO_LARGE, "RequestEntityTooLarge", refusal.message)
        of_object = answer.status != _UNAVAILABLE
        message = f"{call}: {answer.status} {refusal.message}".rstrip()
        return self._lost(message, reads=reads, of_object=of_object)

    def _lost(self, message: str, *, reads: bool, of_object: bool) -> Exception:
        """Return the error for a lost answer: a read may be repeated; the outcome of a write is unknown."""
        if reads:
            return _AskAgain(message, of_object=of_object)
        _FAILURES.add(cluster=self.cluster, kind="unanswered")
        self._breaker.record_failure(self._subject if of_object else "")
        return OutcomeUnknown(message)

    def _check_breaker(self) -> None:
        """Check the breaker. Raises: BackendUnavailable while too many calls have failed."""
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
    """Check that the worker still has its lease: without it another worker may have decided otherwise."""
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
    except (ValueError, AttributeError):  # not from the API but from a proxy in front of it
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
