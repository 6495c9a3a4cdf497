"""The parameters of every write of the REST API: `dry_run=true`, and `Idempotency-Key` on POST.

The views do not handle them. A dry run executes the request, rolls it back and returns the same response,
marked by the header `Dry-Run: true`. A repeated request returns the stored response.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from django.utils.translation import gettext as _
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.audit import audit_log
from foundation.core.errors import FieldError, Invalid
from foundation.web.idempotency import (
    Repeatable,
    StoredAnswer,
    answer_once,
    checked_key,
    content_fingerprint,
    route_of,
)
from tenants.api.requests.dry_run import preview_change
from tenants.models import User

UNSAFE: Final = ("POST", "PUT", "PATCH", "DELETE")
KEY: Final = "Idempotency-Key"
DRY_RUN: Final = "Dry-Run"
REPLAYED: Final = "Idempotency-Replayed"
_STORED_HEADERS: Final = ("Location", "ETag")
_WORDS: Final = {"true": True, "1": True, "false": False, "0": False}
Handler = Callable[..., Response]


class Writes(Protocol):
    """The properties of a view that its writes depend on."""

    handles_dry_run: bool
    secret_fields: tuple[str, ...]

    @property
    def viewer(self) -> User: ...

    def may_see_again(self) -> None: ...


def dry_run_of(request: Request) -> bool:
    """Return whether the write is a dry run. Raises: Invalid for anything but true or false."""
    value = request.query_params.get("dry_run", "false").lower()
    if value not in _WORDS:
        message = _("Must be true or false.")
        raise Invalid(message, errors=[FieldError("dry_run", "TYPE", message)])
    return _WORDS[value]


def carry_out(view: Writes, handler: Handler, request: Request, *args: Any, **kwargs: Any) -> Response:
    """Run the handler of a write as the request's parameters and headers say."""

    def run() -> Response:
        return handler(request, *args, **kwargs)

    if dry_run_of(request):
        answer = run() if view.handles_dry_run else preview_change(run)
        answer.headers.pop("Location", None)
        answer.headers[DRY_RUN] = "true"
        _hide(answer.data, view.secret_fields)
        return answer
    if request.method == "POST" and KEY in request.headers:
        return _once(view, run, request)
    return run()


def _once(view: Writes, run: Callable[[], Response], request: Request) -> Response:
    given: list[Response] = []

    def make_answer() -> StoredAnswer:
        answer = run()
        given.append(answer)
        headers = {name: answer.headers[name] for name in _STORED_HEADERS if name in answer.headers}
        # A secret is shown once, so it is removed from the response that is stored for repetitions.
        return StoredAnswer(answer.status_code, _without(answer.data, view.secret_fields), headers)

    query = {name: values for name, values in request.query_params.lists() if name != "dry_run"}
    content = content_fingerprint(request.data, query)
    key = checked_key(request.headers[KEY])
    route = route_of(request.method or "", request.path)
    with audit_log.outlive_rollback():
        stored, repeated = answer_once(Repeatable(view.viewer.pk, route, key, content), make_answer)
    if not repeated:
        return given[0]
    view.may_see_again()
    return Response(stored.body, stored.status, headers={**stored.headers, REPLAYED: "true"})


def _without(body: Any, names: tuple[str, ...]) -> Any:
    return {**body, **dict.fromkeys(names)} if names and isinstance(body, Mapping) else body


def _hide(body: Any, names: tuple[str, ...]) -> None:
    if isinstance(body, dict):
        body.update(dict.fromkeys(set(names) & set(body)))
