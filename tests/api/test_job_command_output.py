"""`allotment job logs` and `explain` print what the REST API returns."""

from __future__ import annotations

import json
from collections.abc import Iterator
from html import unescape
from typing import Any

import pytest
import time_machine
from django.core.management import call_command
from django.core.management.base import CommandError
from django.utils import translation
from django.utils.html import strip_tags

from foundation.core.reasons import Reason
from frontend.texts.recommendations import recommendation_sentences
from scheduling.models import Job
from tests.api.conftest import As
from tests.api.test_log_stream import Ran
from tests.builders import jobs
from tests.builders.world import World

EXPLAIN = "/api/v1/workspaces/team-a/jobs/train/explain"


@pytest.fixture
def ran(db: None) -> Iterator[Ran]:
    with time_machine.travel("2026-11-02T08:00:00Z", tick=False) as traveller:
        yield Ran(traveller)


def read_lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    call_command("job", "logs", "train", "--workspace", "team-a", "--user", "ed", *arguments)
    return capsys.readouterr().out.splitlines()


def test_logs_of_all_tasks_of_one_and_since_a_time(ran: Ran, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(5):
        ran.step()
    lines = read_lines(capsys)
    assert {line.split("  ")[0] for line in lines} == {"worker-0", "worker-1"}
    own = read_lines(capsys, "--task", "worker-1")
    assert own == [line for line in lines if line.startswith("worker-1")]
    late = read_lines(capsys, "--task", "worker-1", "--since", "2026-11-02T08:00:40Z")
    assert late and len(late) < len(own) and own[-len(late) :] == late
    [last] = json.loads("\n".join(read_lines(capsys, "--task", "worker-1", "--limit", "1", "--json", "-")))[
        "items"
    ]
    assert f"{last['task']}  {last['text']}" == own[-1]
    for wrong in (["--since", "yesterday"], ["--follow", "--json", "-"], ["--task", "none-7"]):
        with pytest.raises(CommandError):
            read_lines(capsys, *wrong)


def test_followed_logs_end_with_the_attempt(
    ran: Ran, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduling.management.job_output.time.sleep", lambda _s: ran.step())
    lines = read_lines(capsys, "--follow", "--task", "worker-0")
    assert lines[0].startswith("worker-0  starting") and lines[-1] == "worker-0  done"
    assert len(lines) == len(set(lines)), "each line once"


def test_an_explanation_is_that_of_the_rest_api(
    ran: Ran, as_user: As, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs.job(ran.job.queue, ran.user, "first")
    own = ["explain", "train", "--workspace", "team-a", "--user", "ed"]
    call_command("job", *own, "--json", "-")
    found = json.loads(capsys.readouterr().out)
    assert found == as_user(ran.user).get(EXPLAIN).json()
    assert found["state"] == "queued" and found["position"]
    call_command("job", *own)
    told = capsys.readouterr().out
    position = found["position"]
    ahead = f"{position['position_in_local_queue']} of {position['waiting']} pending"
    for word in ("queued", f"({found['reason']['code']})", ahead):
        assert word in told
    with pytest.raises(CommandError):
        call_command("job", "explain", "none", "--workspace", "team-a", "--user", "ed")


SHORT = {"flavor": "a100", "resource": "gpu.cards", "short": 2, "queue": "q"}


@pytest.mark.parametrize("reason", Reason)
@pytest.mark.parametrize(
    "found",
    [[], [{"code": "RAISE_QUOTA", "numbers": SHORT}, {"code": "RESUME", "numbers": {}}]],
    ids=["usual", "of the engine"],
)
def test_recommendations_are_the_sentences_of_the_console(
    w: World, capsys: pytest.CaptureFixture[str], reason: Reason, found: list[dict[str, Any]]
) -> None:
    job = jobs.job(w.queue, w.editor, "train")
    Job.unscoped.filter(pk=job.pk).update(reason=reason, reason_help=found)

    with translation.override("en"):
        call_command("job", "explain", "train", "--workspace", "team-a", "--user", "ed")
        wanted = [strip_tags(text) for text in recommendation_sentences(reason, {}, found)]

    told = " ".join(capsys.readouterr().out.split())
    assert wanted
    for sentence in wanted:
        assert unescape(sentence) in told
    assert "RAISE_QUOTA" not in told
