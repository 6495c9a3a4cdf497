"""Errors are types with a stable code.

The API's problem+json, the console's message and the log line all come from the same object, so they always
agree. `detail` is a sentence in the reader's language, `code` never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext_lazy as _


@dataclass(frozen=True, slots=True)
class FieldError:
    """A fault of one field; `field` is its path in the request, such as `roles.0.image`."""

    field: str
    code: str
    message: str


class AllotmentError(Exception):
    """The base class of all refusals of the platform, with their HTTP status."""

    code = "ERROR"
    title = _("Request failed")
    status = 400

    def __init__(
        self,
        detail: str = "",
        *,
        code: str | None = None,
        numbers: Mapping[str, Any] | None = None,
        errors: Sequence[FieldError] = (),
    ) -> None:
        self.detail = detail or str(self.title)
        super().__init__(self.detail)
        self.code = code or type(self).code
        self.numbers = dict(numbers or {})
        self.errors = tuple(errors)


class Invalid(AllotmentError):
    """The request is well-formed but its content is not acceptable."""

    code = "INVALID"
    title = _("Invalid request")
    status = 400


class Refused(AllotmentError):
    """The request is well-formed but violates a rule: quota, policy, or a shape that can never fit."""

    code = "REFUSED"
    title = _("Request denied")
    status = 422


class PermissionDenied(AllotmentError):
    """The user may see the object but may not do this with it."""

    code = "PERMISSION_DENIED"
    title = _("Permission denied")
    status = 403


class NotFound(AllotmentError):
    """The viewer can see no such object; an object of another tenant gives the same error."""

    code = "NOT_FOUND"
    title = _("Not found")
    status = 404


class Conflict(AllotmentError):
    """Another request changed the object first, or its present state does not allow the change."""

    code = "CONFLICT"
    title = _("Conflict: the resource changed")
    status = 409


class PreconditionRequired(AllotmentError):
    """The change must state the version for which it was made."""

    code = "PRECONDITION_REQUIRED"
    title = _("Missing If-Match")
    status = 428


class PreconditionFailed(AllotmentError):
    """The row was changed since it was read; the caller has to read it again."""

    code = "PRECONDITION_FAILED"
    title = _("Conflict: the resource changed")
    status = 412


class TooLarge(AllotmentError):
    """The body is larger than any valid request."""

    code = "TOO_LARGE"
    title = _("Request body too large")
    status = 413
