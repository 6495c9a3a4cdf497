"""A snapshot is read in several queries; what is created between them must not contradict the rest."""

from __future__ import annotations

import uuid

import pytest

from quotas.selectors.tree import TreeRows, tree_rows
from scheduling import snapshots
from tests.builders import quotas
from tests.builders.world import world

pytestmark = pytest.mark.django_db


def test_a_queue_opened_while_the_quota_tree_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    here = world()

    def then_open(cell_id: uuid.UUID) -> TreeRows:
        rows = tree_rows(cell_id)
        quotas.queue(here.cell, here.workspace, [here.flavor], name="late", cards=1)
        return rows

    monkeypatch.setattr(snapshots, "tree_rows", then_open)

    assert len(snapshots.empty_snapshot(here.cell.pk).queues) == 2
