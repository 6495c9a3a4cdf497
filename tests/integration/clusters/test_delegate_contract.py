"""The contract of a cluster's own engine, whichever engine it is.

A delegate joins by its harness, named in `DELEGATES`; the capabilities of a backend say whether it has one.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.base import OutcomeKind
from clusters.backends.delegation import (
    Cohort,
    Delegate,
    DelegatedPodSet,
    DelegatedWorkload,
    ProjectedFlavor,
    ProjectedPriority,
    Projection,
    QueueRules,
    QuotaLimit,
    VerdictKind,
    WorkloadVerdict,
)
from clusters.backends.registry import BackendMissing, delegate_for
from clusters.models import ADMITS_ITSELF
from foundation.core.quantities import Resource
from tests.fixtures.kubelet import Cluster
from tests.fixtures.wait import wait_until
from tests.integration.clusters.conftest import WORKSPACE

DELEGATES = ("delegating",)
POOL, ROOT, MINE, THEIRS, NORMAL, HIGH = (str(uuid.UUID(int=number)) for number in range(1, 7))
# Repeated here because the harness is requested by name, too late for these marks to reach the database.
pytestmark = [pytest.mark.server, pytest.mark.django_db]


def limits(cards: int) -> tuple[QuotaLimit, ...]:
    amounts = {
        Resource.CPU: 1_000_000,
        Resource.MEMORY: 1_000_000,
        Resource.GPU_CARDS: cards,
        Resource.GPU_CORES: 100 * cards,
        Resource.GPU_MEMORY: None,
    }
    return tuple(QuotaLimit(POOL, resource.value, amount) for resource, amount in amounts.items())


def queue(key: str, name: str, **changes: Any) -> QueueRules:
    rules = QueueRules(
        id=key, name=name, parent=ROOT, namespace=name, workspace=WORKSPACE, pools=(POOL,), limits=limits(4),
        within="lower-priority", reclaim="any",
    )  # fmt: skip
    return replace(rules, **changes)


TREE = Projection(
    pools=(ProjectedFlavor(id=POOL, name="a100", node_labels={"pool": "a100"}, card_memory_mib=40_960),),
    cohorts=(Cohort(id=ROOT, name="root", parent=None),),
    queues=(queue(MINE, "team-a"), queue(THEIRS, "team-b")),
    priorities=(ProjectedPriority(NORMAL, "normal", 0), ProjectedPriority(HIGH, "high", 100)),
)


def workload(name: str, cards: int, key: str = MINE, **changes: Any) -> DelegatedWorkload:
    group = DelegatedPodSet(
        name="worker", count=cards, least=cards, cpu_millicores=1000, memory_mib=1024, cards=1, pools=(POOL,)
    )
    asked = DelegatedWorkload(
        namespace="team-a" if key == MINE else "team-b",
        workspace=WORKSPACE,
        name=name,
        job=str(uuid.uuid5(uuid.NAMESPACE_DNS, name)),
        queue=key,
        priority_class=NORMAL,
        priority=0,
        attempt=1,
        groups=(group,),
    )
    return replace(asked, **changes)


@pytest.fixture(params=DELEGATES)
def delegate(request: pytest.FixtureRequest) -> Delegate:
    harness = request.getfixturevalue(request.param)
    found = delegate_for(harness.cluster)
    found.apply_projection(TREE)
    return found


def verdict(delegate: Delegate, name: str, when: Callable[[WorkloadVerdict], object]) -> WorkloadVerdict:
    """Wait until the verdict on a workload meets a condition, and return it."""

    def look() -> WorkloadVerdict | None:
        seen = {item.name: item for item in delegate.list_verdicts().seen}.get(name)
        return seen if seen is not None and when(seen) else None

    found = wait_until(look, f"the verdict on {name}", within_s=30)
    assert found is not None
    return found


def is_(kind: VerdictKind) -> Callable[[WorkloadVerdict], bool]:
    return lambda seen: seen.kind is kind


def test_who_admits_has_an_engine_and_says_so(harness: Any) -> None:
    admits = harness.backend.capabilities.admits
    assert admits == (harness.cluster.backend in ADMITS_ITSELF)
    if admits:
        assert isinstance(delegate_for(harness.cluster), Delegate)
    else:
        with pytest.raises(BackendMissing, match="no built-in scheduler"):
            delegate_for(harness.cluster)


def test_what_is_in_step_is_left_alone_and_what_is_not_is_repaired(delegate: Delegate) -> None:
    assert not delegate.apply_projection(TREE).any
    smaller = replace(TREE, queues=(queue(MINE, "team-a", limits=limits(2), strategy="strict-fifo"),))
    done = delegate.apply_projection(smaller)
    assert len(done.repaired) == 1
    assert len(done.removed) == 2
    assert not done.refused
    assert not delegate.apply_projection(smaller).any


def test_nothing_is_asked_for_in_a_namespace_that_is_not_the_workspaces(
    delegate: Delegate, kube: ControlPlane
) -> None:
    cluster = Cluster(kube)
    cluster.namespace("theirs")
    mine = queue(str(uuid.uuid4()), "theirs")
    done = delegate.apply_projection(replace(TREE, queues=(*TREE.queues, mine)))
    ((title, message),) = done.refused.items()
    assert title.startswith("localqueues/") and "is not the workspace's" in message
    outcome = delegate.create_workload(workload("stolen", 1, mine.id, namespace="theirs"))
    assert (outcome.kind, outcome.code) == (OutcomeKind.REFUSED, "NAMESPACE_NOT_OWNED")
    another = workload("stolen", 1, workspace=str(uuid.uuid4()))
    assert delegate.create_workload(another).code == "NAMESPACE_NOT_OWNED"
    for kind in ("localqueues", "workloads"):
        assert cluster.items(f"/apis/kueue.x-k8s.io/v1beta1/namespaces/theirs/{kind}") == []


def test_an_admission_names_pool_and_size_and_a_repeated_wish_is_one(delegate: Delegate) -> None:
    asked = workload("train", 3)
    assert delegate.create_workload(asked).kind is OutcomeKind.DONE
    assert delegate.create_workload(asked).kind is OutcomeKind.DONE
    seen = verdict(delegate, "train", is_(VerdictKind.ADMITTED))
    assert (seen.job, seen.shape, seen.attempt) == (asked.job, delegate.shape_of(asked), 1)
    assert (seen.pools, seen.counts) == ({"worker": POOL}, {"worker": 3})
    assert len(delegate.list_verdicts().seen) == 1
    delegate.delete_workload(seen)
    wait_until(lambda: not delegate.list_verdicts().seen, "it is withdrawn")
    assert delegate.delete_workload(seen).kind is OutcomeKind.DONE


def test_changes_are_reported_from_the_cursor_on(delegate: Delegate) -> None:
    cursor = delegate.list_verdicts().cursor
    asked = workload("train", 3)
    delegate.create_workload(asked)
    verdict(delegate, "train", is_(VerdictKind.ADMITTED))
    changes = delegate.list_changes(cursor)
    assert changes is not None
    (seen,) = changes.seen
    assert (seen.job, seen.kind, seen.pools) == (asked.job, VerdictKind.ADMITTED, {"worker": POOL})
    assert not changes.removed
    nothing = delegate.list_changes(changes.cursor)
    assert nothing is not None
    assert (nothing.seen, nothing.removed, nothing.cursor) == ([], frozenset(), changes.cursor)
    delegate.delete_workload(seen)
    wait_until(lambda: not delegate.list_verdicts().seen, "it is withdrawn")
    gone = delegate.list_changes(changes.cursor)
    assert gone is not None
    assert (gone.seen, gone.removed) == ([], {asked.job})
    delegate.create_workload(asked)
    again = delegate.list_changes(changes.cursor)
    assert again is not None
    assert ([item.job for item in again.seen], again.removed) == ([asked.job], frozenset())


def test_a_gang_is_admitted_whole_or_not_at_all_with_a_reason(delegate: Delegate) -> None:
    delegate.create_workload(workload("first", 6))
    verdict(delegate, "first", is_(VerdictKind.ADMITTED))
    delegate.create_workload(workload("second", 3))
    waiting = verdict(delegate, "second", lambda seen: seen.code)
    assert (waiting.kind, waiting.code) == (VerdictKind.WAITING, "WAITING_FOR_QUOTA")
    assert waiting.numbers == {"resource": "nvidia.com/gpu", "flavor": "a100", "short": "1"}
    assert not waiting.pools
    delegate.create_workload(workload("never", 9, THEIRS))
    assert verdict(delegate, "never", lambda seen: seen.code).code == "EXCEEDS_MAX_QUOTA"
    delegate.create_workload(
        workload("nowhere", 1, THEIRS, groups=(replace(workload("x", 1).groups[0], pools=(ROOT,)),))
    )
    assert verdict(delegate, "nowhere", lambda seen: seen.code).code == "NEVER_FITS"


def test_what_is_taken_back_is_held_until_it_is_given_back(delegate: Delegate) -> None:
    delegate.create_workload(workload("borrower", 8))
    verdict(delegate, "borrower", is_(VerdictKind.ADMITTED))
    delegate.create_workload(workload("owner", 4, THEIRS))
    leaving = verdict(delegate, "borrower", is_(VerdictKind.TERMINATING))
    assert (leaving.code, leaving.reserved) == ("RECLAIM_NOMINAL", True)
    waiting = verdict(delegate, "owner", lambda seen: seen.code)
    assert waiting.code == "WAITING_FOR_PREEMPTED"
    assert delegate.give_back(leaving, attempt=2).kind is OutcomeKind.DONE
    verdict(delegate, "owner", is_(VerdictKind.ADMITTED))
    again = verdict(delegate, "borrower", is_(VerdictKind.WAITING))
    assert (again.attempt, again.reserved) == (2, False)


def test_a_paused_workload_is_passed_over_and_keeps_its_place(delegate: Delegate) -> None:
    delegate.create_workload(workload("first", 8))
    first = verdict(delegate, "first", is_(VerdictKind.ADMITTED))
    delegate.create_workload(workload("second", 8))
    waiting = verdict(delegate, "second", lambda seen: seen.code)
    delegate.set_paused(waiting, paused=True)
    delegate.delete_workload(first)
    delegate.create_workload(workload("third", 8))
    third = verdict(delegate, "third", is_(VerdictKind.ADMITTED))
    paused = verdict(delegate, "second", lambda seen: not seen.active)
    delegate.set_paused(paused, paused=False)
    delegate.delete_workload(third)
    assert verdict(delegate, "second", is_(VerdictKind.ADMITTED)).active
