"""A saved cycle decides the same as the live one, and bad files cost one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from foundation.core import clock
from scheduling import engine
from scheduling.engine.model import Instant
from scheduling.engine_input.config import engine_config
from scheduling.snapshots import cell_snapshot
from tests.builders import jobs
from tests.builders.world import world

pytestmark = pytest.mark.django_db


def test_a_saved_cycle_decides_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here = world()
    for cards in (8, 4, 8):
        jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=cards)])
    file = tmp_path / "cycle.json"

    call_command("cycle_dump", "--json", str(file))
    call_command("cycle_replay", str(file), "--json", "-")

    saved = json.loads(capsys.readouterr().out)
    live = engine.run_cycle(
        cell_snapshot(here.cell.pk).snapshot, engine_config(), Instant(clock.now().timestamp())
    )
    assert saved == json.loads(engine.to_canonical_json(live))
    assert len(saved["decisions"]) == 2


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"format": "allotment-cycle-1", "now": 1, "snapshot": {}}']
)
def test_a_file_that_is_no_cycle_costs_one_line(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.json"
    file.write_text(text)
    with pytest.raises(CommandError, match="not a saved cycle") as caught:
        call_command("cycle_replay", str(file))
    assert caught.value.returncode == 2
