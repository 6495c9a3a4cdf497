"""A preset is a combination of settings, with the corresponding values of the engine's queue."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.core.errors import PermissionDenied
from foundation.models import AuditRecord
from quotas.services.queues.queue_preset import Preset, preset_settings, queue_preset
from scheduling.engine import model as em
from scheduling.snapshots.tree import engine_queues
from tests.builders.world import world

pytestmark = pytest.mark.django_db

BACK = em.PreemptionPolicy(within_queue=em.PreemptWithin.LOWER_PRIORITY, reclaim=em.PreemptOthers.ANY)


def engine_queue(here: Any) -> em.Queue:
    return next(queue for queue in engine_queues(here.cell.pk) if queue.id == str(here.queue.pk))


def test_a_new_queue_is_balanced() -> None:
    here = world()
    assert {name: getattr(here.queue, name) for name in preset_settings(Preset.BALANCED)} == preset_settings(
        Preset.BALANCED
    )
    queue = engine_queue(here)
    assert (queue.preemption, queue.fungibility) == (BACK, em.Fungibility())
    assert queue.user_shares
    assert queue.backfill


@pytest.mark.parametrize(
    ("preset", "mode", "policy"),
    [
        (Preset.BALANCED, em.AllocationMode.DYNAMIC, BACK),
        (Preset.DETERMINISTIC, em.AllocationMode.STATIC, em.PreemptionPolicy()),
        (
            Preset.THROUGHPUT,
            em.AllocationMode.DYNAMIC,
            em.PreemptionPolicy(
                within_queue=em.PreemptWithin.LOWER_PRIORITY,
                reclaim=em.PreemptOthers.ANY,
                while_borrowing=em.PreemptOthers.LOWER_PRIORITY,
            ),
        ),
    ],
)
def test_the_settings_of_the_engine(
    preset: Preset, mode: em.AllocationMode, policy: em.PreemptionPolicy
) -> None:
    here = world()
    queue_preset(acting_user=here.platform_admin, queue=here.queue, preset=preset)
    queue = engine_queue(here)
    assert (queue.allocation_mode, queue.preemption) == (mode, policy)
    assert AuditRecord.unscoped.get(action="queue.preset").after["preset"] == preset.value


def test_other_settings_reach_the_engine() -> None:
    here = world()
    fields = {
        "within_queue": "lower-or-newer-equal-priority",
        "reclaim": "lower-priority",
        "while_borrowing": "lower-priority",
        "max_priority": 7,
        "when_can_borrow": "try-next-flavor",
        "when_can_preempt": "may-stop-search",
        "preference": "preemption-over-borrowing",
        "backfill": False,
        "user_shares": False,
    }
    for name, value in fields.items():
        setattr(here.queue, name, value)
    here.queue.save()
    assert engine_queue(here) == em.Queue(
        id=str(here.queue.pk),
        quota_node=str(here.queue.node_id),
        flavors=(str(here.flavor.pk),),
        preemption=em.PreemptionPolicy(
            within_queue=em.PreemptWithin.LOWER_OR_NEWER_EQUAL_PRIORITY,
            reclaim=em.PreemptOthers.LOWER_PRIORITY,
            while_borrowing=em.PreemptOthers.LOWER_PRIORITY,
            max_priority=7,
        ),
        fungibility=em.Fungibility(
            when_can_borrow=em.WhenCan.TRY_NEXT_FLAVOR,
            when_can_preempt=em.WhenCan.MAY_STOP_SEARCH,
            preference=em.Preference.PREEMPTION_OVER_BORROWING,
        ),
        backfill=False,
        user_shares=False,
    )


def test_a_user_who_may_not_edit_the_queue_may_not_choose_its_preset() -> None:
    here = world()
    with pytest.raises(PermissionDenied):
        queue_preset(acting_user=here.viewer, queue=here.queue, preset=Preset.THROUGHPUT)
