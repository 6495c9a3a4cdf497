"""One engine cycle as a file: everything it saw, to be run again anywhere with the same answer."""

from __future__ import annotations

import json
from typing import Any, Final

from scheduling import engine
from scheduling.engine.model import Instant
from scheduling.engine_input.config import engine_config

FORMAT: Final = "allotment-cycle-1"


class DumpError(ValueError):
    """The file is not a saved cycle."""


def dump(snapshot: engine.Snapshot, now: float) -> str:
    """A snapshot and the moment (epoch seconds) as text."""
    return json.dumps({"format": FORMAT, "now": now, "snapshot": json.loads(snapshot.to_json())})


def replay(text: str) -> dict[str, Any]:
    """Run a saved cycle; returns `decisions`, `outcomes` and `counters` as plain JSON values.

    Raises: DumpError.
    """
    try:
        content = json.loads(text)
        if content.get("format") != FORMAT:
            raise DumpError(f"this is not a saved cycle ({FORMAT})")
        snapshot = engine.Snapshot.from_json(json.dumps(content["snapshot"]))
        now = Instant(float(content["now"]))
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError, engine.SnapshotError) as error:
        raise DumpError(f"this is not a saved cycle: {error}") from error
    result: dict[str, Any] = json.loads(engine.canonical(engine.run_cycle(snapshot, engine_config(), now)))
    return result
