"""The scheduling engine: it decides which queued jobs start, on which nodes and cards, and why others wait.

The engine is a pure function of a snapshot. Other packages import from here and from
`scheduling.engine.model` only. The names of `scheduling.engine.public` are imported when one of them is first
used, so that a user of the data model alone, such as a command that lists jobs, loads neither numpy nor the
algorithms.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

# An attribute that exists is not looked up among the public names.
import scheduling.engine.model  # noqa: F401

if TYPE_CHECKING:
    from scheduling.engine.public import *  # noqa: F403


def __getattr__(name: str) -> Any:
    """Import a public name at its first use and store it (PEP 562)."""
    if not name.startswith("_"):
        public = importlib.import_module("scheduling.engine.public")
        if hasattr(public, name):
            found = globals()[name] = getattr(public, name)
            return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
