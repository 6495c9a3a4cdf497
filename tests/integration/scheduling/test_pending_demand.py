"""What waits in queues is counted the same whether the queues are named in the query or not."""

from __future__ import annotations

import pytest

from scheduling.selectors.pending import pending
from tests.builders import jobs
from tests.builders.jobs import RoleOf
from tests.builders.world import world

pytestmark = pytest.mark.django_db


def test_many_queues_are_counted_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    w = world()
    for number, queue in enumerate((w.queue, w.queue, w.other_queue)):
        jobs.job(queue, w.editor, f"job-{number}", roles=[RoleOf(cards=number + 1)])
    jobs.job(w.queue, w.editor, "no-gpu", roles=[RoleOf(cards=0)])
    both = [w.queue.node_id, w.other_queue.node_id]
    named = [pending.pending_demand(nodes) for nodes in (both, both[:1], both[1:], [])]
    assert [(one.jobs, one.cards) for one in named[0].values()] == [(3, 3), (1, 3)]
    assert set(named[1]) == {w.queue.node_id}
    assert named[0][w.queue.node_id].flavor_cards == {w.flavor.pk: 3}

    monkeypatch.setattr(pending, "_NARROW", -1)
    assert [pending.pending_demand(nodes) for nodes in (both, both[:1], both[1:], [])] == named
