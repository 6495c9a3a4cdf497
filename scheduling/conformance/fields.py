"""Typed access to the fields of an untyped object; errors name object and field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from scheduling.conformance.errors import ObjectError

E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class CaseFields:
    """One object, or a part of it. `where` is its path: `ClusterQueue a:` for a whole object,
    `ClusterQueue a: spec.preemption` for a part.

    A field that is missing or null is read as empty; a field of another type raises ObjectError.
    """

    value: Mapping[str, Any]
    where: str

    def __contains__(self, key: str) -> bool:
        return self.value.get(key) is not None

    def path_of(self, key: str) -> str:
        """Return the path of a field."""
        return f"{self.where} {key}" if self.where.endswith(":") else f"{self.where}.{key}"

    def read_text(self, key: str, default: str = "") -> str:
        """Return a string."""
        found: str = self._of(key, str, default)
        return found

    def read_number(self, key: str, default: int = 0) -> int:
        """Return a whole number."""
        found: int = self._of(key, int, default)
        return found

    def read_flag(self, key: str, default: bool) -> bool:
        """Return true or false."""
        found: bool = self._of(key, bool, default)
        return found

    def read_choice(self, key: str, names: Mapping[str, E], default: E) -> E:
        """Return the value in `names` for one of its words. Raises: ObjectError for another word."""
        word = self.read_text(key)
        if not word:
            return default
        if word not in names:
            raise ObjectError(self.path_of(key), f"{word!r} is none of {', '.join(names)}")
        return names[word]

    def read_object(self, *keys: str) -> CaseFields:
        """Return the nested object at a path of keys; empty if it is missing."""
        found = self
        for key in keys:
            found = CaseFields(found._of(key, Mapping, {}), found.path_of(key))
        return found

    def read_objects(self, key: str) -> tuple[CaseFields, ...]:
        """Return a list of objects."""
        entries: Sequence[Any] = self._of(key, (list, tuple), ())
        for index, entry in enumerate(entries):
            if not isinstance(entry, Mapping):
                raise ObjectError(f"{self.path_of(key)}[{index}]", f"{entry!r} is not an object")
        return tuple(
            CaseFields(entry, f"{self.path_of(key)}[{index}]") for index, entry in enumerate(entries)
        )

    def read_texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        entries: Sequence[Any] = self._of(key, (list, tuple), ())
        for index, entry in enumerate(entries):
            if not isinstance(entry, str):
                raise ObjectError(f"{self.path_of(key)}[{index}]", f"{entry!r} is not a text")
        return tuple(entries)

    def read_labels(self, key: str) -> dict[str, str]:
        """Return a mapping of names to texts, such as labels."""
        found = self.read_object(key)
        return {name: found.read_text(name) for name in found.value}

    def _of(self, key: str, kind: Any, default: Any) -> Any:
        found = self.value.get(key)
        if found is None:
            return default
        if not isinstance(found, kind) or (kind is int and isinstance(found, bool)):
            raise ObjectError(self.path_of(key), f"{found!r} does not belong here")
        return found
