"""Collects the check of each table; the modules below `kueue` and `kai` declare them in `TABLES`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

SYSTEMS: Final = ("scheduling.conformance.kueue", "scheduling.conformance.kai")

Check = Callable[[Mapping[str, Any]], str | None]
"""A function that runs one case; it returns None if the case passes, else a line `expected …, got …`."""


@cache
def all_tables() -> Mapping[str, Check]:
    """Return all checks by the name of the table, which is the stem of its file.

    Raises:
        ValueError: when two modules offer the same table.
    """
    found: dict[str, Check] = {}
    for system in SYSTEMS:
        package = importlib.import_module(system)
        entries = pkgutil.walk_packages(package.__path__, f"{system}.")
        for entry in sorted(entries, key=lambda item: item.name):
            module = importlib.import_module(entry.name)
            for name, check in getattr(module, "TABLES", {}).items():
                if name in found:
                    raise ValueError(f"two modules offer the table {name}; the second is {module.__name__}")
                found[name] = check
    return found
