"""Tags by the client and its commands."""

from __future__ import annotations

import argparse
import json

import httpx
import pytest

from allotment_client.cli import commands
from tests.client.server import Scripted

JOB = {
    "id": "01", "name": "train", "state": "queued", "reason": None, "cards": 1, "queue": "default",
    "priority_class": "normal", "tags": ["a", "b"],
    "submitted_by": "ed", "submitted_at": "2026-01-01T00:00:00Z",
}  # fmt: skip


def test_tags_are_added_and_removed_in_one_request(capsys: pytest.CaptureFixture[str]) -> None:
    server = Scripted(httpx.Response(202, json=JOB))
    options = argparse.Namespace(job="train/1", add=["a", "b"], remove=["c"], output="table")
    assert commands.tag_job(server.client(), "vision", options) == 0
    (sent,) = server.seen
    assert sent.url.raw_path == b"/api/v1/workspaces/vision/jobs/train%2F1/tags"
    assert json.loads(sent.content) == {"add": ["a", "b"], "remove": ["c"]}
    assert "TAGS" in (told := capsys.readouterr().out) and "a, b" in told


def test_jobs_are_listed_by_each_of_some_tags() -> None:
    page = httpx.Response(200, json={"items": [JOB], "next": None})
    server = Scripted(page, page)
    client = server.client()
    assert list(client.jobs("vision", tags=("a&b", "c"))) == [JOB]
    assert list(client.all_jobs(tags=("c",))) == [JOB]
    assert [sent.url.params.get_list("filterBy") for sent in server.seen] == [
        ["tags==a&b", "tags==c"],
        ["tags==c"],
    ]
