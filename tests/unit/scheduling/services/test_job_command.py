"""`allotment job`: the same services from a shell."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from scheduling.models import Job, JobState
from tests.builders import jobs
from tests.builders.world import World, world


@pytest.fixture
def w(db: None) -> World:
    return world()


def run(tmp_path: Path, verb: str, *arguments: str) -> Any:
    out = tmp_path / "out.json"
    call_command("job", verb, *arguments, "--workspace", "team-a", "--json", str(out))
    return json.loads(out.read_text())


def test_submit_list_get_cancel(w: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("name: train\nroles: [{resources: {gpu: {cards: 2}}}]\n")

    made = run(tmp_path, "submit", "-f", str(file), "--user", "ed")
    assert (made["name"], made["state"], made["submitted_by"]) == ("train", "queued", "ed")
    assert [item["name"] for item in run(tmp_path, "list", "--state", "queued")["items"]] == ["train"]
    assert run(tmp_path, "get", "train")["spec"]["roles"][0]["resources"]["gpu"]["cards"] == 2
    assert run(tmp_path, "cancel", "train")["state"] == "cancelled"
    assert Job.unscoped.get().state == JobState.CANCELLED
    assert "train" in capsys.readouterr().out


def test_jobs_of_all_workspaces(w: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jobs.job(w.queue, w.editor, "mine")
    jobs.job(w.other_queue, w.outsider, "theirs")
    out = tmp_path / "out.json"

    def names(*arguments: str) -> set[str]:
        call_command("job", "list", *arguments, "--json", str(out))
        return {item["name"] for item in json.loads(out.read_text())["items"]}

    assert names("--all-workspaces") == {"mine", "theirs"}
    assert "team-b" in capsys.readouterr().out
    assert names("-A", "--tenant", "team-b") == {"theirs"}
    assert names("-w", "team-b") == {"theirs"} and "team-b" not in capsys.readouterr().out.split("theirs")[-1]
    for arguments in (
        ["-A", "--user", "ed"],
        ["-w", "team-a", "--tenant", "team-b"],
        ["-A", "-w", "team-a"],
        [],
    ):
        with pytest.raises(CommandError):
            names(*arguments)


def test_mistakes_name_file_and_field(w: World, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("kind: spark\nroles: [{replicas: 0}]\n")

    with pytest.raises(CommandError) as caught:
        run(tmp_path, "submit", "-f", str(file))

    assert caught.value.returncode == 2
    assert str(caught.value).splitlines() == [
        f"{file}: kind: Must be one of: batch, pytorch, mpi, notebook, service.",
        f"{file}: roles.0.replicas: Must be from 1 to 4096.",
    ]


def test_what_is_not_there(w: World, tmp_path: Path) -> None:
    job = jobs.job(w.other_queue, w.outsider)
    for arguments in (["get", "nothing"], ["get", str(job.pk)], ["get", "x", "--user", "nobody"]):
        with pytest.raises(CommandError):
            run(tmp_path, *arguments)
    with pytest.raises(CommandError, match=r"none\.yaml"):
        run(tmp_path, "submit", "-f", "none.yaml")
