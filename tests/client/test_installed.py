"""The wheel of the client, alone in a fresh environment, against a real server and a simulated cluster."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.test import RequestFactory

from clusters.models import Cell, Cluster
from frontend.pages.jobs.detail.copies import submit_texts
from scheduling.models import Job, JobState
from tenants.models import Role
from tests.builders import clusters, jobs, quotas, tenancy
from tests.builders.pipeline import simulated_cluster, step
from tests.fixtures.api_server import api_server
from tests.fixtures.postgres import PostgresServer
from tests.fixtures.programs import read_to_end, run_to_end
from tests.fixtures.wait import wait_until

pytestmark = pytest.mark.server

SOURCE = Path(__file__).resolve().parents[2] / "client"
JOB = """
name: train
roles:
  - {name: worker, replicas: 2, resources: {cpu: 1, memory: 1Gi, gpu: {cards: 1}}}
simulate: {run_s: 200}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`allotment-client` in an environment that holds the wheel, what it requires, and nothing else."""
    place = tmp_path_factory.mktemp("client")
    offline = ["--quiet", "--disable-pip-version-check", "--no-deps", "--no-index"]
    pip = [sys.executable, "-m", "pip"]
    _run([*pip, "wheel", *offline, "--no-build-isolation", "--wheel-dir", str(place), str(SOURCE)])
    _run([sys.executable, "-m", "venv", "--without-pip", str(place / "venv")])
    python = place / "venv" / "bin" / "python"
    (wheel,) = place.glob("allotment_client-*.whl")
    _run([*pip, "--python", str(python), "install", *offline, str(wheel)])
    home = _run([str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    _copy_required(["httpx", "PyYAML", "shtab"], Path(home))
    return python.with_name("allotment-client")


def _copy_required(names: list[str], home: Path) -> None:
    """Copy distributions and what they require from here: the tests install nothing from the internet."""
    done: set[str] = set()
    while names:
        name = names.pop()
        if name in done:
            continue
        done.add(name)
        found = distribution(name)
        for file in found.files or ():
            if ".." not in file.parts and file.locate().is_file():  # type: ignore[attr-defined]
                target = home / file
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(file.read_binary())
        for requirement in found.requires or ():
            if "extra ==" not in requirement and "python_version <" not in requirement:
                names.append(re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0])


def _run(command: list[str]) -> str:
    done = run_to_end(command, capture_output=True, text=True, within_s=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class Shell:
    """Runs the program as a user of the workspace would."""

    def __init__(self, program: Path, address: str, key: str) -> None:
        self.program, self.key = program, key
        self.environment = {
            "ALLOTMENT_URL": address,
            "ALLOTMENT_KEY": key,
            "ALLOTMENT_WORKSPACE": "team-a",
            "HOME": str(program.parent),
            "PYTHONUNBUFFERED": "1",
        }

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.program), *arguments],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *arguments: str, stdin: str = "") -> tuple[int, str, str]:
        running = self.start(*arguments)
        out, errors = read_to_end(running, stdin, within_s=60)
        assert self.key not in out + errors
        return running.returncode, out, errors


@pytest.fixture
def stage(on_postgres: PostgresServer, program: Path) -> Iterator[tuple[Shell, Cell, Cluster]]:
    cell = clusters.cell()
    cluster, flavor = simulated_cluster(cell, nodes=1, cards=4, speed=100)
    place = tenancy.workspace("team-a")
    quotas.gpu_quota(quotas.quota_node(cell, tenancy.root()), flavor, 0)
    quotas.queue(cell, place, [flavor], cards=4)
    jobs.priority_class()
    key = tenancy.access_key(tenancy.user("ed", place, Role.EDITOR))
    with api_server(on_postgres) as address:
        yield Shell(program, address, key), cell, cluster


HOSTILE = r"""# nightly
name: NAME
roles:
  - name: worker
    command: [sh, -c, 'echo "$HOME" `id` \\ @@@ done']   # as it is
    resources: {cpu: 1, memory: 1Gi}
environment:
  LINES: "a\nEND_OF_JOB"
  PRICE: '$(id) \'
""".replace("@@@", '""' + '"')


@pytest.mark.timeout(150)
def test_the_texts_of_the_console_submit_the_job_as_it_is(stage: tuple[Shell, Cell, Cluster]) -> None:
    shell, _cell, _cluster = stage
    server = urlsplit(shell.environment["ALLOTMENT_URL"])
    request = RequestFactory(HTTP_HOST=server.netloc).get("/")
    environment = {
        "ALLOTMENT_KEY": shell.key,
        "HOME": shell.environment["HOME"],
        "PATH": f"{shell.program.parent}:/usr/bin:/bin",
    }
    found = []
    for key, program in (("cli", "bash"), ("curl", "bash"), ("python", "python")):
        texts = {
            copy.key: copy.text for copy in submit_texts(request, "team-a", HOSTILE.replace("NAME", key))
        }
        done = run_to_end(
            [str(shell.program.with_name(program)), "-"] if program == "python" else [program],
            input=texts[f"copy-{key}"],
            capture_output=True,
            text=True,
            env=environment,
            within_s=60,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert shell.key not in texts[f"copy-{key}"] + done.stdout
        job = Job.unscoped.get(name=key)
        found.append((job.environment, job.roles.get().command))
    expected = {"LINES": "a\nEND_OF_JOB", "PRICE": "$(id) \\"}
    assert found == [(expected, ["sh", "-c", 'echo "$HOME" `id` \\\\ ' + '"' * 3 + " done"])] * 3


def test_a_text_never_ends_within_the_job() -> None:
    for copy in submit_texts(RequestFactory().get("/"), "team-a", "END_OF_JOB\nEND_OF_JOB_\n")[:2]:
        assert copy.text.endswith("\nEND_OF_JOB__\n") and "<<'END_OF_JOB__'" in copy.text


@pytest.mark.timeout(150)
def test_a_job_from_its_file_to_its_end(stage: tuple[Shell, Cell, Cluster]) -> None:
    shell, cell, cluster = stage

    def reached(state: JobState) -> bool:
        step(cell, cluster)
        return Job.unscoped.filter(name="train", state=state).exists()

    assert shell("submit", "-f", "-", "--dry-run", stdin=JOB)[0] == 0
    watching = shell.start("watch", "--after", "0", "--timeout", "60", "-o", "json")
    code, out, _errors = shell("submit", "-f", "-", "--idempotency-key", "once", "-o", "json", stdin=JOB)
    assert code == 0
    again = shell("submit", "-f", "-", "--idempotency-key", "once", "-o", "json", stdin=JOB)
    assert json.loads(again[1])["id"] == json.loads(out)["id"]
    assert Job.unscoped.count() == 1

    code, _out, errors = shell("wait", "train", "--timeout", "0.1")
    assert (code, "queued" in errors) == (5, True)
    assert "PENDING_EVALUATION" in shell("explain", "train")[1]
    waiting = shell.start("wait", "train", "--timeout", "60", "-o", "json")
    wait_until(lambda: reached(JobState.RUNNING), "the job runs", within_s=30)
    assert "running" in shell("list", "--state", "running")[1]
    assert "found 1 GPU" in shell("logs", "train", "--task", "worker-1")[1]
    reserved = [
        row["reserved"] for row in json.loads(shell("quota", "-o", "json")[1])["items"] if row["queue"]
    ]
    assert 2 in reserved
    wait_until(lambda: reached(JobState.SUCCEEDED), "the job has ended", within_s=30)
    out, _errors = read_to_end(waiting, within_s=30)
    assert (waiting.returncode, json.loads(out)["state"]) == (0, "succeeded")

    assert watching.stdout is not None
    seen = []
    while not seen or seen[-1] != "succeeded":
        seen.append(json.loads(watching.stdout.readline())["code"])
    watching.terminate()
    read_to_end(watching, within_s=30)
    assert seen[0] == "submitted"


@pytest.mark.timeout(150)
def test_refusals_name_the_field_and_have_their_own_status(stage: tuple[Shell, Cell, Cluster]) -> None:
    shell = stage[0]
    code, _out, errors = shell("submit", "-f", "-", stdin="roles: [{replicas: many}]\n")
    assert (code, "SPEC_INVALID" in errors, "roles.0.replicas" in errors) == (3, True, True)
    assert shell("get", "nothing")[0] == 3
    assert shell("submit", "-f", "/nowhere/job.yaml")[0] == 2
    assert shell("wait")[0] == 2
    shell.environment["ALLOTMENT_KEY"] = "alt_00000000_wrong"
    code, _out, errors = shell("me")
    assert (code, "alt_00000000_wrong" in errors) == (3, False)


def test_it_prints_its_version_and_what_a_shell_completes(program: Path, tmp_path: Path) -> None:
    """The completion is sourced and asked as bash does, in the folder of a job file."""
    assert re.fullmatch(r"allotment-client \d+\.\d+\.\d+\n", _run([str(program), "--version"]))
    script = tmp_path / "completion"
    script.write_text(_run([str(program), "completion", "bash"]))
    (tmp_path / "job.yaml").touch()

    def completed(*words: str) -> set[str]:
        typed = " ".join(f"'{word}'" for word in ("allotment-client", *words))
        ask = f"""
            source {script}; cd {tmp_path}
            COMP_WORDS=({typed}); COMP_CWORD={len(words)}
            COMP_LINE="${{COMP_WORDS[*]}}"; COMP_POINT=${{#COMP_LINE}}
            function=$(complete -p allotment-client | sed 's/.*-F \\([^ ]*\\).*/\\1/')
            $function allotment-client "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"
            printf '%s\n' "${{COMPREPLY[@]}}"
        """
        return set(_run(["bash", "-c", ask]).split())

    assert completed("su") == {"submit"}
    assert {"logs", "list"} <= completed("l")
    assert "--follow" in completed("logs", "--f")
    assert completed("submit", "-f", "jo") == {"job.yaml"}
    for shell in ("zsh", "tcsh"):
        assert "allotment-client" in _run([str(program), "completion", shell])
