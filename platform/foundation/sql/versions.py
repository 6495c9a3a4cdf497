"""Optimistic locking: the ETag of a row is its version, and a change names the version for which it was made.

A model uses the mixin `foundation.models.Versioned`. Its service takes `expected: int | None` and calls
`advance_version` first in its transaction: one `UPDATE … WHERE version = expected`, which also locks the row,
so that two callers that read the same version cannot both write. Its view reads `expected` with
`if_match(request)` and responds with `version_header(row)`. Only callers on behalf of the platform itself
pass None.
"""

from __future__ import annotations

import re
from typing import Any, Final, TypeVar

from django.db.models import F, Model
from django.utils.translation import gettext as _
from rest_framework.request import Request

from foundation.core.errors import FieldError, Invalid, PreconditionFailed, PreconditionRequired

VersionedRow = TypeVar("VersionedRow", bound=Model)
_STRONG: Final = re.compile(r'"(\d{1,19})"')
_FIELD: Final = "If-Match"


def version_header(row: Any) -> dict[str, str]:
    """Return the header with the version of `row`: a strong validator."""
    return {"ETag": f'"{row.version}"'}


def if_match(request: Request, *, required: bool = True) -> int | None:
    """Return the version that the caller has read; None for `*`, and if it is absent and not `required`.

    A weak or foreign ETag matches no version: it gives -1.
    Raises: PreconditionRequired (428) if it is missing; Invalid for a list of versions.
    """
    value = request.headers.get(_FIELD, "").strip()
    if not value:
        if not required:
            return None
        message = _("Send the ETag of the version you read in If-Match.")
        raise PreconditionRequired(message, errors=[FieldError(_FIELD, "REQUIRED", message)])
    if value == "*":
        return None
    if "," in value:
        message = _("If-Match must contain one ETag.")
        raise Invalid(message, code="IF_MATCH_INVALID", errors=[FieldError(_FIELD, "FORMAT", message)])
    found = _STRONG.fullmatch(value)
    return int(found[1]) if found else -1


def require_current(row: Any, expected: int | None) -> None:
    """Check the version of a loaded row, if the statement that writes it guards the rest.

    Raises: PreconditionFailed (412).
    """
    if expected is not None and row.version != expected:
        raise _stale()


def advance_version(row: VersionedRow, *, expected: int | None) -> None:
    """Raise the version of `row` in the database and in memory; call it first in the transaction.

    `expected=None` accepts any version. Raises: PreconditionFailed (412) if the row has another version by
    now, or was deleted.
    """
    # Not by `type(row)`, because `row` may be a lazy object.
    rows = row._meta.concrete_model._base_manager.filter(pk=row.pk)  # type: ignore[union-attr]
    if expected is not None:
        rows = rows.filter(version=expected)
    if not rows.update(version=F("version") + 1):
        raise _stale()
    row.version = rows.model._base_manager.values_list("version", flat=True).get(pk=row.pk)  # type: ignore[attr-defined]


def _stale() -> PreconditionFailed:
    message = _("The resource changed since you loaded it. Reload it and try again. No changes were made.")
    return PreconditionFailed(message, errors=[FieldError(_FIELD, "STALE", message)])
