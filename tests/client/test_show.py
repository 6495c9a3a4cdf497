"""The output of the client's commands for an answer."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from allotment_client.cli.main import build_parser
from allotment_client.cli.show import format_explanation
from allotment_client.errors import ConfigurationError
from tests.client.server import Scripted


def test_a_failed_job_says_why() -> None:
    cause = {"rule": "TASK_FAILED", "pod": "train-0", "exit_code": 137, "reason": "OOMKilled", "message": ""}
    told = format_explanation({"state": "failed", "reason": None, "position": None, "cause": cause})
    assert told.splitlines() == [
        "state: failed",
        "last eviction: TASK_FAILED (pod train-0, exit_code 137, reason OOMKilled)",
    ]


def test_a_job_that_never_gave_back_says_nothing_of_it() -> None:
    assert format_explanation({"state": "running", "reason": None, "cause": None}) == "state: running"


def row(workspace: str) -> dict[str, Any]:
    words = ("name", "state", "queue", "priority_class", "submitted_by", "id", "end_reason")
    return {
        **dict.fromkeys(words, "x"),
        "workspace": workspace,
        "cards": 1,
        "submitted_at": "2026-01-01T00:00:00Z",
    }


def test_jobs_of_all_workspaces_are_listed_with_their_workspaces(capsys: pytest.CaptureFixture[str]) -> None:
    pages = [{"items": [row("vision")], "next": "more"}, {"items": [row("speech")], "next": None}]
    server = Scripted(*(httpx.Response(200, json=page) for page in pages))
    options = build_parser().parse_args(["list", "-A", "--tenant", "research", "--state", "queued"])
    assert options.run(server.client(), "", options) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["WORKSPACE", "vision", "speech"]
    assert [request.url.path for request in server.seen] == ["/api/v1/admin/jobs"] * 2
    asked = server.seen[1].url.params
    assert (asked["tenant"], asked["state"], asked["cursor"]) == ("research", "queued", "more")


@pytest.mark.parametrize("words", [["-A", "--watch"], ["--tenant", "research"]])
def test_options_of_lists_that_do_not_fit_are_refused(words: list[str]) -> None:
    options = build_parser().parse_args(["list", *words])
    with pytest.raises(ConfigurationError):
        options.run(Scripted().client(), "vision", options)
