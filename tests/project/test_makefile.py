"""The make targets on a minimal machine: their messages, and that they install nothing twice."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fixtures.programs import run_to_end

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with the Makefile and no virtual environment."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def make(folder: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    return run_to_end(
        [shutil.which("make") or "make", *arguments],
        cwd=folder, env={"PATH": path or os.environ["PATH"]}, capture_output=True, text=True, within_s=60,
    )  # fmt: skip


def bin_with(folder: Path, **programs: str) -> str:
    """A path with the shell's basics and the given scripts, as on a bare machine."""
    programs_folder = folder / "bin"
    programs_folder.mkdir()
    for name in ("sh", "sed", "touch", "echo", "test", "env"):
        (programs_folder / name).symlink_to(shutil.which(name) or "/bin/sh")
    for name, script in programs.items():
        (programs_folder / name.replace("_", ".")).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        (programs_folder / name.replace("_", ".")).chmod(0o755)
    return str(programs_folder)


@pytest.mark.parametrize("target", ["up", "test"])
def test_a_machine_without_a_new_python_gets_one_line(checkout: Path, target: str) -> None:
    result = make(checkout, target, path=bin_with(checkout, python3="exit 1", python3_13="exit 127"))
    assert result.returncode == 2
    complaints = [line for line in result.stderr.splitlines() if not re.match(r"make: \*\*\*", line)]
    assert complaints == ["make: needs Python 3.11 or newer, and none was found; name one with PYTHON="]
    assert not (checkout / ".venv").exists()


def test_a_python_without_venv_gets_the_package(checkout: Path) -> None:
    script = 'case "$2" in *ensurepip*) exit 1;; esac; exit 0'
    result = make(checkout, "up", path=bin_with(checkout, python3_12=script))
    assert result.returncode == 2
    assert "python3.12 lacks the venv module; on Debian and Ubuntu: apt install python3-venv" in result.stderr


def test_a_broken_shim_is_passed_over(checkout: Path) -> None:
    path = bin_with(checkout, python3_13="exit 127", python3_12="exit 0", python3="exit 0")
    result = make(checkout, "-n", "up", path=path)
    assert 'python="python3.12";' in result.stdout


def test_a_second_start_installs_nothing(checkout: Path) -> None:
    first = make(checkout, "-n", "up")
    assert "pip install" in first.stdout
    (checkout / ".venv" / "bin").mkdir(parents=True)
    for stamp in ("bin/python", ".pip", ".server"):
        (checkout / ".venv" / stamp).touch()
    second = make(checkout, "-n", "up")
    assert second.stdout == "exec .venv/bin/allotment up\n"


def test_changed_dependencies_are_installed_again(checkout: Path) -> None:
    (checkout / ".venv" / "bin").mkdir(parents=True)
    for stamp in ("bin/python", ".pip", ".server"):
        (checkout / ".venv" / stamp).touch()
    later = (checkout / ".venv" / ".server").stat().st_mtime + 5
    os.utime(checkout / "pyproject.toml", (later, later))
    assert "pip install" in make(checkout, "-n", "up").stdout


def test_help_names_the_targets(checkout: Path) -> None:
    result = make(checkout)
    assert result.returncode == 0
    assert all(f"make {target}" in result.stdout for target in ("up", "test", "lint", "bench"))


def test_no_index_or_lock_file_is_named() -> None:
    files = [ROOT / name for name in ("Makefile", ".ci/run", "pyproject.toml", "deploy/Dockerfile")]
    for file in files:
        assert not re.search(r"index-url|--index|find-links|\.lock\b", file.read_text(encoding="utf-8")), file


def test_the_ci_script_is_executable_shell() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert subprocess.run(["bash", "-n", str(script)], check=False).returncode == 0
