"""Nested mappings, as job files are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def merged(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Both, key by key at every depth; where both have a value, that of `first`."""
    found = dict(second)
    for key, value in first.items():
        below = found.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            found[key] = merged(value, below)
        else:
            found[key] = value
    return found


def value_at(tree: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path, None where there is none."""
    value: Any = tree
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def put(tree: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a dotted path, making what is missing on the way."""
    *way, last = path.split(".")
    for key in way:
        tree = tree.setdefault(key, {})
    tree[last] = value
