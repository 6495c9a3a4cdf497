"""The holders of what a pending job lacks: by visible tenant, and adding up to the pool."""

from __future__ import annotations

import pytest
from django.test import Client

from clusters.models import Device
from foundation.core.quantities import Resource
from foundation.core.reasons import Reason
from frontend.pages.jobs.pending.held_by import HeldBy, describe_held_by
from quotas.models import Queue
from scheduling.models import Job
from scheduling.selectors.pending.pool_holders import list_pool_holders
from tenants.models import User
from tests.builders import jobs, quotas, tenancy
from tests.builders.world import World, world
from tests.unit.frontend.pages.forms import page

CARDS = {"flavor": "a100", "resource": "gpu.cards", "asked": 4, "available": 1}


@pytest.fixture
def w(db: None) -> World:
    made = world()
    hold(made, made.queue, made.editor, "mine", 2)
    hold(made, made.other_queue, made.outsider, "secret", 10, node=1)
    hold(made, quotas.queue(made.cell, tenancy.workspace("team-c"), [made.flavor]), made.editor, "third", 1)
    return made


def hold(w: World, queue: Queue, user: User, name: str, cards: int, node: int = 0) -> None:
    job = jobs.job(queue, user, name, roles=[jobs.RoleOf(cards=min(cards, 8))])
    jobs.allocate(job, w.nodes[node])
    quotas.reserve(queue, w.flavor, Resource.GPU_CARDS, cards)


def wait(w: World, reason: Reason = Reason.WAITING_FOR_BORROWED, **fields: object) -> Job:
    fields.setdefault("reason_numbers", CARDS)
    return jobs.job(w.queue, w.editor, "waits", reason=reason, **fields)


def rows(pool: HeldBy) -> dict[str, tuple[str, str, str]]:
    return {line.name: (line.amount, line.nominal, line.borrowed) for line in pool.lines}


def test_an_editor_sees_the_own_jobs_and_the_sum_of_others(client: Client, w: World) -> None:
    job = wait(w)
    [pool] = describe_held_by(w.editor, job)
    assert rows(pool) == {
        "Team A": ("2 GPUs", "2 GPUs", "–"),
        "mine": ("2 GPUs", "", ""),
        "Other tenants": ("11 GPUs", "8 GPUs", "3 GPUs"),
        "Free": ("3 GPUs", "", ""),
    }
    assert pool.words == "Total: 16 GPUs, Team A: 2 GPUs, Other tenants: 11 GPUs, Free: 3 GPUs"
    client.force_login(w.editor)
    text = page(client, f"/w/team-a/jobs/{job.pk}")
    assert "Held by" in text and pool.words in text
    assert f'/jobs/{Job.unscoped.get(name="mine").pk}"' in text
    assert "Team B" not in text and "secret" not in text


def test_a_platform_admin_sees_every_tenant_and_no_job_of_others(w: World) -> None:
    [pool] = describe_held_by(w.platform_admin, wait(w))
    assert rows(pool)["Team B"] == ("10 GPUs", "8 GPUs", "2 GPUs")
    assert rows(pool)["Team C"] == ("1 GPU", "–", "1 GPU")
    assert "Other tenants" not in rows(pool) and "secret" not in rows(pool)


def test_what_is_not_of_the_platform_is_a_part_of_the_pool(w: World) -> None:
    free = list(Device.unscoped.filter(holders=0).order_by("pk")[:3])
    Device.unscoped.filter(pk=free[0].pk).update(foreign_holders=1, cores_foreign=100)
    Device.unscoped.filter(pk=free[1].pk).update(healthy=False)
    [found] = list_pool_holders(viewer=w.editor, job=wait(w))
    assert (found.held, found.unmanaged, found.unavailable, found.free) == (13, 1, 1, 1)
    assert found.total == Device.unscoped.count()


def test_a_lack_of_room_shows_the_gpus_of_the_pools_that_fit(w: World) -> None:
    [found] = list_pool_holders(viewer=w.editor, job=wait(w, Reason.NO_ROOM, reason_numbers={}))
    assert (found.flavor.name, found.resource, found.total) == ("a100", Resource.GPU_CORES, 1600)


def test_a_job_that_lacks_nothing_of_others_has_no_holders(w: World) -> None:
    assert list_pool_holders(viewer=w.editor, job=wait(w, Reason.NEVER_FITS)) == []
