"""The command line: what works without Django, and its errors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHMARKS
from tests.fixtures.programs import run_to_end

# None in sys.modules is how Python itself marks a module that must not be found.
WITHOUT_DJANGO = """
import sys
for name in ("django", "celery", "environ", "structlog", "kombu", "rest_framework"):
    sys.modules[name] = None
from allotment.cli import main
main(sys.argv[1:])
"""


def run(tmp_path: Path, *arguments: str, django: bool = True) -> subprocess.CompletedProcess[str]:
    python = ["-m", "allotment.cli"] if django else ["-c", WITHOUT_DJANGO]
    return run_to_end(
        [sys.executable, *python, *arguments],
        env={"PATH": os.environ["PATH"], "ALLOTMENT_HOME": str(tmp_path / "home"), "COLUMNS": "100"},
        capture_output=True, text=True, within_s=60, cwd=tmp_path,
    )  # fmt: skip


@pytest.mark.parametrize("name", ["pack", "replay", "conformance", "agent"])
def test_offline_commands_work_without_django(tmp_path: Path, name: str) -> None:
    result = run(tmp_path, name, "--help", django=False)
    assert result.returncode == 0, result.stderr
    assert f"allotment {name}" in result.stdout
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("name", ["up", "migrate", "doctor"])
def test_without_the_server_one_line_says_what_to_install(tmp_path: Path, name: str) -> None:
    result = run(tmp_path, name, django=False)
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "pip install 'allotment[server]'" in result.stderr


def test_the_overview_without_the_server_lists_what_works(tmp_path: Path) -> None:
    result = run(tmp_path, "--help", django=False)
    assert result.returncode == 0
    assert "pack" in result.stdout
    assert "allotment[server]" in result.stdout


def test_the_overview_has_a_line_for_each_command(tmp_path: Path) -> None:
    result = run(tmp_path, "--help")
    assert result.returncode == 0, result.stderr
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines() if line.startswith("  ")]
    assert all(len(line) == 2 for line in lines), "a command without a help text"
    assert {"up", "doctor", "relay", "pack", "replay", "migrate"} <= {line[0] for line in lines}


def test_the_agent_says_what_it_lacks_outside_of_a_cluster(tmp_path: Path) -> None:
    result = run(tmp_path, "agent", django=False)
    assert (result.returncode, result.stderr) == (
        2,
        "--node is missing, and this is no pod of a cluster that would tell it\n",
    )
    told = ("agent", "--node", "n1", "--server", "https://127.0.0.1:1", "--token-file", "none")
    assert run(tmp_path, *told, django=False).stderr == "file none not found\n"


def test_an_unknown_command_costs_one_line(tmp_path: Path) -> None:
    result = run(tmp_path, "docter")
    assert result.returncode == 2
    assert result.stderr == (
        "allotment: unknown command 'docter'; did you mean doctor? see allotment --help\n"
    )


@pytest.mark.parametrize(
    ("name", "option"),
    [
        ("agent-overhead", "--json"),
        ("api", "--keep"),
        ("commands", "--json"),
        ("engine-cycle", "--json"),
        ("interactive", "--keep"),
        ("kube", "--share"),
        ("lists", "--keep"),
        ("packing", "--trace"),
        ("packing-quality", "--seeds"),
        ("pipeline", "--shape"),
        ("replay", "--json"),
        ("start-prediction", "--every"),
        ("telemetry", "--json"),
        ("usage", "--json"),
    ],
)
def test_bench_knows_each_benchmark_and_its_options(tmp_path: Path, name: str, option: str) -> None:
    result = run(tmp_path, "bench", name, "--help")
    assert (result.returncode, result.stderr) == (0, "")
    assert f"allotment bench {name}" in result.stdout
    assert option in result.stdout


def test_every_benchmark_is_tried_above() -> None:
    tried = test_bench_knows_each_benchmark_and_its_options.pytestmark[0].args[1]
    assert {name for name, _ in tried} == set(BENCHMARKS)


def test_bench_refuses_what_it_does_not_know(tmp_path: Path) -> None:
    result = run(tmp_path, "bench", "speed")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "pipeline" in result.stderr
    assert run(tmp_path, "bench", "replay", "--fast").returncode == 2


# A command that lists rows must not load what only cycles, pages and clusters need.
HEAVY = ("numpy", "plotly", "redis", "frontend.urls", "rest_framework.views", "drf_spectacular.views",
         "kubernetes", "scheduling.engine.cycle", "scheduling.execution.execute", "telemetry.series",
         "telemetry.sources.collect")  # fmt: skip
LOADED = f"""
import atexit, sys
atexit.register(lambda: print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr))
from allotment.cli import main
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    "command", ["cluster list", "quota export", "--help", "access-key create --user nobody"]
)
def test_a_command_loads_only_what_it_needs(tmp_path: Path, command: str) -> None:
    environment = {"PATH": os.environ["PATH"], "ALLOTMENT_HOME": str(tmp_path / "home")}
    result = run_to_end(
        [sys.executable, "-c", LOADED, *command.split()],
        env=environment, capture_output=True, text=True, within_s=60, cwd=tmp_path,
    )  # fmt: skip
    assert result.stderr.splitlines()[-1] == "[]"


def test_bad_usage_of_up_is_status_2(tmp_path: Path) -> None:
    assert run(tmp_path, "up", "--port", "1").returncode == 2
