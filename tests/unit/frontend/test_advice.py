"""A recommendation opens a changed copy of the job, and says what happens to it then."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs

import pytest

from frontend.pages.jobs.pending import advice
from frontend.texts.reasons import help_sentence, reason_sentence

FILE: dict[str, Any] = {
    "name": "train",
    "preemptible": False,
    "roles": [
        {
            "name": "worker",
            "replicas": 4,
            "min_replicas": 4,
            "resources": {
                "cpu": "16",
                "memory": "64Gi",
                "gpu": {"cards": 8, "mode": "whole", "model": ["H100"]},
            },
        },
        {"name": "helper", "replicas": 1, "resources": {"cpu": "1", "memory": "1Gi"}},
    ],
    "placement": {
        "node_name": "n1",
        "node_selector": {"disk": "ssd"},
        "node_affinity": {"required": [[]], "preferred": [{"weight": 1}]},
    },
}


def followed(code: str, **numbers: object) -> dict[str, Any]:
    item = {"code": code, "numbers": numbers}
    return advice.apply_changes(FILE, parse_qs(advice.change_query(item, [item]))["change"][0])


@pytest.mark.parametrize(
    ("code", "numbers", "path", "value"),
    [
        ("ASK_FEWER_CARDS", {"role": "worker", "cards": 2}, ("roles", 0, "resources", "gpu", "cards"), 2),
        ("ASK_FEWER_TASKS", {"role": "worker", "tasks": 3}, ("roles", 0, "replicas"), 3),
        (
            "ASK_LESS",
            {"role": "helper", "resource": "cpu", "limit": 500},
            ("roles", 1, "resources", "cpu"),
            "500m",
        ),
        (
            "ASK_LESS",
            {"role": "worker", "resource": "memory", "limit": 4096, "each": 1024},
            ("roles", 0, "resources", "memory"),
            "1024Mi",
        ),
        (
            "ASK_OTHER_MODEL",
            {"role": "worker", "models": "A100,A10"},
            ("roles", 0, "resources", "gpu", "model"),
            ["A100", "A10"],
        ),
        ("MAKE_PREEMPTIBLE", {"flavor": "a100"}, ("preemptible",), True),
        ("LOOSEN_PLACEMENT", {"veto": "taint"}, ("placement", "tolerations"), [{"operator": "Exists"}]),
        (
            "LOOSEN_PLACEMENT",
            {"veto": "node-affinity"},
            ("placement", "node_affinity"),
            {"preferred": [{"weight": 1}]},
        ),
    ],
)
def test_the_copy_follows_what_is_recommended(
    code: str, numbers: dict[str, object], path: tuple[Any, ...], value: object
) -> None:
    found: Any = followed(code, **numbers)
    for key in path:
        found = found[key]
    assert found == value


@pytest.mark.parametrize(("veto", "key"), [("node-name", "node_name"), ("node-selector", "node_selector")])
def test_a_rule_that_is_loosened_is_gone(veto: str, key: str) -> None:
    assert key not in followed("LOOSEN_PLACEMENT", veto=veto)["placement"]


def test_what_helps_only_together_is_done_together() -> None:
    cards = {"code": "ASK_FEWER_CARDS", "numbers": {"role": "worker", "cards": 2, "with": "LOOSEN_PLACEMENT"}}
    rule = {"code": "LOOSEN_PLACEMENT", "numbers": {"veto": "node-name", "with": "ASK_FEWER_CARDS"}}
    other = {"code": "MAKE_PREEMPTIBLE", "numbers": {}}
    query = advice.change_query(cards, [cards, rule, other])
    changed = advice.apply_changes(FILE, parse_qs(query)["change"][0])
    assert changed["roles"][0]["resources"]["gpu"]["cards"] == 2
    assert "node_name" not in changed["placement"]
    assert changed["preemptible"] is False


@pytest.mark.parametrize(
    "text",
    ["", "no json", "[1]", '[{"code": "ASK_FEWER_CARDS"}]', '[{"code": "DROP", "numbers": {}}]', "[" * 90,
     '[{"code": "ASK_FEWER_CARDS", "numbers": {"cards": -1}}]'],
)  # fmt: skip
def test_an_invented_address_changes_nothing(text: str) -> None:
    assert advice.apply_changes(FILE, text) == FILE


def test_a_recommendation_says_what_becomes_of_the_job() -> None:
    start = help_sentence("ASK_FEWER_CARDS", {"role": "w", "cards": 2, "starts": 1})
    assert start.startswith("Reduce GPUs per task to at most <b>2</b>. The job can start afterwards, unless")
    waits = help_sentence("ASK_FEWER_CARDS", {"cards": 2, "also": "NO_ROOM"})
    assert "The job can start afterwards" not in waits
    assert "Without preemption, the job still waits afterwards: <b>Insufficient" in waits
    for certain in ({"also": "NO_ROOM", "tried": 1}, {"also": "NEVER_FITS"}):
        assert "The job still waits afterwards: <b>" in help_sentence("RAISE_QUOTA", certain)
    preempts = help_sentence("RAISE_QUOTA", {"preempts": 2, "resource": "cpu", "tried": 1})
    assert preempts.endswith("The job would start afterwards by preempting jobs (jobs: <b>2</b>).")
    both = help_sentence("LOOSEN_PLACEMENT", {"veto": "node-name", "with": "ASK_FEWER_CARDS"})
    assert "Effective only together with the other changes listed here." in both
    some_day = help_sentence("ASK_FEWER_CARDS", {"cards": 2})
    assert some_day == "Reduce GPUs per task to at most <b>2</b>."


def test_an_evicted_job_shows_its_rule() -> None:
    numbers = {"resource": "gpu.cards", "flavor": "a100", "asked": 2, "rule": "spare", "evictions": 1,
               "keep_free": 2, "unused": 3, "available": 1}  # fmt: skip
    told = reason_sentence("WAITING_FOR_BORROWED", numbers)
    assert "Preemptions: <b>1</b>" in told and "<b>3 GPUs</b>" in told
    assert "<b>2 GPUs</b> of <b>a100</b> must stay unused" in told


def test_the_losses_of_a_borrower_are_explained() -> None:
    numbers = {"resource": "gpu.cards", "flavor": "a100", "asked": 2, "rule": "headroom",
               "keep_free": 2, "unused": 3, "available": 1}  # fmt: skip
    told = reason_sentence("WAITING_FOR_BORROWED", numbers)
    assert "Preemption lost many GPU-hours" in told and "unused now: <b>3 GPUs</b>" in told


def test_own_and_borrowed_quota_are_distinguished() -> None:
    numbers = {
        "resource": "gpu.cards",
        "flavor": "a100",
        "asked": 9,
        "available": 8,
        "own_free": 6,
        "borrowable": 2,
    }
    told = reason_sentence("WAITING_FOR_QUOTA", numbers)
    assert "<b>6 GPUs</b> nominal, <b>2 GPUs</b> to borrow" in told
