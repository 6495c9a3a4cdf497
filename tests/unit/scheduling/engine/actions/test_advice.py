"""Recommendations for a pending job work: alone, with what they name, or as one of several conditions."""

from __future__ import annotations

import pytest

from foundation.core.quantities import Resource
from frontend.texts.reasons import help_sentence
from scheduling.engine import EngineConfig, never_fits
from scheduling.engine.actions.advice import cycle as advice
from scheduling.engine.actions.advice.trial import StartTrial
from scheduling.engine.cycle import start_session
from scheduling.engine.model import (
    Fungibility,
    GpuMode,
    Help,
    HelpCode,
    Instant,
    Job,
    PlacementRules,
    Preference,
    Queue,
    Quota,
    Reason,
    StopPolicy,
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


class TestNeverFits:
    def test_no_card_memory_is_offered_where_there_are_no_slices(self) -> None:
        whole = node("n1", 4, device={"mode": GpuMode.WHOLE})
        asked = job("j", "a", role(1, 1, cores=30, card_memory=8_192))
        snapshot = world([whole], [asked], flavors=[flavor(mode=GpuMode.WHOLE)])
        assert HelpCode.ASK_LESS not in ways_of(outcome(cycle(snapshot), "j"))

    def test_cards_are_those_of_a_node_that_the_other_rules_allow(self) -> None:
        """The node of eight cards is not the one that the job names."""
        asked = job("j", "a", role(1, 6), rules=PlacementRules(node_name="small"))
        stage = Stage(world([node("small", 2), node("large", 8)], [asked]), ADMIT)
        stage.cycle()
        ways = ways_of(stage.outcome("j"))
        assert ways[HelpCode.ASK_FEWER_CARDS] == {"role": "worker", "cards": 2, "starts": 1}
        assert ways[HelpCode.LOOSEN_PLACEMENT] == {"veto": "node-name", "nodes": 1, "starts": 1}
        assert stage.starts_with(asked, Help(HelpCode.ASK_FEWER_CARDS, ways[HelpCode.ASK_FEWER_CARDS]))  # type: ignore[arg-type]

    def test_the_number_of_tasks_is_not_forgotten(self) -> None:
        """One node has eight cards, but four tasks of eight cards need four of them."""
        asked = job("j", "a", role(4, 8))
        stage = Stage(world([node("n1", 8), node("n2", 4), node("n3", 4)], [asked]), ADMIT)
        stage.cycle()
        assert ways_of(stage.outcome("j"))[HelpCode.ASK_FEWER_CARDS]["cards"] == 4

    def test_two_rules_that_are_wrong_together_name_each_other(self) -> None:
        rules = PlacementRules(node_selector={"disk": "ssd"})
        asked = job("j", "a", role(1, 1, models=("H100",)), rules=rules)
        stage = Stage(world([node("n1")], [asked]), ADMIT)
        stage.cycle()
        ways = stage.outcome("j").help
        assert {way.code: way.numbers["with"] for way in ways} == {
            HelpCode.ASK_OTHER_MODEL: "LOOSEN_PLACEMENT",
            HelpCode.LOOSEN_PLACEMENT: "ASK_OTHER_MODEL",
        }
        assert stage.starts_with(asked, *ways)

    def test_what_would_only_let_it_wait_for_something_else_says_for_what(self) -> None:
        busy = node("n1", device={"holders": 1})
        result = cycle(world([busy], [job("j", "a", role(1, 6))]))
        assert ways_of(outcome(result, "j"))[HelpCode.ASK_FEWER_CARDS]["also"] == "NO_ROOM"

    def test_a_refused_submission_is_advised_by_what_would_let_it_start_some_day(self) -> None:
        refused = never_fits(world([node("n1", 4), node("n2", 2)]), job("new", "a", role(2, 5)))
        assert refused is not None
        assert ways_of(refused) == {HelpCode.ASK_FEWER_CARDS: {"role": "worker", "cards": 2}}


class TestForNow:
    def test_fewer_cards_are_advised_where_that_starts_the_whole_gang(self) -> None:
        """One node can give two cards, the other one."""
        fill = [job("f1", "a", role(1, 2), rules=PlacementRules(node_name="n1")),
                job("f2", "a", role(1, 3), rules=PlacementRules(node_name="n2"))]  # fmt: skip
        stage = Stage(world([node("n1", 4), node("n2", 4)], fill), ADMIT)
        stage.cycle()
        asked = job("gang", "a", role(2, 3), at=5)
        stage.submit(asked)
        stage.cycle()
        assert stage.outcome("gang").reason is Reason.NO_ROOM
        way = ways_of(stage.outcome("gang"))[HelpCode.ASK_FEWER_CARDS]
        assert way == {"role": "worker", "cards": 1, "starts": 1}
        assert stage.starts_with(asked, Help(HelpCode.ASK_FEWER_CARDS, way))  # type: ignore[arg-type]

    def test_each_of_several_roles_is_tried_at_a_smaller_size(self) -> None:
        """Four GPUs of quota are free: the leader keeps its one beside fewer or smaller workers."""
        asked = job("j", "a", role(1, 1, name="leader"), role(3, 2, name="worker"))
        full = world([node("n1", 16)], [job("fill", "a", role(1, 4))], teams={"a": quotas(8)})
        stage = Stage(full, ADMIT)
        stage.cycle()
        stage.submit(asked)
        stage.cycle()
        found = stage.outcome("j")
        assert (found.reason, found.numbers.get("role")) == (Reason.WAITING_FOR_QUOTA, None), found
        ways = ways_of(found)
        named = {"role": "worker", "of_role": "worker", "starts": 1}
        assert ways[HelpCode.ASK_FEWER_CARDS] == {**named, "cards": 1}
        assert ways[HelpCode.ASK_FEWER_TASKS] == {**named, "tasks": 1}
        assert stage.starts_with(asked, found.help[0])
        assert "Task role <b>worker</b>: Reduce" in help_sentence(found.help[0].code, found.help[0].numbers)

    def test_a_role_is_advised_to_leave_the_others_what_they_request(self) -> None:
        """The queue may have 10 CPU: 8 for the worker are 2 too many beside the 4 of the leader."""
        limits = (*quotas(8), Quota(flavor="a100", resource=Resource.CPU, own_nominal=10_000))
        asked = job("j", "a", role(1, 1, name="leader", cpu=4_000), role(2, 1, name="worker", cpu=4_000))
        stage = Stage(world([node("n1", 8, cpu=64_000)], [asked], teams={"a": limits}), ADMIT)
        stage.cycle()
        found = stage.outcome("j")
        assert found.reason is Reason.EXCEEDS_MAX_QUOTA
        less = [way.numbers for way in found.help if way.code is HelpCode.ASK_LESS]
        facts = {"flavor": "a100", "resource": "cpu", "starts": 1}
        assert less == [
            {**facts, "role": "leader", "of_role": "leader", "limit": 2_000, "each": 2_000},
            {**facts, "role": "worker", "of_role": "worker", "limit": 6_000, "each": 3_000},
        ]
        assert stage.starts_with(asked, Help(HelpCode.ASK_LESS, less[1]))

    def test_nothing_is_advised_that_does_not_start_now(self) -> None:
        busy = node("n1", device={"holders": 1})
        found = outcome(cycle(world([busy], [job("j", "a", role(2, 2))])), "j")
        assert (found.reason, found.help) == (Reason.NO_ROOM, ())


class TestPreference:
    @pytest.mark.parametrize("cards", [1, 2, 4])
    @pytest.mark.parametrize("preference", list(Preference))
    def test_a_start_is_predicted_where_the_cycle_would_not_wait_for_victims(
        self, preference: Preference, cards: int
    ) -> None:
        """Two GPUs of the own quota would be released by preemption, but one on each node; a job fits by
        borrowing in the other flavor.
        """
        rules = Fungibility(when_can_borrow=WhenCan.TRY_NEXT_FLAVOR, preference=preference)
        mine = queue("a", flavors=("lent", "own"), preemption=TAKE_BACK, fungibility=rules)
        nodes = [node("l", 4, labels={"pool": "lent"})]
        nodes += [node(name, 2, labels={"pool": "own"}) for name in ("o1", "o2")]
        on = {name: PlacementRules(node_name=name) for name in ("o1", "o2")}
        running = [job(f"low-{name}", "a", role(), rules=rule) for name, rule in on.items()]
        running += [
            job(f"fixed-{name}", "b", role(), rules=rule, preemptible=False) for name, rule in on.items()
        ]
        teams = {
            "a": (*quotas(0, flavors=("lent",)), *quotas(2, flavors=("own",))),
            "b": (*quotas(4, flavors=("lent",)), *quotas(2, flavors=("own",), lend=0)),
        }
        flavors = [flavor(name, node_labels={"pool": name}) for name in ("lent", "own")]
        queues = [mine, queue("b", flavors=("own", "lent"))]
        snapshot = world(nodes, running, teams=teams, queues=queues, flavors=flavors)
        stage = Stage(snapshot, ADMIT)
        stage.cycle()
        asked = job("more", "a", role(1, cards), at=5, priority=5)
        session = start_session(stage.snapshot, stage.config, Instant(stage.now))
        with stage.snapshot.statement():
            promised = StartTrial(session).reason_to_wait(stage.snapshot.queues["a"], asked) is None
        begins = stage.starts_with(asked) or stage.outcome("more").reason is Reason.WAITING_FOR_PREEMPTED
        assert promised is begins
        assert promised is (cards != 2 or preference is Preference.BORROWING_OVER_PREEMPTION)


class TestQuota:
    def test_more_quota_is_of_use_or_says_what_comes_next(self) -> None:
        stage = Stage(world([node("n1", 4)], [job("fill", "a", role(1, 3))], teams={"a": quotas(3)}), ADMIT)
        stage.cycle()
        stage.submit(job("one", "a", role(1, 1), at=5), job("two", "a", role(1, 2), at=6))
        stage.cycle()
        assert "starts" in ways_of(stage.outcome("one"))[HelpCode.RAISE_QUOTA]
        assert ways_of(stage.outcome("two"))[HelpCode.RAISE_QUOTA]["also"] == "NO_ROOM"

    def test_a_trial_leaves_the_quota_as_it_was(self) -> None:
        snapshot = world([node("n1", 4)], [job("j", "a", role(1, 4))], teams={"a": quotas(2), "b": quotas(1)})
        key = next(q.key for q in quotas(2))
        before = snapshot.quota.limits("a", key), snapshot.quota.available("a", key)
        assert HelpCode.RAISE_QUOTA in ways_of(outcome(cycle(snapshot), "j"))
        assert (snapshot.quota.limits("a", key), snapshot.quota.available("a", key)) == before

    def test_a_stopped_queue_stays_a_condition(self) -> None:
        held = [queue("a", stop_policy=StopPolicy.HOLD)]
        snapshot = world([node("n1")], [job("j", "a", role(1, 4))], teams={"a": quotas(2)}, queues=held)
        assert ways_of(outcome(cycle(snapshot), "j"))[HelpCode.RAISE_QUOTA]["also"] == "QUEUE_STOPPED"

    def test_to_be_preemptible_is_advised_where_it_starts(self) -> None:
        snapshot = world(
            [node("n1")],
            [job("j", "a", role(1, 4), preemptible=False)],
            teams={"a": quotas(2), "b": quotas(9)},
        )
        assert "starts" in ways_of(outcome(cycle(snapshot), "j"))[HelpCode.MAKE_PREEMPTIBLE]


class TestBounds:
    def shapes(self, number: int) -> Stage:
        jobs = [job(f"j{n:03}", "a", role(1, 6, cpu=n + 1), at=n) for n in range(number)]
        return Stage(world([node("n1", 4)], jobs), ADMIT)

    @pytest.fixture
    def made(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """The jobs that were tried, one entry for each trial."""
        seen: list[str] = []
        known = StartTrial._reason

        def tried(trial: StartTrial, queue: Queue, job: Job) -> Reason | None:
            seen.append(job.id)
            return known(trial, queue, job)

        monkeypatch.setattr(StartTrial, "_reason", tried)
        return seen

    def test_so_many_trials_are_made_in_a_cycle_and_all_come_to_their_turn(
        self, made: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(advice, "MAX_TRIALS", 64)
        stage, most = self.shapes(60), 0
        for _ in range(12):
            before = len(made)
            result = stage.cycle()
            most = max(most, len(made) - before)
        assert 0 < most <= advice.SAVED_CYCLES * 64 + 16
        assert len(made) <= (12 + advice.SAVED_CYCLES) * 64 + 16
        assert all(ways_of(found) for found in result.outcomes)

    def test_they_are_a_small_part_of_what_a_cycle_tries(
        self, made: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(advice, "MIN_NODES_TRIED", 1)
        stage, cycles, turns = self.shapes(60), 40, 0
        for number in range(cycles):
            stage.submit(job(f"new{number:03}", "b", at=number))  # the state of the cell is another one
            turns += stage.cycle().counters["tried"]
        allowed = turns / advice.TURNS_PER_TRIAL
        assert 0.5 * allowed <= len(made) <= (1 + advice.SAVED_CYCLES / cycles) * allowed + 16

    def test_what_was_tried_is_not_tried_again_while_nothing_changes(self, made: list[str]) -> None:
        stage = self.shapes(4)
        first = stage.cycle()
        assert set(made) == set(stage.snapshot.jobs)
        made.clear()
        again = stage.cycle()
        assert made == []
        assert again.outcomes == first.outcomes

    def test_it_is_tried_again_when_the_cell_has_changed(self) -> None:
        stage = Stage(world([node("n1", 4)], [job("fill", "a", role(1, 4))]), ADMIT)
        stage.cycle()
        stage.submit(job("j", "a", role(1, 6), at=5))
        stage.cycle()
        assert ways_of(stage.outcome("j"))[HelpCode.ASK_FEWER_CARDS]["also"] == "NO_ROOM"
        stage.apply_end("fill")
        stage.cycle()
        assert ways_of(stage.outcome("j"))[HelpCode.ASK_FEWER_CARDS] == {
            "role": "worker",
            "cards": 4,
            "starts": 1,
        }

    def test_only_the_job_that_is_asked_for_is_tried(self) -> None:
        stage = self.shapes(3)
        stage.config = EngineConfig(actions=("admit",), advise_for="j001")
        stage.cycle()
        assert [bool(ways_of(stage.outcome(f"j{n:03}"))) for n in range(3)] == [False, True, False]

    def test_equivalent_jobs_get_the_same_outcome(self) -> None:
        stage = Stage(world([node("n1", 4)], [job(f"j{n}", "a", role(1, 6), at=n) for n in range(3)]), ADMIT)
        stage.cycle()
        told = [stage.outcome(f"j{n}").help for n in range(3)]
        assert told[0] and told == [told[0]] * 3


class TestModels:
    def test_a_model_with_room_is_advised_to_a_job_that_waits_for_another(self) -> None:
        """The queue has both pools; the card that the job names is taken."""
        pools = [flavor("a100", node_labels={"p": "a"}, card_model="A100"),
                 flavor("l40s", node_labels={"p": "l"}, card_model="L40S")]  # fmt: skip
        nodes = [
            node("n1", 1, model="A100", labels={"p": "a"}),
            node("n2", 2, model="L40S", labels={"p": "l"}),
        ]
        held = [queue("a", flavors=("a100", "l40s"))]
        teams = {"a": quotas(8, flavors=("a100", "l40s"))}
        fill = [job("fill", "a", role(1, 1, models=("A100",)))]
        stage = Stage(world(nodes, fill, flavors=pools, queues=held, teams=teams), ADMIT)
        stage.cycle()
        asked = job("j", "a", role(1, 1, models=("A100",)), at=5)
        stage.submit(asked)
        stage.cycle()
        assert stage.outcome("j").reason is Reason.NO_ROOM
        way = ways_of(stage.outcome("j"))[HelpCode.ASK_OTHER_MODEL]
        assert way == {"role": "worker", "models": "A100,L40S", "more": "L40S", "starts": 1}
        assert stage.starts_with(asked, Help(HelpCode.ASK_OTHER_MODEL, way))  # type: ignore[arg-type]
