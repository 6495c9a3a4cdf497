"""Parses a mapping of a job file, field by field, without stopping at the first error.

Each method returns a usable value even if it records an error, so that the other fields are still checked and
the user sees all errors together.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from django.utils.translation import gettext as _

from foundation.core.errors import FieldError, Invalid
from foundation.core.quantities import QuantityError

T = TypeVar("T")
_MISSING = object()
_MISTAKES_MAX = 100
"""The number of errors after which parsing stops."""
_PATH_MAX = 300
_KEY_MAX = 60


@dataclass(slots=True)
class Problems:
    """The errors that were found so far."""

    errors: list[FieldError] = field(default_factory=list)

    def add_problem(self, path: str, code: str, message: str) -> None:
        """Record an error. Raises: Invalid with all errors once there are `_MISTAKES_MAX`."""
        self.errors.append(FieldError(path[:_PATH_MAX], code, message))
        if len(self.errors) >= _MISTAKES_MAX:
            self.raise_if_any()

    def raise_if_any(self) -> None:
        """Raise Invalid (code SPEC_INVALID) with one `FieldError` for each error, if there are any."""
        if self.errors:
            raise Invalid(_summary(len(self.errors)), code="SPEC_INVALID", errors=self.errors)


@dataclass(slots=True)
class Section:
    """A mapping at a path, of which only the `known` keys may be present."""

    values: Mapping[str, Any]
    path: str
    problems: Problems

    @classmethod
    def read_section(cls, value: Any, path: str, known: Collection[str], problems: Problems) -> Section:
        """Return the section of `value`; a value that isn't a mapping is an error and read as an empty
        one."""
        if not isinstance(value, Mapping):
            problems.add_problem(path, "TYPE", _("Must be a map of names to values."))
            return cls({}, path, problems)
        section = cls(value, path, problems)
        for key in value:
            if key not in known:
                section.add_problem(str(key), "UNKNOWN", _unknown(str(key), known))
        return section

    def path_of(self, key: str) -> str:
        return f"{self.path}.{key}" if self.path else key

    def add_problem(self, key: str, code: str, message: str) -> None:
        self.problems.add_problem(self.path_of(key), code, message)

    def has_key(self, key: str) -> bool:
        return self.values.get(key) is not None

    def read_integer(self, key: str, *, default: int, low: int = 0, high: int = 2**31 - 1) -> int:
        value = self.values.get(key)
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            self.add_problem(key, "TYPE", _("Must be a whole number."))
            return default
        if not low <= value <= high:
            self.add_problem(
                key, "RANGE", _("Must be from %(low)s to %(high)s.") % {"low": low, "high": high}
            )
            return default
        return value

    def optional_integer(self, key: str, *, low: int, high: int = 2**31 - 1) -> int | None:
        return self.read_integer(key, default=low, low=low, high=high) if self.has_key(key) else None

    def read_number(self, key: str, *, low: float, high: float) -> float | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            limits = {"low": f"{low:g}", "high": f"{high:g}"}
            self.add_problem(key, "RANGE", _("Must be a number from %(low)s to %(high)s.") % limits)
            return None
        return value

    def read_flag(self, key: str, *, default: bool) -> bool:
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, bool):
            self.add_problem(key, "TYPE", _("Must be true or false."))
            return default
        return value

    def read_text(self, key: str, *, default: str = "", limit: int = 300) -> str:
        value = self.values.get(key)
        if value is None:
            return default
        if not isinstance(value, str):
            self.add_problem(key, "TYPE", _("Must be a string, in quotes."))
            return default
        if len(value) > limit:
            self.add_problem(key, "TOO_LONG", _("Maximum: %(limit)s characters.") % {"limit": limit})
            return default
        return value

    def read_choice(self, key: str, among: Sequence[str], *, default: str) -> str:
        value = self.values.get(key, _MISSING)
        if value is _MISSING or value is None:
            return default
        if value not in among:
            self.add_problem(key, "CHOICE", _("Must be one of: %(choices)s.") % {"choices": ", ".join(among)})
            return default
        return str(value)

    def read_quantity(self, key: str, parse: Callable[[Any], T], default: T) -> T:
        """Return a value that a function of `foundation.core.quantities` parses."""
        value = self.values.get(key)
        if value is None:
            return default
        try:
            return parse(value)
        except QuantityError as error:
            self.add_problem(key, "QUANTITY", _(error.sentence) % error.values)
            return default

    def read_items(self, key: str, *, limit: int) -> list[Any]:
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list | tuple):
            self.add_problem(key, "TYPE", _("Must be a list."))
            return []
        if len(value) > limit:
            self.add_problem(key, "TOO_LONG", _("Maximum: %(limit)s entries.") % {"limit": limit})
            return []
        return list(value)

    def read_texts(self, key: str, *, limit: int, length: int = 4096) -> tuple[str, ...]:
        """Return a list of texts; numbers are converted to text."""
        found = []
        for index, value in enumerate(self.read_items(key, limit=limit)):
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                self.add_problem(f"{key}.{index}", "TYPE", _("Must be a string, in quotes."))
            elif len(str(value)) > length:
                limits = {"limit": length}
                self.add_problem(f"{key}.{index}", "TOO_LONG", _("Maximum: %(limit)s characters.") % limits)
            else:
                found.append(str(value))
        return tuple(found)

    def read_subsection(self, key: str, known: Collection[str]) -> Section:
        """Return the section of `key`; a missing one is empty."""
        return Section.read_section(self.read_value(key, {}), self.path_of(key), known, self.problems)

    def read_value(self, key: str, default: Any) -> Any:
        """Return the value of `key`, also an empty one; `default` if it is missing or null."""
        value = self.values.get(key)
        return default if value is None else value

    def refuse_field(self, key: str, message: str) -> None:
        """Record an error if a field is used that the file format knows, but that is not supported yet."""
        if self.values.get(key):
            self.add_problem(key, "NOT_SUPPORTED", message)


def _summary(count: int) -> str:
    if count == 1:
        return _("The job file has 1 error.")
    if count >= _MISTAKES_MAX:
        return _("The job file has %(count)s errors or more.") % {"count": count}
    return _("The job file has %(count)s errors.") % {"count": count}


def _unknown(key: str, known: Collection[str]) -> str:
    # The time of a comparison is the product of both lengths, and no field has such a long name.
    close = difflib.get_close_matches(key, sorted(known), n=1) if len(key) <= _KEY_MAX else []
    if close:
        return _("Unknown field. Did you mean %(close)s?") % {"close": close[0]}
    return _("Unknown field. Valid: %(known)s") % {"known": ", ".join(sorted(known))}
