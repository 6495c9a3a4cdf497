"""The pages from compose, and from a cluster, to the first job: every command of them is run.

There is no container engine here. `docker` is a program that knows the two commands of the pages: to start
the services, which the test has done with the compose file's own commands and environment, and to run the
command line as its service would. Addresses and folders are replaced, nothing else.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from benchmarks.support import control_plane
from benchmarks.support.control_plane import ControlPlane, find_programs, running_nodes
from benchmarks.support.ports import free_port
from benchmarks.support.postgres import MissingProgram, PostgresServer
from tests.fixtures.compose import ROOT, VARIABLES, Installation, fresh_installation
from tests.fixtures.kubelet import Cluster
from tests.fixtures.need import need
from tests.fixtures.programs import run_to_end
from tests.fixtures.valkey import ValkeyServer
from tests.fixtures.wait import wait_until

pytestmark = [pytest.mark.server, pytest.mark.timeout(300)]
PAGES = ("first-job-compose.md", "first-job-cluster.md")
SIZE = {"cpu": "96", "memory": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100", "nvidia.com/gpu.memory": "81559"}
DOCKER = """\
#!/bin/bash
set -eu
case "$*" in
  "compose up --build --detach")
    for name in %(variables)s; do : "${!name:?}"; done ;;
  "compose run --rm -T allotment "*) shift 5; cd "$FOLDER"; exec env - %(environment)s allotment "$@" ;;
  *) echo "docker $*: the test does not know this command" >&2; exit 64 ;;
esac
"""


def commands(page: str) -> list[str]:
    """The shell blocks of a page, in their order."""
    found = re.findall(r"^```sh\n(.*?)^```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.M | re.S)
    assert found
    return found


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A cluster of its own, with two nodes of eight cards: its rights are given by the page."""
    try:
        with control_plane.running_control_plane() as plane, running_nodes(plane):
            cluster = Cluster(plane)
            for name in ("gpu-1", "gpu-2"):
                body = {
                    "metadata": {"name": name, "labels": H100},
                    "status": {"capacity": SIZE, "allocatable": SIZE},
                }
                cluster.call("POST", "/api/v1/nodes", body)
            wait_until(lambda: _ready(cluster) == 2, "both nodes are ready", within_s=40)
            yield plane
    except MissingProgram as missing:
        need(missing.name, missing.hint)


def _ready(cluster: Cluster) -> int:
    return sum(not node["spec"].get("taints") for node in cluster.items("/api/v1/nodes"))


@pytest.fixture
def installation(tmp_path: Path, compose_server: PostgresServer, valkey: ValkeyServer) -> Installation:
    installation = fresh_installation(tmp_path, compose_server, valkey.url)
    collect = ["allotment", "collectstatic", "--no-input", "--verbosity", "0"]  # as the image does
    assert installation.run("web", collect).returncode == 0
    return installation


def _programs(folder: Path, installation: Installation) -> str:
    """A folder for the PATH with `docker` and the cluster's own `kubectl`."""
    place = folder / "bin"
    place.mkdir()
    environment = installation.environment("allotment")
    words = " ".join(f"'{name}={value}'" for name, value in environment.items())
    (place / "docker").write_text(DOCKER % {"environment": words, "variables": " ".join(VARIABLES)})
    (place / "docker").chmod(0o755)
    programs = find_programs()
    assert programs is not None
    (place / "kubectl").symlink_to(programs / "kubectl")
    return f"{place}:{os.environ['PATH']}"


def test_every_command_of_the_pages_leads_to_a_job_that_runs(
    plane: ControlPlane, installation: Installation, tmp_path: Path
) -> None:
    port = free_port()
    page_folder = tmp_path / "checkout"
    page_folder.mkdir()
    (page_folder / "deploy").symlink_to(ROOT / "deploy")
    (page_folder / "kubeconfigs").mkdir()
    blocks = [block for page in PAGES for block in commands(page)]
    script = "set -euxo pipefail\n" + "\n".join(blocks) + '\nprintf %s "$KEY" > key\n'
    for here, there in (
        ("http://127.0.0.1:8080", f"http://127.0.0.1:{port}"),
        ("/etc/allotment/", f"{page_folder}/kubeconfigs/"),
    ):
        assert here in script
        script = script.replace(here, there)
    environment = {
        "PATH": _programs(tmp_path, installation),
        "HOME": str(tmp_path),
        "KUBECONFIG": str(plane.write_kubeconfig()),
        "FOLDER": str(tmp_path),
    }
    web = {"0.0.0.0": "127.0.0.1", "8080": str(port)}
    with ExitStack() as stack:
        for name in ("worker", "cycles", "beat", "relay"):
            stack.enter_context(installation.started(name))
        stack.enter_context(installation.started("web", **web))
        wait_until(lambda: _answers(port), "the web process answers", within_s=60)
        done = run_to_end(
            ["bash", "-c", script],
            cwd=page_folder,
            env=environment,
            capture_output=True,
            text=True,
            within_s=150,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        _first_password_signs_in(done.stdout, port)
        _job_runs(plane, port, (page_folder / "key").read_text())


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/livez", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def _first_password_signs_in(output: str, port: int) -> None:
    """The password that `init` showed opens the console."""
    found = re.search(r"one-time password: (\S+) \(shown once", output)
    assert found is not None, output
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as client:
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', client.get("/login").text)
        assert token is not None
        form = {"username": "admin", "password": found[1], "csrfmiddlewaretoken": token[1]}
        answer = client.post("/login", data=form)
        assert answer.status_code == 302, answer.text[:2000]


def _job_runs(plane: ControlPlane, port: int, key: str) -> None:
    job = f"http://127.0.0.1:{port}/api/v1/workspaces/research/jobs/hello"

    def runs() -> bool:
        answer = httpx.get(job, headers={"Authorization": f"Bearer {key}"}, timeout=20)
        assert answer.status_code == 200, answer.text
        found = json.loads(answer.text)
        return found["state"] in ("running", "succeeded")

    wait_until(runs, "the first job runs", within_s=60, every_s=0.5)
    (pod,) = Cluster(plane).items("/api/v1/namespaces/research/pods")
    assert pod["spec"]["nodeName"] in ("gpu-1", "gpu-2")
    assert pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"] == "1"


@pytest.mark.parametrize("page", PAGES)
def test_every_block_of_the_pages_is_a_command_that_is_run(page: str) -> None:
    """A block of another kind would not be noticed when it is wrong."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert set(re.findall(r"^```(\w*)$", text, re.M)) == {"sh", ""}
