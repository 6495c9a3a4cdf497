"""The reason of a pending job is true: over all flavors of its queue, at its smallest size, at its cap."""

from __future__ import annotations

from dataclasses import replace

import pytest

from foundation.core.quantities import Resource
from scheduling.engine import JobPut, PreemptionOptions, QuotaPut
from scheduling.engine.model import (
    BarredFlavor,
    Fungibility,
    HelpCode,
    JobOutcome,
    PlacementRules,
    QuotaNode,
    Reason,
    WhenCan,
)
from tests.unit.scheduling.engine.actions.stage import ADMIT, TAKE_BACK, Stage
from tests.unit.scheduling.engine.builders import (
    cycle,
    flavor,
    job,
    node,
    outcome,
    queue,
    quotas,
    role,
    ways_of,
    world,
)

TENTH = replace(ADMIT, preemption=PreemptionOptions(readmission_headroom_permille=100))
KINDS = ("near", "far")


def two_kinds(fill: int, **far: int) -> Stage:
    """Return two teams that own ten cards each of both kinds; some of the near ones are used."""
    models = {"near": "A100", "far": "H100"}
    cards = {"near": 10, "far": 10} | far
    snapshot = world(
        [
            node(f"{kind}{number}", cards[kind], model=models[kind], labels={"kind": kind})
            for kind in KINDS
            for number in range(2)
        ],
        [job("fill", "a", role(fill, 1, models=("A100",)))],
        teams={"a": quotas(10, flavors=KINDS), "b": quotas(10, flavors=KINDS)},
        queues=[queue("a", flavors=KINDS)],
        flavors=[flavor(kind, node_labels={"kind": kind}, card_model=models[kind]) for kind in KINDS],
    )
    stage = Stage(snapshot, TENTH)
    stage.cycle()
    return stage


def shorts(found: JobOutcome) -> dict[HelpCode, object]:
    return {code: numbers.get("short") for code, numbers in ways_of(found).items()}


class TestEvicted:
    """A flavor that is excluded for an evicted job is still one in which it could run."""

    def test_it_gets_the_rule_of_the_flavor_that_suits_it(self) -> None:
        found = two_kinds(17).ask(job("again", "a", role(1, 2, models=("A100",)), at=5, evictions=1))
        assert (found.reason, found.numbers["rule"]) == (Reason.WAITING_FOR_BORROWED, "spare")
        assert {k: found.numbers[k] for k in ("flavor", "asked", "unused", "keep_free", "evictions")} == {
            "flavor": "near", "asked": 2, "unused": 3, "keep_free": 2, "evictions": 1,
        }  # fmt: skip
        assert shorts(found) == {
            HelpCode.WAIT_FOR_RELEASE: 1,
            HelpCode.RAISE_QUOTA: 9,
            HelpCode.ASK_FEWER_CARDS: None,
            HelpCode.ASK_OTHER_MODEL: None,
        }

    @pytest.mark.parametrize(("released", "starts"), [(0, False), (1, True)])
    def test_it_starts_when_as_much_is_released_as_was_reported(self, released: int, starts: bool) -> None:
        stage = two_kinds(17 - released)
        stage.submit(job("again", "a", role(1, 2, models=("A100",)), at=5, evictions=1))
        stage.cycle()
        assert ("again" in stage.running()) is starts

    def test_quota_that_is_used_up_comes_before_the_rule(self) -> None:
        found = two_kinds(19).ask(job("again", "a", role(1, 2, models=("A100",)), at=5, evictions=1))
        assert found.reason is Reason.WAITING_FOR_QUOTA
        assert "rule" not in found.numbers

    def test_where_all_flavors_are_excluded_each_is_checked_by_itself(self) -> None:
        """The near one is full, and the far one has too few cards for a task."""
        stage = two_kinds(17, far=1)
        found = stage.ask(job("again", "a", role(1, 4, models=("A100",)), at=5, evictions=3))
        assert found.reason is Reason.WAITING_FOR_QUOTA
        assert found.numbers["flavor"] == "near"

    @pytest.mark.parametrize(
        ("fill", "reason"),
        [(17, Reason.WAITING_FOR_BORROWED), (19, Reason.WAITING_FOR_QUOTA)],
    )
    def test_where_the_flavor_with_quota_is_not_allowed_the_others_are_checked(
        self, fill: int, reason: Reason
    ) -> None:
        """The far kind is free and beyond its budget; the near one is excluded for jobs that were evicted."""
        spent = (BarredFlavor("far", "Team", 10, 10),)
        found = two_kinds(fill).ask(job("again", "a", role(1, 2), at=5, evictions=1, barred=spent))
        assert (found.reason, found.numbers["flavor"]) == (reason, "near")

    def test_more_quota_is_offered_for_the_roles_that_need_it(self) -> None:
        """The far kind holds one role; the near one, where one card is free, has to hold the other."""
        stage = two_kinds(19)
        stage.put(JobPut(job("far", "a", role(15, 1, models=("H100",)))))
        stage.cycle()
        roles = (role(5, 1, name="one"), role(3, 1, name="two"))
        found = stage.ask(job("again", "a", *roles, at=5, evictions=1))
        assert (found.reason, found.numbers["flavor"], found.numbers["asked"]) == (
            Reason.WAITING_FOR_QUOTA, "near", 3,
        )  # fmt: skip
        assert shorts(found)[HelpCode.RAISE_QUOTA] == 2

    def test_more_than_is_ever_borrowed_is_no_question_of_unused_capacity(self) -> None:
        stage = two_kinds(9)
        found = stage.ask(job("again", "a", role(3, 8, models=("A100",)), at=5, evictions=1))
        assert found.reason in (Reason.EXCEEDS_MAX_QUOTA, Reason.NEVER_FITS)
        assert "rule" not in found.numbers


class TestAtTheCap:
    def test_the_limit_is_the_nominal(self) -> None:
        snapshot = world(
            [node("n1", 8)], [job("j", "a", role(1, 6), evictions=3)], teams={"a": quotas(4), "b": quotas(4)}
        )
        found = outcome(cycle(snapshot), "j")
        assert found.reason is Reason.EXCEEDS_MAX_QUOTA
        assert {k: found.numbers[k] for k in ("asked", "limit", "capped")} == {
            "asked": 6,
            "limit": 4,
            "capped": 3,
        }
        assert shorts(found) == {HelpCode.ASK_FEWER_CARDS: None, HelpCode.RAISE_QUOTA: 2}

    def test_another_that_asks_for_the_same_may_borrow(self) -> None:
        jobs = [job("often", "a", role(1, 6), evictions=3), job("fresh", "a", role(1, 6), at=1)]
        result = cycle(world([node("n1", 8)], jobs, teams={"a": quotas(4), "b": quotas(4)}))
        assert outcome(result, "often").reason is Reason.EXCEEDS_MAX_QUOTA
        assert outcome(result, "fresh").reason is None

    def test_to_be_preemptible_would_not_let_it_borrow(self) -> None:
        facts = {"preemptible": False, "evictions": 3}
        snapshot = world(
            [node("n1", 8)], [job("j", "a", role(1, 6), **facts)], teams={"a": quotas(4), "b": quotas(4)}
        )
        assert HelpCode.MAKE_PREEMPTIBLE not in shorts(outcome(cycle(snapshot), "j"))

    def test_what_counts_against_it_is_what_adds_up(self) -> None:
        """Seven cards are used, three of them by a job at its cap: these three count against the eight."""
        stage = Stage(
            world(
                [node("n1", 12)],
                [job("often", "a", role(1, 3), evictions=3), job("plain", "a", role(1, 4), at=1)],
                teams={"a": quotas(8), "b": quotas(4)},
                queues=[queue("a", preemption=TAKE_BACK)],
            ),
            ADMIT,
        )
        stage.cycle()
        found = stage.ask(job("next", "a", role(1, 6), at=5, evictions=3))
        assert found.reason is Reason.WAITING_FOR_QUOTA
        numbers = found.numbers
        keys = ("used", "counted", "nominal", "available")
        assert [numbers[key] for key in keys] == [7, 3, 8, 5]
        assert numbers["own_free"] == 5 and numbers["borrowable"] == 0
        assert shorts(found)[HelpCode.RAISE_QUOTA] == 1


class TestShort:
    """The missing amount is what must change."""

    def test_usage_above_a_lowered_nominal_has_to_come_back_first(self) -> None:
        stage = Stage(world([node("n1", 8)], [job("old", "a", role(1, 6))], teams={"a": quotas(8)}), ADMIT)
        stage.cycle()
        used = tuple(charge for held in stage.snapshot.allocations_of("old") for charge in held.charges)
        stage.put(QuotaPut(QuotaNode(id="a", parent="root", quotas=quotas(2), usage=used)))
        found = stage.ask(job("new", "a", role(1, 2), at=5))
        assert (found.reason, found.numbers["available"]) == (Reason.WAITING_FOR_QUOTA, 0)
        assert shorts(found) == {HelpCode.WAIT_FOR_RELEASE: 6, HelpCode.RAISE_QUOTA: 6}

    def test_own_free_and_borrowable_add_up(self) -> None:
        teams = {"a": quotas(4), "b": quotas(4)}
        stage = Stage(
            world([node("n1", 8)], [job("b1", "b", role(1, 2)), job("a1", "a", role(1, 1))], teams=teams),
            ADMIT,
        )
        stage.cycle()
        found = stage.ask(job("a2", "a", role(1, 6), at=5))
        assert found.reason is Reason.WAITING_FOR_BORROWED
        keys = ("own_free", "borrowable", "available", "nominal", "used", "limit")
        assert [found.numbers[k] for k in keys] == [3, 2, 5, 4, 1, 8]


class TestSeveral:
    """With several flavors and resources the decisive ones are reported."""

    def test_all_that_is_short_in_a_flavor_is_asked_for_together(self) -> None:
        limits = tuple(
            replace(limit, own_nominal=100) if limit.resource == Resource.GPU_CORES else limit
            for limit in quotas(2)
        )
        snapshot = world([node("n1", 8)], [job("j", "a", role(1, 4))], teams={"a": limits})
        found = outcome(cycle(snapshot), "j")
        assert found.reason is Reason.EXCEEDS_MAX_QUOTA
        raised = [way.numbers for way in found.help if way.code is HelpCode.RAISE_QUOTA]
        assert [(way["resource"], way["short"], way["with"]) for way in raised] == [
            ("gpu.cards", 2, "gpu.cores"),
            ("gpu.cores", 300, "gpu.cards"),
        ]

    def test_what_two_roles_lack_together_is_asked_for_at_once(self) -> None:
        roles = (role(1, 3, name="x"), role(2, 2, name="y"))
        stage = Stage(world([node("n1", 8)], [job("j", "a", *roles)], teams={"a": quotas(2)}), ADMIT)
        stage.cycle()
        found = stage.outcome("j")
        assert (found.reason, found.numbers["asked"]) == (Reason.EXCEEDS_MAX_QUOTA, 7)
        assert shorts(found)[HelpCode.RAISE_QUOTA] == 5
        stage.put(QuotaPut(QuotaNode(id="a", parent="root", quotas=quotas(2 + 5))))
        stage.cycle()
        assert stage.running() == {"j"}

    def test_a_flavor_that_could_never_hold_it_is_not_spoken_of(self) -> None:
        """The near one has quota, and could not hold it even when empty; the far one lacks quota."""
        limits = (*quotas(9, flavors=("near",)), *quotas(2, flavors=("far",)))
        snapshot = world(
            [node("near", 2, labels={"kind": "near"}), node("far", 8, labels={"kind": "far"})],
            [
                job("used", "a", role(1, 1), rules=PlacementRules(node_name="far")),
                job("j", "a", role(1, 4), at=1),
            ],
            teams={"a": limits},
            queues=[queue("a", flavors=KINDS)],
            flavors=[flavor(kind, node_labels={"kind": kind}) for kind in KINDS],
        )
        found = outcome(cycle(snapshot), "j")
        assert (found.reason, found.numbers["flavor"]) == (Reason.EXCEEDS_MAX_QUOTA, "far")

    def test_the_flavor_that_lacks_least_is_reported_though_it_comes_later(self) -> None:
        snapshot = world(
            [node("near", 8, labels={"kind": "near"}), node("far", 8, labels={"kind": "far"})],
            [
                job("own", "a", role(1, 3), rules=PlacementRules(node_name="near")),
                job("others", "b", role(1, 4), rules=PlacementRules(node_name="far")),
            ],
            teams={
                "a": (*quotas(4, flavors=("near",)), *quotas(2, flavors=("far",))),
                "b": quotas(2, flavors=("far",)),
            },
            queues=[queue("a", flavors=KINDS), queue("b", flavors=("far",))],
            flavors=[flavor(kind, node_labels={"kind": kind}) for kind in KINDS],
        )
        stage = Stage(snapshot, ADMIT)
        stage.cycle()
        found = stage.ask(job("j", "a", role(1, 2), at=5))
        assert (found.reason, found.numbers["flavor"]) == (Reason.WAITING_FOR_BORROWED, "far")


class TestElastic:
    def test_it_waits_for_what_its_smallest_size_lacks(self) -> None:
        stage = Stage(world([node("n1", 8)], [job("old", "a", role(1, 3))], teams={"a": quotas(5)}), ADMIT)
        stage.cycle()
        found = stage.ask(job("elastic", "a", role(2, 3, least=1), at=5))
        assert found.reason is Reason.WAITING_FOR_QUOTA
        assert (found.numbers["asked"], found.numbers["available"]) == (3, 2)
        assert shorts(found)[HelpCode.WAIT_FOR_RELEASE] == 1
        stage.apply_end("old")
        stage.cycle()
        assert "elastic" in stage.running()


STOPS = Fungibility(when_can_preempt=WhenCan.MAY_STOP_SEARCH)


class TestSearchThatStops:
    """A flavor from which others could be evicted ends the search only if it can be used at all."""

    def test_a_free_flavor_behind_a_full_one_is_taken(self) -> None:
        snapshot = world(
            [node("near", 2, labels={"kind": "near"}), node("far", 2, labels={"kind": "far"})],
            [job("one", "a", role(1, 2)), job("two", "a", role(1, 2), at=1)],
            teams={"a": quotas(10, flavors=KINDS)},
            queues=[queue("a", flavors=KINDS, fungibility=STOPS)],
            flavors=[flavor(kind, node_labels={"kind": kind}) for kind in KINDS],
        )
        stage = Stage(snapshot)
        stage.cycle()
        assert stage.running() == {"one", "two"}

    def test_quota_that_no_job_can_release_does_not_end_the_search(self) -> None:
        """The near quota is used by a job on the only node that this one may not preempt."""
        limits = (*quotas(2, flavors=("near",)), *quotas(2, flavors=("far",)))
        snapshot = world(
            [node("near", 2, labels={"kind": "near"}), node("far", 2, labels={"kind": "far"})],
            [job("one", "a", role(1, 2), priority=1), job("two", "a", role(1, 2), at=1)],
            teams={"a": limits},
            queues=[queue("a", flavors=KINDS, fungibility=STOPS, preemption=TAKE_BACK)],
            flavors=[flavor(kind, node_labels={"kind": kind}) for kind in KINDS],
        )
        stage = Stage(snapshot)
        stage.cycle()
        stage.cycle()
        assert stage.running() == {"one", "two"}

    def test_a_victim_is_still_evicted_before_the_next_flavor_is_taken(self) -> None:
        snapshot = world(
            [node("near", 2, labels={"kind": "near"}), node("far", 2, labels={"kind": "far"})],
            [job("low", "a", role(1, 2))],
            teams={"a": quotas(10, flavors=KINDS)},
            queues=[queue("a", flavors=KINDS, fungibility=STOPS, preemption=TAKE_BACK)],
            flavors=[flavor(kind, node_labels={"kind": kind}) for kind in KINDS],
        )
        stage = Stage(snapshot)
        stage.cycle()
        stage.submit(job("high", "a", role(1, 2), at=1, priority=5))
        stage.cycle()
        assert set(stage.evicted()) == {"low"}
