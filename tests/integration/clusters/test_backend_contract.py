"""The contract of every backend, whichever cluster it serves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from clusters.backends.base import NodeObservation, OutcomeKind, PodObservation, PodPhase, TaskRef

ENDED = (PodPhase.SUCCEEDED, PodPhase.FAILED)


def pods(batch: Any) -> dict[str, PodObservation]:
    return {seen.ref.name: seen for seen in batch.observations if isinstance(seen, PodObservation)}


def test_inventory_has_nodes_and_cards(harness: Any) -> None:
    nodes = harness.backend.read_inventory().nodes
    assert len({node.name for node in nodes}) == len(nodes)
    cards = [card for node in nodes for card in node.devices]
    assert len({card.uuid for card in cards}) == len(cards)
    assert all(node.ready and node.cpu_millicores and node.memory_mib for node in nodes)
    assert {card.mode for card in cards} == {"whole", "slice"}


@pytest.mark.parametrize(("code", "phase"), [(0, PodPhase.SUCCEEDED), (3, PodPhase.FAILED)])
def test_a_pod_runs_and_ends_with_its_exit_code(harness: Any, code: int, phase: PodPhase) -> None:
    spec = harness.spec("a", simulate={"run_s": 20, "exit_code": code})
    uid = harness.backend.ensure_pod(spec).uid
    running = harness.until("a", PodPhase.RUNNING)
    ended = harness.until("a", *ENDED)
    assert (ended.phase, ended.exit_code, ended.ref.uid) == (phase, code, uid)
    assert ended.labels == spec.labels
    assert 19 <= (ended.at - running.at).total_seconds() <= 25


def test_a_pod_without_run_time_runs_until_removed(harness: Any) -> None:
    harness.backend.ensure_pod(harness.spec("a", simulate={}))
    harness.until("a", PodPhase.RUNNING)
    harness.pass_time(90)
    assert harness.look()["a"].phase is PodPhase.RUNNING


def test_ensure_twice_makes_one_pod(harness: Any) -> None:
    spec = harness.spec("a")
    first, second = harness.backend.ensure_pod(spec), harness.backend.ensure_pod(spec)
    assert (first.kind, second.kind) == (OutcomeKind.DONE, OutcomeKind.DONE)
    assert first.uid == second.uid != ""
    assert list(pods(harness.backend.observe_pods(None))) == ["a"]


def test_a_taken_name_is_refused_and_the_first_pod_left_alone(harness: Any) -> None:
    uid = harness.backend.ensure_pod(harness.spec("a")).uid
    other = harness.backend.ensure_pod(harness.spec("a", labels={"attempt": "2"}))
    assert (other.kind, other.code) == (OutcomeKind.REFUSED, "NAME_TAKEN")
    assert "team/a" in other.message
    assert pods(harness.backend.observe_pods(None))["a"].ref.uid == uid


def test_one_name_in_two_namespaces_is_two_pods(harness: Any) -> None:
    first = harness.backend.ensure_pod(harness.spec("a"))
    second = harness.backend.ensure_pod(harness.spec("a", node="whole-02", ref=TaskRef("other", "a")))
    assert first.uid != second.uid
    assert len(harness.backend.observe_pods(None).observations) >= 2


def test_ensure_many_answers_each_in_order(harness: Any) -> None:
    harness.backend.ensure_pod(harness.spec("taken", labels={"attempt": "9"}))
    specs = [harness.spec("b", node="whole-02"), harness.spec("taken"), harness.spec("c", node="whole-03")]
    outcomes = harness.backend.ensure_many(specs)
    assert [outcome.kind for outcome in outcomes] == ["done", "refused", "done"]
    assert harness.backend.ensure_many([]) == []


def test_full_cards_are_accepted_by_the_api_and_failed_by_the_node(harness: Any) -> None:
    harness.backend.ensure_pod(harness.spec("a", cards=2))
    assert harness.backend.ensure_pod(harness.spec("b", cards=2)).kind == OutcomeKind.DONE
    failed = harness.until("b", *ENDED)
    assert failed.phase is PodPhase.FAILED
    assert failed.reason.startswith(("OutOf", "UnexpectedAdmissionError"))
    assert failed.message
    assert harness.until("a", PodPhase.RUNNING)


def test_a_removed_pod_holds_its_cards_until_it_is_gone(harness: Any) -> None:
    harness.backend.ensure_pod(harness.spec("a", cards=2, simulate={}))
    harness.until("a", PodPhase.RUNNING)
    assert harness.backend.remove_pod(TaskRef("team", "a"), 30).kind == OutcomeKind.DONE
    assert harness.look()["a"].phase is PodPhase.RUNNING
    harness.backend.ensure_pod(harness.spec("too-early", cards=2))
    assert harness.until("too-early", *ENDED).phase is PodPhase.FAILED
    assert harness.until("a", PodPhase.REMOVED).labels == {"attempt": "1", "epoch": "7"}
    harness.backend.ensure_pod(harness.spec("in-time", cards=2))
    assert harness.until("in-time", PodPhase.RUNNING)
    assert "a" not in pods(harness.backend.observe_pods(None))


def test_removing_is_idempotent_and_absence_is_done(harness: Any) -> None:
    assert harness.backend.remove_pod(TaskRef("team", "never"), 30).kind == OutcomeKind.DONE
    harness.backend.ensure_pod(harness.spec("a"))
    for _ in range(3):
        assert harness.backend.remove_pod(TaskRef("team", "a"), 10).kind == OutcomeKind.DONE
        harness.pass_time(5)
    harness.until("a", PodPhase.REMOVED)
    assert harness.backend.remove_pod(TaskRef("team", "a"), 10).kind == OutcomeKind.DONE


def test_a_removal_does_not_hit_a_successor_of_the_same_name(harness: Any) -> None:
    old = harness.backend.ensure_pod(harness.spec("a"))
    harness.backend.remove_pod(TaskRef("team", "a"), 0)
    harness.until("a", PodPhase.REMOVED)
    new = harness.backend.ensure_pod(harness.spec("a"))
    assert new.uid != old.uid
    harness.backend.remove_pod(TaskRef("team", "a", old.uid), 0)
    harness.pass_time(5)
    assert harness.until("a", PodPhase.RUNNING).ref.uid == new.uid


def test_a_finished_pod_stays_as_an_object_but_frees_its_cards(harness: Any) -> None:
    harness.backend.ensure_pod(harness.spec("a", cards=2, simulate={"run_s": 5}))
    harness.until("a", PodPhase.SUCCEEDED)
    harness.backend.ensure_pod(harness.spec("b", cards=2))
    harness.until("b", PodPhase.RUNNING)
    assert pods(harness.backend.observe_pods(None))["a"].phase is PodPhase.SUCCEEDED
    harness.backend.remove_many([TaskRef("team", "a")], 30)
    harness.until("a", PodPhase.REMOVED)


def test_a_slice_and_another_share_a_card_up_to_its_size(harness: Any) -> None:
    first, second, third = harness.place(*(harness.sliced(name, cores=40) for name in "abc"))
    assert (first.kind, second.kind) == (OutcomeKind.DONE, OutcomeKind.DONE)
    for name in "ab":
        assert harness.until(name, PodPhase.RUNNING, *ENDED).phase is PodPhase.RUNNING
    # The node fails the third, unless the backend prevents its binding.
    if third.kind is OutcomeKind.DONE:
        assert harness.until("c", *ENDED).phase is PodPhase.FAILED
    else:
        assert (third.kind, third.code) == (OutcomeKind.REFUSED, "CARD_FULL")
        assert "20 %" in third.message


def test_no_cursor_gives_everything_and_says_so(harness: Any) -> None:
    harness.backend.ensure_pod(harness.spec("a"))
    batch = harness.backend.observe_pods(None)
    assert batch.complete
    assert set(pods(batch)) == {"a"}
    facts = {seen.name: seen.fact for seen in batch.observations if isinstance(seen, NodeObservation)}
    assert facts == {node.name: node for node in harness.backend.read_inventory().nodes}


def test_a_cursor_gives_what_changed_since(harness: Any) -> None:
    harness.backend.ensure_pod(harness.spec("a"))
    cursor = harness.backend.observe_pods(None).cursor
    harness.backend.ensure_pod(harness.spec("b", node="whole-02"))
    batch = harness.backend.observe_pods(cursor)
    assert not batch.complete
    assert "b" in pods(batch)
    assert not harness.backend.observe_pods(batch.cursor).observations


def test_an_old_cursor_gives_the_same_or_newer_states(harness: Any) -> None:
    harness.backend.ensure_pod(harness.spec("a", simulate={"run_s": 20}))
    cursor = harness.backend.observe_pods(None).cursor
    harness.until("a", PodPhase.RUNNING)
    again = pods(harness.backend.observe_pods(cursor))["a"]
    assert again.phase is PodPhase.RUNNING
    harness.backend.remove_pod(TaskRef("team", "a"), 5)
    harness.until("a", PodPhase.REMOVED)
    assert pods(harness.backend.observe_pods(cursor))["a"].phase is PodPhase.REMOVED


@pytest.mark.parametrize("cursor", ["", "nonsense", "999999999", "-3"])
def test_a_cursor_that_is_not_known_gives_everything(harness: Any, cursor: str) -> None:
    harness.backend.ensure_pod(harness.spec("a"))
    assert harness.backend.observe_pods(cursor).complete


def test_times_are_aware_and_not_in_the_future(harness: Any) -> None:
    harness.backend.ensure_pod(harness.spec("a", simulate={"run_s": 5}))
    begun = harness.look()["a"].at
    ended = harness.until("a", PodPhase.SUCCEEDED)
    assert begun.tzinfo is not None
    assert begun < ended.at
    batch = harness.backend.observe_pods(None)
    assert [seen.at for seen in batch.observations] == sorted(seen.at for seen in batch.observations)


def test_what_a_cluster_notes_about_a_pod_is_of_that_pod(harness: Any) -> None:
    spec = harness.spec("a")
    harness.place(spec, harness.spec("b", node="whole-02"))
    harness.until("a", PodPhase.RUNNING)
    found = harness.backend.list_pod_events([spec.ref, replace(spec.ref, name="never")])
    assert {event.ref.name for event in found} <= {"a"}
    assert all(event.reason and event.count >= 1 for event in found)


def test_logs_are_returned_where_the_backend_has_them(harness: Any) -> None:
    if not harness.backend.capabilities.logs:
        assert not list(harness.backend.read_logs(TaskRef("team", "a")))
        return
    spec = harness.spec("a", simulate={"run_s": 30})
    harness.backend.ensure_pod(spec)
    ended = harness.until("a", *ENDED)
    harness.pass_time(1)
    lines = list(harness.backend.read_logs(spec.ref))
    assert lines
    assert list(harness.backend.read_logs(spec.ref, last=1)) == lines[-1:]
    assert list(harness.backend.read_logs(spec.ref, last=len(lines) + 1)) == lines
    assert not list(harness.backend.read_logs(spec.ref, since=ended.at.replace(year=2030)))
    assert not list(harness.backend.read_logs(replace(spec.ref, name="never")))


def test_a_node_is_cordoned_and_uncordoned_as_often_as_asked(harness: Any) -> None:
    for schedulable in (False, False, True, True):
        outcome = harness.backend.mark_schedulable("whole-01", schedulable=schedulable)
        assert outcome.kind is OutcomeKind.DONE
        cordoned = {node.name for node in harness.backend.read_inventory().nodes if node.cordoned}
        assert cordoned == (set() if schedulable else {"whole-01"})


def test_a_node_that_is_not_there_is_not_cordoned(harness: Any) -> None:
    outcome = harness.backend.mark_schedulable("nowhere", schedulable=False)
    assert (outcome.kind, outcome.code) == (OutcomeKind.REFUSED, "NotFound")
    assert "nowhere" in outcome.message


def test_pods_of_a_cordoned_node_run_on(harness: Any) -> None:
    spec = harness.spec("a")
    harness.backend.ensure_pod(spec)
    harness.until("a", PodPhase.RUNNING)
    harness.backend.mark_schedulable(spec.node, schedulable=False)
    harness.pass_time(30)
    assert harness.look()["a"].phase is PodPhase.RUNNING
