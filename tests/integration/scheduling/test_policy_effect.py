"""The effect of other settings of a queue, and of another sharing, before they are saved."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from clusters.models import Node, Sharing
from foundation.core import clock
from foundation.core.errors import PermissionDenied
from foundation.core.quantities import Resource
from quotas.models import LedgerEntry, Queue, QueueFlavor
from quotas.services.queues.queue_preset import Preset
from quotas.services.quota_preview import VisibleJobs
from scheduling.models import Decision, Job
from scheduling.services.policy_effect import PolicyPreview, preview_queue_settings, preview_sharing
from tenants.models import Role
from tests.builders import clusters, jobs, quotas, tenancy
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


@pytest.fixture
def here() -> World:
    return world()


def names(seen: VisibleJobs) -> list[str]:
    return [job.name for job in seen.jobs]


def preview(here: World, user: Any = None, **values: Any) -> PolicyPreview:
    return preview_queue_settings(acting_user=user or here.admin, queue=here.queue, values=values)


def running(here: World, queue: Queue, node: Node, name: str, **fields: Any) -> Job:
    """Return a job of a whole node that has run for a day, charged to its queue."""
    since = clock.now() - timedelta(days=1)
    job = jobs.job(queue, here.editor, name, roles=[jobs.RoleOf(cards=8)], submitted_at=since, **fields)
    jobs.allocate(job, node)
    entry = LedgerEntry.unscoped.filter(node=queue.node, resource=Resource.GPU_CARDS).first()
    entry = entry or quotas.reserve(queue, here.flavor, Resource.GPU_CARDS, 0)
    entry.reserved += 8
    entry.save()
    Job.unscoped.filter(pk=job.pk).update(admitted_at=since, started_at=since)
    return job


def test_a_job_that_borrows_starts_later_where_borrowing_ends(here: World) -> None:
    running(here, here.queue, here.nodes[0], "own")
    jobs.job(here.queue, here.editor, "borrower", roles=[jobs.RoleOf(cards=8)])

    found = preview(here, allocation_mode="static")

    assert (found.changes, names(found.delayed), names(found.started)) == (True, ["borrower"], [])
    assert not preview(here, allocation_mode="dynamic").changes
    by_preset = preview_queue_settings(
        acting_user=here.admin, queue=here.queue, values={}, preset=Preset.DETERMINISTIC
    )
    assert names(by_preset.delayed) == ["borrower"]
    # A preview writes nothing.
    here.queue.refresh_from_db()
    assert here.queue.allocation_mode == "dynamic"
    assert not Decision.unscoped.exists()


def test_preemption_of_borrowers_is_foreseen_where_a_queue_may_reclaim(here: World) -> None:
    running(here, here.other_queue, here.nodes[0], "their-own")
    running(here, here.other_queue, here.nodes[1], "their-borrower")
    Queue.unscoped.filter(pk=here.queue.pk).update(reclaim="never")
    here.queue.refresh_from_db()
    jobs.job(here.queue, here.editor, "mine", roles=[jobs.RoleOf(cards=8)])

    found = preview(here, here.platform_admin, reclaim="any")

    assert len(names(found.reclaimed)) == 1
    assert names(found.started) == ["mine"]
    # An admin of the team sees only the number of affected jobs of others.
    of_team = preview(here, reclaim="any")
    assert (names(of_team.reclaimed), of_team.reclaimed.others) == ([], 1)


def test_another_pool_and_an_emptied_queue_have_their_effect(here: World) -> None:
    running(here, here.queue, here.nodes[0], "own")
    for entry in QueueFlavor.unscoped.filter(queue=here.other_queue):
        entry.delete()
    empty = clusters.flavor(here.cluster, "empty", node_selector={"pool": "empty"})
    jobs.job(here.other_queue, here.outsider, "theirs", roles=[jobs.RoleOf(cards=8)])

    drained = preview(here, stop_policy="hold-and-drain")
    added = preview_queue_settings(
        acting_user=here.platform_admin, queue=here.other_queue, values={}, flavors=[here.flavor]
    )
    none = preview_queue_settings(
        acting_user=here.platform_admin, queue=here.other_queue, values={}, flavors=[empty]
    )

    assert names(drained.reclaimed) == ["own"]
    assert names(added.started) == ["theirs"]
    assert (none.changes, names(none.started)) == (True, [])


def test_another_sharing_gives_what_is_free_to_another_job(here: World) -> None:
    """Both teams want the last free node: by share the team that borrows nothing gets it, else the job with
    the higher priority.

    By share, the job with the higher priority therefore preempts one of its own queue.
    """
    clusters.nodes(here.flavor, 2, prefix="more")
    quotas.queue(here.cell, tenancy.workspace("team-c"), [here.flavor], cards=16)
    nodes = [*here.nodes, *here.flavor.nodes.filter(name__startswith="more").order_by("name")]
    for place, name in enumerate(("mine", "borrowed")):
        running(here, here.queue, nodes[place], name)
    running(here, here.other_queue, nodes[2], "theirs")
    high = jobs.priority_class("high", 5)
    jobs.job(here.queue, here.editor, "mine-high", roles=[jobs.RoleOf(cards=8)], priority=high)
    jobs.job(here.other_queue, here.outsider, "theirs-low", roles=[jobs.RoleOf(cards=8)])

    found = preview_sharing(acting_user=here.platform_admin, cell=here.cell, sharing=Sharing.CLASSICAL)

    assert (names(found.spared), names(found.delayed)) == (["borrowed"], ["theirs-low"])
    assert (names(found.reclaimed), names(found.started)) == ([], [])
    assert not preview_sharing(acting_user=here.platform_admin, cell=here.cell, sharing=Sharing.FAIR).changes


def test_no_user_previews_what_they_may_not_save(here: World) -> None:
    with pytest.raises(PermissionDenied):
        preview(here, here.editor, backfill=False)
    with pytest.raises(PermissionDenied):
        preview(here, while_borrowing="any")
    with pytest.raises(PermissionDenied):
        viewer = tenancy.user("vic", None, Role.PLATFORM_VIEWER)
        preview_sharing(acting_user=viewer, cell=here.cell, sharing=Sharing.CLASSICAL)
