"""A cell shares what tenants leave unused by the rule that its setting names, in every kind of cycle."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import time_machine
from django.core.management import call_command
from django.core.management.base import CommandError

from clusters.models import Cell, Sharing
from clusters.services.cell import cell_set
from foundation.core.errors import PermissionDenied
from foundation.messaging import outbox
from foundation.models import AuditRecord
from quotas.models import Queue
from scheduling.engine_input.config import CLASSICAL, FAIR
from scheduling.models import JobState
from scheduling.services.cycle import cycle_run
from scheduling.snapshots import cell_snapshot
from tenants.models import Role, User
from tests.builders import jobs, quotas, tenancy
from tests.builders.stage import Stage, state

pytestmark = pytest.mark.django_db
WHOLE_NODE = jobs.RoleOf(cards=8)


class Contest(Stage):
    """Two teams that own four cards each, and eight cards for both. The first runs on one node; for the
    other node a job of the first waits, and one of the second that was submitted later."""

    def __init__(self, traveller: time_machine.Traveller) -> None:
        super().__init__(cards=4)
        quotas.gpu_quota(quotas.quota_node(self.cell, tenancy.root()), self.flavor, 8)
        workspace = tenancy.workspace("team-b")
        self.other_user: User = tenancy.user("bo", workspace, Role.EDITOR)
        self.other: Queue = quotas.queue(self.cell, workspace, [self.flavor], cards=4)
        self.submit("running", WHOLE_NODE, run_s=100_000)
        self.run(15)
        traveller.shift(18)
        self.first = self.submit("first", WHOLE_NODE, run_s=100_000)
        traveller.shift(1)
        self.later = jobs.job(
            self.other, self.other_user, "later", roles=(WHOLE_NODE,), simulate={"run_s": 100_000}
        )

    def choose(self, sharing: Sharing) -> None:
        cell_set(acting_user=tenancy.platform_admin(), cell=self.cell, sharing=sharing)


@pytest.mark.parametrize(
    ("sharing", "winner"),
    [
        (Sharing.FAIR, "later"),  # KEP-1714: the head of the queue with the lowest dominant share
        (Sharing.CLASSICAL, "first"),  # of heads that borrow alike the higher priority, then the older
    ],
)
def test_the_last_node_goes_by_the_rule_of_the_cell(sharing: Sharing, winner: str) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Contest(traveller)
        stage.choose(sharing)
        cycle_run(cell_id=stage.cell.pk)
        started = {job.name for job in (stage.first, stage.later) if state(job) != JobState.QUEUED}
        assert started == {winner}


def test_a_kept_snapshot_follows_the_setting() -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Contest(traveller)
        assert cell_snapshot(stage.cell.pk).sharing == Sharing.FAIR
        outbox.clear_hints((outbox.Topic.CYCLE,), stage.cell.pk)
        stage.choose(Sharing.CLASSICAL)
        assert cell_snapshot(stage.cell.pk).sharing == Sharing.CLASSICAL
        stage.run(6)  # the snapshot is kept since the cycles that were fair
        assert state(stage.first) != JobState.QUEUED
        assert state(stage.later) == JobState.QUEUED


@pytest.mark.parametrize(("sharing", "winner"), [(Sharing.FAIR, "later"), (Sharing.CLASSICAL, "first")])
def test_a_saved_cycle_is_run_again_by_its_rule(sharing: Sharing, winner: str, tmp_path: Path) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Contest(traveller)
        stage.choose(sharing)
        saved, result = tmp_path / "cycle.json", tmp_path / "result.json"
        call_command("cycle_dump", "--cell", stage.cell.name, "--json", str(saved))
        call_command("cycle_replay", str(saved), "--json", str(result))
    admitted = [d["job"] for d in json.loads(result.read_text())["decisions"] if d["kind"] == "admit"]
    assert admitted == [str(getattr(stage, winner).pk)]


def test_a_saved_cycle_without_a_rule_was_fair_and_an_unknown_rule_is_refused(tmp_path: Path) -> None:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        stage = Contest(traveller)
        saved, result = tmp_path / "cycle.json", tmp_path / "result.json"
        call_command("cycle_dump", "--cell", stage.cell.name, "--json", str(saved))
    content = json.loads(saved.read_text())
    del content["sharing"]
    saved.write_text(json.dumps(content))
    call_command("cycle_replay", str(saved), "--json", str(result))
    assert str(stage.later.pk) in result.read_text()
    saved.write_text(json.dumps({**content, "sharing": "by-lot"}))
    with pytest.raises(CommandError, match="not known here: 'by-lot'"):
        call_command("cycle_replay", str(saved))


def test_who_may_edit_clusters_may_choose_and_the_choice_is_recorded(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stage = Stage()
    with pytest.raises(PermissionDenied):
        cell_set(acting_user=stage.user, cell=stage.cell, sharing=Sharing.CLASSICAL)
    admin = tenancy.platform_admin()
    call_command("cell", "set", stage.cell.name, "--sharing", "classical", "--user", admin.username)
    assert Cell.unscoped.get().sharing == Sharing.CLASSICAL
    record = AuditRecord.unscoped.get(action="cell.set")
    assert (record.before, record.after) == ({"sharing": "fair"}, {"sharing": "classical"})
    capsys.readouterr()
    call_command("cell", "list", "--user", admin.username)
    assert "classical" in capsys.readouterr().out


def test_the_configuration_knows_the_values_of_the_setting() -> None:
    assert {FAIR, CLASSICAL} == set(Sharing.values)
