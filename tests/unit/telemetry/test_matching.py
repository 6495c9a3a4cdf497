"""Samples are joined to the ledger by card and pod, without a database."""

from __future__ import annotations

import uuid
from datetime import UTC, datetime

from clusters.backends.base import DeviceSample, TaskRef
from telemetry.models import Scope
from telemetry.store.holdings import Card, HeldSlice, Holdings
from telemetry.store.matching import match_samples

AT = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
NODE, CARD_A, CARD_B = (uuid.UUID(int=n) for n in (1, 2, 3))


def hold(number: int, device: uuid.UUID, *, cores: int, exclusive: bool) -> HeldSlice:
    ids = [uuid.UUID(int=100 * number + n) for n in range(5)]
    return HeldSlice(ids[0], device, NODE, *ids[1:], cores, 20_000, exclusive)


def holdings() -> Holdings:
    sliced, whole = hold(1, CARD_A, cores=30, exclusive=False), hold(2, CARD_B, cores=100, exclusive=True)
    return Holdings(
        cards={
            "GPU-a": Card(CARD_A, NODE, 40_960, 30, 20_000, 1),
            "GPU-b": Card(CARD_B, NODE, 40_960, 100, 40_960, 1),
        },
        holds={("team", "p1", "GPU-a"): sliced, ("team", "p2", "GPU-b"): whole},
        exclusive={CARD_B: whole},
    )


def sample(device: str, use: float, pod: str = "") -> DeviceSample:
    ref = TaskRef("team", pod) if pod else None
    return DeviceSample(AT, "node-1", device, use, 1_000, pod=ref)


def test_a_pods_sample_becomes_a_reading_of_its_slice_with_its_grant() -> None:
    found = match_samples(holdings(), [sample("GPU-a", 12.5, "p1")])
    (draft,) = found.drafts.values()
    assert draft.key == (Scope.SLICE, uuid.UUID(int=100), CARD_A)
    assert (draft.cores_used, draft.cores_allocated, draft.memory_allocated_mib) == (12.5, 30, 20_000)


def test_a_card_that_one_pod_holds_alone_reads_for_that_pod_too() -> None:
    found = match_samples(holdings(), [sample("GPU-b", 80.0)])
    by_scope = {draft.key[0]: draft for draft in found.drafts.values()}
    assert set(by_scope) == {Scope.CARD, Scope.SLICE}
    assert by_scope[Scope.SLICE].cores_used == 80.0
    assert found.samples == 1


def test_the_pods_own_reading_goes_before_that_of_the_card() -> None:
    found = match_samples(holdings(), [sample("GPU-b", 80.0), sample("GPU-b", 71.0, "p2")])
    slices = [draft for draft in found.drafts.values() if draft.key[0] == Scope.SLICE]
    assert [draft.cores_used for draft in slices] == [71.0]


def test_a_reading_of_a_shared_card_belongs_to_no_job() -> None:
    found = match_samples(holdings(), [sample("GPU-a", 80.0)])
    assert [draft.key[0] for draft in found.drafts.values()] == [Scope.CARD]


def test_strangers_are_counted_and_the_rest_is_kept() -> None:
    found = match_samples(
        holdings(), [sample("GPU-x", 1.0), sample("GPU-a", 1.0, "gone"), sample("GPU-a", 5.0, "p1")]
    )
    assert found.unknown_devices == {"GPU-x"}
    assert found.unknown_pods == {"team/gone"}
    assert found.samples == len(found.drafts) == 1


def test_a_sample_that_comes_twice_in_one_batch_counts_once() -> None:
    found = match_samples(holdings(), [sample("GPU-a", 5.0), sample("GPU-a", 6.0)])
    assert [draft.cores_used for draft in found.drafts.values()] == [5.0]
