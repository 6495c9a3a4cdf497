"""The jobs that a borrower may preempt: other borrowers, and no job that could preempt it in return."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from scheduling.engine import PreemptionOptions
from scheduling.engine.model import Instant, Job, JobState, PreemptionPolicy, PreemptOthers, PreemptWithin
from tests.unit.scheduling.engine.preemption.worlds import PLATFORM, cohort, names, running, search, wants

KUEUE = replace(PLATFORM, borrowers_evict_borrowers_only=False)
POLICY = PreemptionPolicy(
    within_queue=PreemptWithin.LOWER_OR_NEWER_EQUAL_PRIORITY,
    reclaim=PreemptOthers.ANY,
    while_borrowing=PreemptOthers.LOWER_PRIORITY,
)
FOLDER = {"a": "all", "b": "folder", "c": "folder"}
OLD = Instant(1_000)


def held(name: str, cards: int, **facts: object) -> Job:
    return running(name, "b", cards, **facts)


@dataclass(frozen=True, kw_only=True)
class Take:
    """Owned quota, running jobs, the cards that `a` requests with priority 5, and the jobs evicted for it,
    with the option and without."""

    nominal: Mapping[str, int]
    jobs: tuple[Job, ...]
    asked: int
    lasting: list[str]
    kueue: list[str]
    policy: PreemptionPolicy = POLICY
    parents: Mapping[str, str] = field(default_factory=dict)


FIRST, SECOND = held("first", 2), held("second", 2, submitted_at=Instant(1), admitted_at=OLD)

TAKES = {
    "the one that borrows, though it loses more": Take(
        nominal={"a": 1, "b": 3},
        jobs=(FIRST, SECOND),
        asked=2,
        lasting=["second"],
        kueue=["first"],
    ),
    "nobody where all fit into the nominal but for weaker ones that give too little": Take(
        nominal={"a": 1, "b": 3},
        jobs=(held("large", 3), held("small", 1, submitted_at=Instant(1))),
        asked=3,
        lasting=[],
        kueue=["large"],
    ),
    "one that is larger than the nominal": Take(
        nominal={"a": 1, "b": 3},
        jobs=(held("large", 4),),
        asked=3,
        lasting=["large"],
        kueue=["large"],
    ),
    "one whose queue pushes nobody of its own out": Take(
        nominal={"a": 1, "b": 3},
        jobs=(FIRST, SECOND),
        asked=2,
        policy=replace(POLICY, within_queue=PreemptWithin.NEVER),
        lasting=["first"],
        kueue=["first"],
    ),
    "one whose queue does not take back": Take(
        nominal={"a": 1, "b": 3},
        jobs=(FIRST, SECOND),
        asked=2,
        policy=replace(POLICY, reclaim=PreemptOthers.LOWER_PRIORITY),
        lasting=["first"],
        kueue=["first"],
    ),
    "anybody by who asks for its own": Take(
        nominal={"a": 2, "b": 2},
        jobs=(FIRST, SECOND),
        asked=2,
        lasting=["first"],
        kueue=["first"],
    ),
    "what an elastic job can spare": Take(
        nominal={"a": 0, "b": 3, "c": 1},
        jobs=(held("elastic", 4, least=3),),
        asked=1,
        lasting=["elastic"],
        kueue=["elastic"],
    ),
    "what an elastic job can spare beside a weaker one": Take(
        nominal={"a": 0, "b": 4, "c": 1},
        jobs=(held("elastic", 4, least=3), held("second", 1, submitted_at=Instant(1), admitted_at=OLD)),
        asked=1,
        lasting=["elastic"],
        kueue=["elastic"],
    ),
    "no elastic job that fits into the nominal when it is small": Take(
        nominal={"a": 1, "b": 3},
        jobs=(held("elastic", 4, least=3),),
        asked=2,
        lasting=[],
        kueue=["elastic"],
    ),
    "nobody who stands inside what his folder owns": Take(
        nominal={"a": 1, "b": 0, "c": 3},
        jobs=(FIRST, SECOND),
        asked=2,
        parents=FOLDER,
        lasting=["second"],
        kueue=["first"],
    ),
    "one whose folder's room somebody else holds": Take(
        nominal={"a": 1, "b": 0, "c": 4},
        jobs=(FIRST, running("c", "c", 3)),
        asked=2,
        parents=FOLDER,
        lasting=["first"],
        kueue=["first"],
    ),
    "one who leaves anyway": Take(
        nominal={"a": 1, "b": 3},
        jobs=(replace(FIRST, state=JobState.LEAVING), SECOND),
        asked=2,
        lasting=["first"],
        kueue=["first"],
    ),
    "nobody who stands inside once those who leave anyway are gone": Take(
        nominal={"a": 1, "b": 3, "c": 5},
        jobs=(FIRST, SECOND, held("gone", 2, priority=9, state=JobState.LEAVING)),
        asked=5,
        lasting=["second"],
        kueue=["first"],
    ),
    "nobody whom another victim's leaving puts inside": Take(
        nominal={"a": 1, "b": 3, "c": 5},
        jobs=(
            held("mid", 2),
            held("late", 2, submitted_at=Instant(1), admitted_at=OLD),
            held("top", 4, priority=1),
        ),
        asked=6,
        lasting=["late", "top"],
        kueue=["mid", "top"],
    ),
}


@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
@pytest.mark.parametrize("options", [PLATFORM, KUEUE], ids=["lasting", "kueue"])
def test_a_borrower_takes(take: Take, options: PreemptionOptions) -> None:
    snapshot = cohort(take.nominal, take.jobs, policy=take.policy, parents=take.parents)
    before = snapshot.to_json()
    found = search(
        snapshot, wants(snapshot, "a", take.asked, priority=5), options, placement_check=lambda: True
    )
    assert names(found) == (take.lasting if options.borrowers_evict_borrowers_only else take.kueue)
    assert snapshot.to_json() == before
