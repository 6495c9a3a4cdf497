"""Errors are types with a stable code.

The API's problem+json, the console's message and the log line all come from the same object, so the
three never tell different stories. `detail` is a sentence in the reader's language, `code` never changes.
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
    """Base of everything the platform refuses to do, with the HTTP status it answers."""

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
    """Understood, but against a rule: quota, policy, or a shape that can never fit."""

    code = "REFUSED"
    title = _("Request denied")
    status = 422


class PermissionDenied(AllotmentError):
    """The user may see the thing but not do this with it."""

    code = "PERMISSION_DENIED"
    title = _("Permission denied")
    status = 403


class NotFound(AllotmentError):
    """No such thing in the viewer's sight; another tenant's thing answers the same."""

    code = "NOT_FOUND"
    title = _("Not found")
    status = 404


class Conflict(AllotmentError):
    """Somebody else changed it first, or its present state does not allow this."""

    code = "CONFLICT"
    title = _("Conflict: the resource changed")
    status = 409


class PreconditionRequired(AllotmentError):
    """The change must say which version it was made for."""

    code = "PRECONDITION_REQUIRED"
    title = _("Missing If-Match")
    status = 428


class PreconditionFailed(AllotmentError):
    """The row was changed since it was read: look again, then decide anew."""

    code = "PRECONDITION_FAILED"
    title = _("Conflict: the resource changed")
    status = 412


class TooLarge(AllotmentError):
    """The body is larger than anything that is sent here needs to be."""

    code = "TOO_LARGE"
    title = _("Request body too large")
    status = 413
