"""Functions that are imported at their first call.

Wiring names the functions that the layers below may call. Importing all of them at start would load the
engine and numpy into every command, even one that lists rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

deferred_paths: Final[set[str]] = set()
"""Every path deferred in this process; a test resolves each, since no type checker does."""


def defer_import(path: str) -> Callable[..., Any]:
    """Return the callable `package.module:name`, imported at its first call; `name` may have dots."""
    deferred_paths.add(path)

    def call_deferred(*args: Any, **kwargs: Any) -> Any:
        return resolve_path(path)(*args, **kwargs)

    return call_deferred


def resolve_path(path: str) -> Any:
    """Return the object that a path of `defer_import` names. Raises: ImportError, AttributeError if it does
    not exist.
    """
    module, _, name = path.partition(":")
    return attrgetter(name)(importlib.import_module(module))
