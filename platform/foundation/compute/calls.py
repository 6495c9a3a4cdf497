"""A call for a process that computes, and its outcome."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import structlog
from django.utils import translation

from foundation.core.errors import AllotmentError
from foundation.monitoring.outages import find_outage
from foundation.sql import row_scope


@dataclass(frozen=True, slots=True)
class Call:
    """A function with its arguments, and the context of the calling request.

    All of it is pickled: functions by name, rows with their loaded fields.
    """

    function: Callable[..., Any]
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    scope: row_scope.RowScope = field(default_factory=row_scope.current_scope)
    language: str | None = field(default_factory=translation.get_language)
    logged: Mapping[str, Any] = field(default_factory=structlog.contextvars.get_contextvars)

    def pickle_outcome(self) -> bytes:
        """Run the function in the request's context; return the pickled pair of its result and its error."""
        try:
            with self._use_context():
                found = self.function(*self.args, **self.kwargs), None
        except Exception as error:
            return _pickle_error(error)
        return pickle.dumps(found)

    @contextmanager
    def _use_context(self) -> Iterator[None]:
        with (
            row_scope.use_scope(self.scope),
            translation.override(self.language),
            structlog.contextvars.bound_contextvars(**self.logged),
        ):
            yield


def _pickle_error(error: Exception) -> bytes:
    """Pickle an error with its traceback as a note, without its cause; an outage is sent in its place."""
    outage = None if isinstance(error, AllotmentError) else find_outage(error)
    sent: Exception = outage or error
    note = "".join(traceback.format_exception(error))
    sent.add_note(note)
    try:
        found = pickle.dumps((None, sent))
        pickle.loads(found)  # noqa: S301 (our own)
    except Exception:
        sent = RuntimeError(repr(error))
        sent.add_note(note)
        return pickle.dumps((None, sent))
    return found
