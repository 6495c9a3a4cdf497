"""Functions for nested mappings such as job files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def merge_trees(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """Return both merged at every depth; if both have a value, that of `first`."""
    found = dict(second)
    for key, value in first.items():
        below = found.get(key)
        if isinstance(value, Mapping) and isinstance(below, Mapping):
            found[key] = merge_trees(value, below)
        else:
            found[key] = value
    return found


def value_at(tree: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path; None if there is none."""
    value: Any = tree
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def values_at(tree: Any, path: str, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the values of a job file at a declared path, each with its place, which includes list indexes."""
    if isinstance(tree, list | tuple):
        for index, item in enumerate(tree):
            yield from values_at(item, path, f"{place}.{index}")
    elif not path:
        yield place, tree
    elif isinstance(tree, Mapping):
        key, _dot, rest = path.partition(".")
        if key in tree:
            yield from values_at(tree[key], rest, f"{place}.{key}" if place else key)


def put_value(tree: dict[str, Any], path: str, value: Any) -> None:
    """Set the value at a dotted path, and create missing mappings on the way."""
    *way, last = path.split(".")
    for key in way:
        tree = tree.setdefault(key, {})
    tree[last] = value
