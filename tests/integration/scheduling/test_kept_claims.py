"""A cached snapshot updates claims only for jobs whose claims, or which themselves, have changed."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest

from clusters.models import BackendKind, Cell
from foundation.core import clock
from scheduling.engine import model as em
from scheduling.engine_input.volume_claims import ClaimReader
from scheduling.models import ClaimPhase, Job, MountedClaim
from scheduling.snapshots import cell_snapshot
from scheduling.snapshots.snapshot_cache import CachedCell
from tests.builders import clusters, jobs, quotas, tenancy

pytestmark = pytest.mark.django_db
_NAMES = ("one", "two", "three")


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """The jobs that claims were given to since it was last asked."""
    given: list[str] = []
    apply_claims = ClaimReader.apply_claims

    def count(self: ClaimReader, job: em.Job, row: Job) -> em.Job:
        given.append(job.id)
        return apply_claims(self, job, row)

    def ask() -> int:
        number = len(given)
        given.clear()
        return number

    monkeypatch.setattr(ClaimReader, "apply_claims", count)
    return ask


def _stage() -> tuple[Cell, list[Job]]:
    cell = clusters.cell()
    cluster = clusters.cluster(cell, "east", BackendKind.KUBERNETES)
    flavor = clusters.flavor(cluster)
    clusters.nodes(flavor, 1)
    queue = quotas.queue(cell, tenancy.workspace("vision"), [flavor], cards=6)
    user = tenancy.platform_admin("boss")
    made = [jobs.job(queue, user, name, volumes=[{"claim": name, "path": "/data"}]) for name in _NAMES]
    for name in _NAMES[:2]:
        MountedClaim.unscoped.create(
            cluster=cluster,
            workspace=queue.workspace,
            name=name,
            phase=ClaimPhase.PENDING,
            read_at=clock.now(),
        )
    return cell, made


def test_claims_are_given_again_only_where_something_changed(counted: Callable[[], int]) -> None:
    cell, made = _stage()
    kept = CachedCell(cell.pk)

    def states(*, briefly: bool = False) -> list[list[em.ClaimState]]:
        taken = kept.refresh_snapshot(briefly=briefly).snapshot.jobs
        told = [taken[str(job.pk)] for job in made]
        number = counted()
        fresh = cell_snapshot(cell.pk).snapshot.jobs
        assert [job.rules for job in told] == [fresh[job.id].rules for job in told]
        counted()
        given.append(number)
        return [[claim.state for claim in job.rules.volume_claims] for job in told]

    given: list[int] = []
    pending, unread = [em.ClaimState.PENDING], [em.ClaimState.UNREAD]
    assert states() == [pending, pending, unread]
    del given[:]
    assert states(briefly=True) == states() == [pending, pending, unread]
    assert given == [1, 1]  # the job whose claim is not read yet
    third = MountedClaim.unscoped.get(name="one")
    third.pk, third.name = uuid.uuid4(), "three"
    third._state.adding = True
    third.save()
    states()
    del given[:]
    assert states() == [pending, pending, pending]
    assert given == [0]
    MountedClaim.unscoped.filter(name="two").update(phase=ClaimPhase.BOUND)
    MountedClaim.unscoped.update(read_at=clock.now() + timedelta(seconds=1))
    taken = kept.refresh_snapshot().snapshot.jobs
    assert counted() == 1
    assert taken[str(made[1].pk)].rules.volume_claims == ()
