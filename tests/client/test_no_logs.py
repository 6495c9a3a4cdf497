"""`allotment-client logs` explains an empty log, for every state that the server reports."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import pytest

from allotment_client.cli import commands
from scheduling.models.job import TERMINAL_STATES, WAITING_STATES, JobState


class Answers:
    """Return a server's answer about a job without lines."""

    def __init__(self, state: str) -> None:
        self.state = state

    def logs(self, workspace: str, job: str, **_query: Any) -> list[dict[str, Any]]:
        return []

    def follow_logs(self, workspace: str, job: str, **_query: Any) -> Iterator[dict[str, Any]]:
        return iter([])

    def job(self, workspace: str, job: str) -> dict[str, Any]:
        return {"name": job, "state": self.state}


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize("state", list(JobState))
def test_why_there_are_no_lines(state: JobState, follow: bool, capsys: pytest.CaptureFixture[str]) -> None:
    options = argparse.Namespace(job="train", task="", attempt=None, tail=5, follow=follow, output="table")
    client: Any = Answers(state.value)
    assert commands.print_logs(client, "team-a", options) == 0
    out, errors = capsys.readouterr()
    assert out == ""
    assert errors.startswith("No logs of train: ")
    assert state.value in errors
    assert ("pods were deleted" in errors) is (state in TERMINAL_STATES)
    assert ("hasn't started" in errors) is (state in WAITING_STATES)
