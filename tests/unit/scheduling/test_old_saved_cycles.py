"""Saved cycles of an earlier version are read and decide what they decided then.

The files were written at commit 2e246f20 and hold every field that the engine's model had. Where a later
version decides otherwise on purpose, the expectation changes with it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scheduling.engine_input.saved_cycle import replay_cycle

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "saved_cycles"
Decided = list[tuple[str, str, str | None]]
DECISIONS: dict[str, Decided] = {
    "admitted": [("admit", "j00", None)],
    "moved": [
        ("migrate", "j10", "CONSOLIDATION"),
        ("migrate", "j12", "CONSOLIDATION"),
        ("park", "j14", "CONSOLIDATION"),
    ],
    "reclaimed": [("evict", "j07", "RECLAIM_NOMINAL"), ("park", "j12", None), ("park", "j10", None)],
}
REASONS = {
    "admitted": {"EXCEEDS_MAX_QUOTA": 2, "POLICY_DENIED": 2},
    "moved": {
        "BACKOFF": 1, "NEVER_FITS": 2, "NO_ROOM": 1, "POLICY_DENIED": 2, "SUSPENDED": 1,
        "WAITING_FOR_PREEMPTED": 1,
    },
    "reclaimed": {"NEVER_FITS": 5, "NO_ROOM": 4, "WAITING_FOR_PREEMPTED": 2, "WAITING_FOR_QUOTA": 1},
}  # fmt: skip


@pytest.mark.parametrize("name", DECISIONS)
def test_an_old_saved_cycle_decides_as_it_did(name: str) -> None:
    result = replay_cycle((FOLDER / f"{name}.json").read_text())
    told = [(decision["kind"], decision["job"], decision["rule"]) for decision in result["decisions"]]
    waiting = [outcome["reason"] for outcome in result["outcomes"] if outcome["reason"]]
    assert told == DECISIONS[name]
    assert {reason: waiting.count(reason) for reason in sorted(set(waiting))} == REASONS[name]


def test_every_old_file_is_replayed() -> None:
    assert {path.stem for path in FOLDER.glob("*.json")} == set(DECISIONS)


def test_a_placement_policy_that_is_gone_counts_as_the_default_one() -> None:
    saved = json.loads((FOLDER / "moved.json").read_text())
    results = []
    for policy in ("reuse", "default"):
        for flavor in saved["snapshot"]["flavors"]:
            flavor["policy"] = policy
        results.append(replay_cycle(json.dumps(saved)))
    assert results[0] == results[1]
