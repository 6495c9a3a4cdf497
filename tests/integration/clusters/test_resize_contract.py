"""The contract of a backend that changes the memory of running slices."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusters.backends.base import DeviceGrant, OutcomeKind, PodPhase, TaskSpec

ROOM = 46_068
able_ones = pytest.mark.parametrize("harness", ["kubernetes", "simulated"], indirect=True)


@pytest.fixture
def able(harness: Any) -> Any:
    assert harness.backend.capabilities.resize
    return harness


def test_where_kueue_decides_nothing_is_resized(delegating: Any) -> None:
    assert not delegating.backend.capabilities.resize


def wanted(spec: TaskSpec, mib: int) -> list[DeviceGrant]:
    return [replace(grant, memory_mib=mib) for grant in spec.devices]


def running(harness: Any, name: str, memory_mib: int, cores: int = 30) -> TaskSpec:
    spec: TaskSpec = harness.sliced(name, cores=cores, memory_mib=memory_mib, simulate={})
    harness.place(spec)
    harness.until(name, PodPhase.RUNNING)
    return spec


def fits(harness: Any, name: str, memory_mib: int) -> bool:
    """Return whether another pod gets that much memory on the same card."""
    (outcome,) = harness.place(harness.sliced(name, cores=10, memory_mib=memory_mib, simulate={}))
    if outcome.kind is OutcomeKind.REFUSED:
        return False
    seen = harness.until(name, PodPhase.RUNNING, PodPhase.FAILED)
    return bool(seen.phase is PodPhase.RUNNING)


@able_ones
@pytest.mark.parametrize("mib", [4096, 8191, 20_000])
def test_a_running_slice_gets_another_memory(able: Any, mib: int) -> None:
    spec = running(able, "a", 8192)
    assert able.resize(spec, mib).kind is OutcomeKind.DONE
    # A repeated request changes nothing, and the pod is the same one.
    assert able.backend.resize_devices(spec.ref, wanted(spec, mib)).kind is OutcomeKind.DONE
    assert able.look()["a"].phase is PodPhase.RUNNING
    assert not fits(able, "b", ROOM - mib + 1)
    assert fits(able, "c", ROOM - mib)


@able_ones
def test_what_holds_already_is_done_at_once(able: Any) -> None:
    spec = running(able, "a", 8192)
    assert able.backend.resize_devices(spec.ref, wanted(spec, 8192)).kind is OutcomeKind.DONE


@able_ones
def test_one_size_follows_another(able: Any) -> None:
    spec = running(able, "a", 8192)
    for mib in (16_000, 2000, 8192):
        assert able.resize(spec, mib).kind is OutcomeKind.DONE
    assert fits(able, "b", ROOM - 8192)


@able_ones
@pytest.mark.parametrize(("now", "later"), [(8192, 20_000), (20_000, 8192)])
def test_the_greater_amount_is_kept_from_others_until_it_is_there(able: Any, now: int, later: int) -> None:
    spec = running(able, "a", now)
    able.agents_sleep()
    assert able.backend.resize_devices(spec.ref, wanted(spec, later)).kind is OutcomeKind.UNKNOWN
    assert not fits(able, "b", ROOM - 20_000 + 1)


@able_ones
def test_an_unstarted_change_is_reverted_at_once(able: Any) -> None:
    spec = running(able, "a", 8192)
    able.agents_sleep()
    assert able.backend.resize_devices(spec.ref, wanted(spec, 20_000)).kind is OutcomeKind.UNKNOWN
    for _ in range(2):
        assert able.backend.resize_devices(spec.ref, wanted(spec, 8192)).kind is OutcomeKind.DONE
    assert fits(able, "b", ROOM - 8192)


@able_ones
def test_more_than_the_card_has_left_is_refused(able: Any) -> None:
    spec = running(able, "a", 8192)
    running(able, "b", 30_000)
    outcome = able.resize(spec, ROOM - 30_000 + 1)
    assert (outcome.kind, outcome.code) == (OutcomeKind.REFUSED, "CARD_FULL")
    assert str(ROOM - 30_000) in outcome.message
    assert able.resize(spec, ROOM - 30_000).kind is OutcomeKind.DONE


@able_ones
def test_a_pod_that_is_gone_is_refused(able: Any) -> None:
    spec = running(able, "a", 8192)
    other = replace(spec.ref, uid="another")
    assert able.backend.resize_devices(other, wanted(spec, 4096)).code == "POD_GONE"
    able.backend.remove_pod(spec.ref, 0)
    able.until("a", PodPhase.REMOVED)
    assert able.backend.resize_devices(spec.ref, wanted(spec, 4096)).code == "POD_GONE"


@able_ones
def test_a_card_of_others_is_refused(able: Any) -> None:
    spec = running(able, "a", 8192)
    other = able.node("slice-01").devices[1].uuid
    assert able.backend.resize_devices(spec.ref, [DeviceGrant(other, 30, 4096)]).code == "NOT_ITS_CARD"
