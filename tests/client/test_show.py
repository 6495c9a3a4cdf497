"""What the commands print of an answer."""

from __future__ import annotations

from allotment_client.cli.show import format_explanation


def test_a_failed_job_says_why() -> None:
    cause = {"rule": "TASK_FAILED", "pod": "train-0", "exit_code": 137, "reason": "OOMKilled", "message": ""}
    told = format_explanation({"state": "failed", "reason": None, "position": None, "cause": cause})
    assert told.splitlines() == [
        "state: failed",
        "last eviction: TASK_FAILED (pod train-0, exit_code 137, reason OOMKilled)",
    ]


def test_a_job_that_never_gave_back_says_nothing_of_it() -> None:
    assert format_explanation({"state": "running", "reason": None, "cause": None}) == "state: running"
