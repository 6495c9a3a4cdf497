"""A commit writes decisions that still hold, drops others, and refuses a stale lease."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from django.db import IntegrityError, transaction

from clusters.models import Cell, Device, Node
from foundation.core import clock
from foundation.core.quantities import Resource
from foundation.messaging import leases
from quotas.models import LedgerEntry
from scheduling.commit import commit_cycle
from scheduling.engine import model as em
from scheduling.lifecycle.transitions import IllegalTransition, StaleJob, change_state
from scheduling.models import Allocation, DeviceSlice, GpuRequestMode, Job, JobEvent, JobState, TaskState
from scheduling.services.cycle import cycle_run
from scheduling.snapshots import cell_snapshot
from tests.builders import jobs
from tests.builders.world import World, world

pytestmark = pytest.mark.django_db


def admit(world: World, job: Job, node: Node, cards: list[int]) -> em.Decision:
    """A hand-made decision: one task on the named cards of a node."""
    flavor = str(world.flavor.pk)
    devices = {device.index: device for device in node.devices.all()}
    charges = (
        em.Charge(flavor, Resource.GPU_CARDS, len(cards)),
        em.Charge(flavor, Resource.GPU_CORES, 100 * len(cards)),
    )
    allocation = em.Allocation(
        job=str(job.pk),
        queue=str(job.queue_id),
        role="main",
        index=0,
        flavor=flavor,
        node=str(node.pk),
        cpu=1000,
        memory=1024,
        slices=tuple(em.DeviceSlice(devices[i].uuid, 100, 40960, exclusive=True) for i in cards),
        charges=charges,
    )
    return em.Decision(kind=em.DecisionKind.ADMIT, job=str(job.pk), allocations=(allocation,))


def commit(world: World, *decisions: em.Decision, epoch: int | None = None) -> int:
    taken = cell_snapshot(world.cell.pk)
    with leases.hold_lease(Cell, world.cell.pk) as held:
        assert held is not None
        result = em.CycleResult(decisions=decisions, outcomes=())
        return commit_cycle(
            cell_id=world.cell.pk,
            epoch=held if epoch is None else epoch,
            taken=taken,
            result=result,
            now=clock.now(),
        ).admitted


def used(world: World, resource: Resource) -> int:
    row = LedgerEntry.unscoped.filter(node=world.queue.node, resource=resource.value).first()
    return row.reserved if row else 0


def test_an_admission_takes_quota_node_and_cards_together() -> None:
    here = world()
    job = jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=2)])

    assert commit(here, admit(here, job, here.nodes[0], [0, 1])) == 1

    job.refresh_from_db()
    assert (job.state, job.attempt_number) == (JobState.ADMITTED, 1)
    assert used(here, Resource.GPU_CARDS) == 2
    assert used(here, Resource.GPU_CORES) == 200
    node = Node.unscoped.get(pk=here.nodes[0].pk)
    assert (node.cpu_granted, node.memory_granted) == (1000, 1024)
    granted = Device.unscoped.filter(node=node, cores_granted=100, holders=1)
    assert set(granted.values_list("index", flat=True)) == {0, 1}
    assert job.tasks.get().state == TaskState.BOUND
    allocation = Allocation.unscoped.get(task__job=job)
    assert allocation.namespace == "team-a"
    assert len(allocation.pod_name) <= 63
    assert DeviceSlice.unscoped.filter(allocation=allocation, exclusive=True).count() == 2
    assert JobEvent.unscoped.filter(job=job, code="admitted").count() == 1


@pytest.mark.parametrize("resources", [{"gpu.cores"}, {"gpu.cores", "gpu.cards"}, {"gpu.cards"}])
def test_a_borrowed_slice_counts_as_its_share_of_a_gpu(resources: set[str]) -> None:
    here = world()
    role = jobs.RoleOf(mode=GpuRequestMode.SLICE, cores=25, gpu_memory=1024)
    job = jobs.job(here.queue, here.editor, roles=[role])
    whole = admit(here, job, here.nodes[0], [0])
    place = whole.allocations[0]
    flavor, part = place.flavor, place.slices[0]._replace(cores=25, memory=1024, exclusive=False)
    charges = (em.Charge(flavor, Resource.GPU_CARDS, 1), em.Charge(flavor, Resource.GPU_CORES, 25))
    decision = whole._replace(
        allocations=(replace(place, slices=(part,), charges=charges),),
        borrowed=tuple(charge for charge in charges if charge.resource in resources),
    )

    assert commit(here, decision) == 1

    numbers = JobEvent.unscoped.get(job=job, code="admitted").numbers
    assert (numbers["cards"], numbers["borrowed_cards"]) == (0.25, 0.25)


def test_a_decision_above_the_quota_of_this_moment_is_dropped() -> None:
    here = world()
    job = jobs.job(here.queue, here.editor, roles=[jobs.RoleOf(cards=2)])
    decision = admit(here, job, here.nodes[0], [0, 1])
    # Both teams own 8 cards and may borrow: 16 in all, of which 15 are now taken.
    LedgerEntry.unscoped.create(
        node=here.other_queue.node, flavor=here.flavor, resource=Resource.GPU_CARDS.value, reserved=15
    )

    assert commit(here, decision) == 0

    job.refresh_from_db()
    assert job.state == JobState.QUEUED
    assert not Allocation.unscoped.exists()


def test_only_the_decision_whose_card_is_gone_is_lost() -> None:
    here = world()
    first, second = (jobs.job(here.queue, here.editor) for _ in range(2))
    decisions = [admit(here, first, here.nodes[0], [0]), admit(here, second, here.nodes[0], [1])]
    Device.unscoped.filter(node=here.nodes[0], index=0).update(healthy=False)

    assert commit(here, *decisions) == 1

    assert set(Job.unscoped.filter(state=JobState.ADMITTED)) == {second}
    assert used(here, Resource.GPU_CARDS) == 1


def test_a_job_that_cannot_be_written_does_not_hold_up_the_others() -> None:
    here = world()
    # Accepted by an earlier release: both roles would name their pods alike.
    roles = [jobs.RoleOf(name="long-worker", cards=0), jobs.RoleOf(name="long-worker-b", cards=0)]
    broken, good = jobs.job(here.queue, here.editor, roles=roles), jobs.job(here.queue, here.editor)

    done = cycle_run(cell_id=here.cell.pk)

    assert done is not None and (done.admitted, done.dropped) == (1, 1)
    assert set(Job.unscoped.filter(state=JobState.ADMITTED)) == {good}
    broken.refresh_from_db()
    assert broken.reason
    assert used(here, Resource.CPU) == 1000


def test_a_job_cancelled_meanwhile_is_not_admitted() -> None:
    here = world()
    job = jobs.job(here.queue, here.editor)
    decision = admit(here, job, here.nodes[0], [0])
    taken = cell_snapshot(here.cell.pk)
    change_state(job, JobState.CANCELLED, code="cancelled", now=clock.now())

    with leases.hold_lease(Cell, here.cell.pk) as epoch:
        assert epoch is not None
        result = em.CycleResult(decisions=(decision,), outcomes=())
        done = commit_cycle(cell_id=here.cell.pk, epoch=epoch, taken=taken, result=result, now=clock.now())

    assert (done.admitted, done.dropped) == (0, 1)
    assert used(here, Resource.GPU_CARDS) == 0


def test_a_stale_holder_writes_nothing() -> None:
    here = world()
    job = jobs.job(here.queue, here.editor)
    decision = admit(here, job, here.nodes[0], [0])

    with pytest.raises(leases.LeaseLost):
        commit(here, decision, epoch=0)

    job.refresh_from_db()
    assert job.state == JobState.QUEUED
    assert not Allocation.unscoped.exists()


def test_the_database_itself_refuses_a_second_holder() -> None:
    here = world()
    first, second = (jobs.job(here.queue, here.editor) for _ in range(2))
    commit(here, admit(here, first, here.nodes[0], [0]))
    commit(here, admit(here, second, here.nodes[0], [1]))
    device = Device.unscoped.get(node=here.nodes[0], index=0)
    other = Allocation.unscoped.get(task__job=second)

    with pytest.raises(IntegrityError), transaction.atomic():
        DeviceSlice.unscoped.create(
            allocation=other, device=device, cores=100, memory_mib=40960, exclusive=True
        )
    with pytest.raises(IntegrityError), transaction.atomic():
        Device.unscoped.filter(pk=device.pk).update(cores_granted=101)
    with pytest.raises(IntegrityError), transaction.atomic():
        LedgerEntry.unscoped.update(reserved=-1)
    with pytest.raises(IntegrityError), transaction.atomic():
        Allocation.unscoped.filter(pk=other.pk).update(
            id=uuid.uuid4(), task=Allocation.unscoped.get(task__job=first).task
        )


def test_a_transition_needs_an_arrow_and_a_current_version() -> None:
    here = world()
    job = jobs.job(here.queue, here.editor)
    stale = Job.unscoped.get(pk=job.pk)

    change_state(job, JobState.SUSPENDED, code="suspended", now=clock.now())

    with pytest.raises(StaleJob):
        change_state(stale, JobState.CANCELLED, code="cancelled", now=clock.now())
    with pytest.raises(IllegalTransition):
        change_state(job, JobState.RUNNING, code="running", now=clock.now())
