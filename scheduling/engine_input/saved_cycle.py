"""Saves the complete input of an engine cycle to a file, and runs such a file with the same result."""

from __future__ import annotations

import json
from typing import Any, Final

from scheduling import engine
from scheduling.engine.model import Instant
from scheduling.engine_input.config import CLASSICAL, FAIR, engine_config

FORMAT: Final = "allotment-cycle-1"
_DEFAULT_POLICY: Final = "default"


class DumpError(ValueError):
    """The file is not a saved cycle."""


def dump_cycle(snapshot: engine.Snapshot, now: float, *, sharing: str = FAIR) -> str:
    """Return a snapshot, the time of its cycle (epoch seconds) and the cell's sharing as JSON text."""
    content = {"format": FORMAT, "now": now, "sharing": sharing, "snapshot": json.loads(snapshot.to_json())}
    return json.dumps(content)


def replay_cycle(text: str) -> dict[str, Any]:
    """Run a saved cycle; return `decisions`, `outcomes` and `counters` as plain JSON values.

    Raises: DumpError.
    """
    try:
        content = json.loads(text)
        if content.get("format") != FORMAT:
            raise DumpError(f"this is not a saved cycle ({FORMAT})")
        snapshot = engine.Snapshot.from_json(json.dumps(_with_known_policies(content["snapshot"])))
        now = Instant(float(content["now"]))
        # Older files do not name the sharing; all cells used fair sharing then.
        sharing = content.get("sharing", FAIR)
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError, engine.SnapshotError) as error:
        raise DumpError(f"this is not a saved cycle: {error}") from error
    if sharing not in (CLASSICAL, FAIR):
        raise DumpError(f"this cycle shares by a rule that is not known here: {sharing!r}")
    config = engine_config(sharing)
    result: dict[str, Any] = json.loads(engine.to_canonical_json(engine.run_cycle(snapshot, config, now)))
    return result


def _with_known_policies(snapshot: dict[str, Any]) -> dict[str, Any]:
    """Return a saved snapshot in which flavors with a removed placement policy get the default one, as in
    a cell."""
    known = {name for name, _ in engine.EngineConfig().policies}
    flavors = [
        flavor if flavor["policy"] in known else {**flavor, "policy": _DEFAULT_POLICY}
        for flavor in snapshot["flavors"]
    ]
    return {**snapshot, "flavors": flavors}
