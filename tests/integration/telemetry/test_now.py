"""The latest readings, and cards that are held but idle."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pytest_django import DjangoAssertNumQueries

from clusters.models import Device
from foundation.core.errors import PermissionDenied
from scheduling.models import Allocation, DeviceSlice
from telemetry.series import idle_allocated, jobs_now, pools_now, utilisation_now
from telemetry.series.readings import now
from tenants.models import Member
from tests.builders import clusters, tenancy
from tests.integration.telemetry.conftest import START, Bench


def test_the_latest_reading_of_each_card(
    bench: Bench, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    at = bench.ticks(2)
    bench.ticks(1, at, load=10.0)
    with django_assert_num_queries(2):  # memberships, readings
        found = utilisation_now(bench.world.platform_admin)
    assert len(found) == 3
    card = found[bench.device(0).pk]
    assert (card.at, card.utilisation_percent, card.cores_allocated) == (at, 50.0, 60)
    assert (card.memory_used_mib, card.memory_allocated_mib) == (11_000, 40_000)
    assert (card.temperature_c, card.power_w) == (40.0, 100.0)
    second = utilisation_now(bench.world.platform_admin, node_ids=[bench.world.nodes[1].pk])
    assert list(second) == [bench.device(0, node=1).pk]
    assert utilisation_now(bench.world.platform_admin, cluster_id=bench.world.cell.pk) == {}


def test_what_is_old_is_not_now(bench: Bench) -> None:
    bench.ticks(1)
    bench.clock.move_to(START + timedelta(seconds=31))
    assert utilisation_now(bench.world.platform_admin) == {}
    assert jobs_now(bench.world.viewer, [bench.sliced.pk]) == {}


def test_cards_are_for_operators(bench: Bench) -> None:
    with pytest.raises(PermissionDenied):
        utilisation_now(bench.world.viewer)


@pytest.mark.parametrize("narrow", [0, 200])
def test_jobs_in_sight(
    bench: Bench,
    django_assert_num_queries: DjangoAssertNumQueries,
    monkeypatch: pytest.MonkeyPatch,
    narrow: int,
) -> None:
    monkeypatch.setattr(now, "_NARROW", narrow)
    bench.ticks(2)
    both = [bench.sliced.pk, bench.whole.pk]
    with django_assert_num_queries(4):  # roles for each question, readings
        found = jobs_now(bench.world.viewer, both)
    assert set(found) == {bench.sliced.pk}
    use = found[bench.sliced.pk]
    assert (use.cards, use.utilisation_percent, use.utilisation_of_grant_percent) == (2, 15.0, 50.0)
    assert (use.memory_used_mib, use.memory_allocated_mib) == (11_000, 40_000)
    assert set(jobs_now(bench.world.platform_admin, both)) == set(both)
    assert set(jobs_now(bench.world.outsider, both)) == {bench.whole.pk}
    assert set(jobs_now(bench.world.platform_admin, both[:1])) == set(both[:1])


def test_use_of_a_job_counts_in_the_pool_of_each_node(bench: Bench) -> None:
    """Its second task runs on a node of another pool."""
    other = clusters.flavor(bench.world.cluster, "h100", card_model="H100-80G")
    node = clusters.node(other, "h-1")
    moved = Allocation.unscoped.get(task__job=bench.sliced, task__index=1, released_at__isnull=True)
    Allocation.unscoped.filter(pk=moved.pk).update(node=node, flavor=other)
    device = Device.unscoped.get(node=node, index=0)
    DeviceSlice.unscoped.filter(allocation=moved).update(device=device)

    bench.ticks(1)

    team = bench.world.workspace
    use = {pk: one.cores_used for pk, one in pools_now(bench.world.viewer, team.pk).items()}
    assert use == {bench.world.flavor.pk: 10.0, other.pk: 20.0}
    assert pools_now(bench.world.outsider, team.pk) == {}


def test_use_is_shown_to_users_who_may_see_the_jobs_or_their_nodes(bench: Bench) -> None:
    idle_ticks(bench, 33)
    both = [bench.sliced.pk, bench.whole.pk]
    for point, place, seen in (
        ("tenant.view", bench.world.workspace, set()),
        ("job.view", bench.world.workspace, {bench.sliced.pk}),
        ("tenant.view", None, set()),
        ("cluster.view", None, set(both)),
    ):
        viewer = tenancy.user(f"{point} {place}".replace(" ", "-"))
        role = tenancy.custom_role(place, f"only {point}", point)
        Member.unscoped.create(user=viewer, tenant=place, custom_role=role)
        assert set(jobs_now(viewer, both)) == seen, (point, place)
        assert {part.job_id for part in idle_allocated(viewer).slices} == seen, (point, place)


def idle_ticks(bench: Bench, count: int) -> None:
    """The whole card idles, one slice idles, the other works in one of the ticks."""
    at = START
    for tick in range(count):
        bench.clock.move_to(at)
        busy = 20.0 if tick == count // 2 else 0.0
        bench.write(
            bench.card(at, 1, 1.0, 30_000),
            bench.pod(at, bench.sliced, 0, 0.0, 5_000),
            bench.pod(at, bench.sliced, 1, busy, 5_000),
        )
        at += timedelta(seconds=10)


def test_idle_is_held_and_never_used_in_the_whole_time(
    bench: Bench, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    idle_ticks(bench, 33)
    with django_assert_num_queries(2):
        found = idle_allocated(bench.world.platform_admin)
    assert (found.cards, found.jobs) == (2, 2)
    mine = idle_allocated(bench.world.viewer)
    assert (mine.cards, mine.jobs, mine.slices[0].job_id) == (1, 1, bench.sliced.pk)
    assert mine.slices[0].device_id == bench.device(0).pk
    for place, job in ((bench.world.workspace, bench.sliced), (bench.world.other_workspace, bench.whole)):
        here = idle_allocated(bench.world.platform_admin, workspace=place)
        assert {part.job_id for part in here.slices} == {job.pk}


def test_what_began_lately_or_fell_silent_is_not_called_idle(bench: Bench) -> None:
    idle_ticks(bench, 20)
    assert idle_allocated(bench.world.platform_admin).cards == 0
    assert idle_allocated(bench.world.platform_admin, since_s=120).cards == 2
    bench.clock.move_to(START + timedelta(minutes=10))
    assert idle_allocated(bench.world.platform_admin, since_s=300).cards == 0
