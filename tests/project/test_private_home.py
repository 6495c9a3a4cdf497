"""The home of an embedded installation is its owner's alone, that of an earlier version as well."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from allotment.processes.private_home import make_home_private
from allotment.settings import environment
from allotment.supervisor import preflight

FILES: Final = (
    "secret-key",
    "first-sign-in.json",
    "allotment.sqlite3",
    "allotment.sqlite3-wal",
    "allotment.sqlite3-shm",
    "beat-schedule",
    "beat-schedule.dat",
    "supervisor.lock",
    "logs/web.log",
    "broker/appendonlydir/appendonly.aof.1.base.rdb",
    "broker/dump.rdb",
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A home as an earlier version left it, opened to a group of backups since."""
    home = tmp_path / "home"
    for name in FILES:
        file = home / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("secret")
        file.chmod(0o644)
    for folder in (home, home / "logs", home / "broker", home / "broker" / "appendonlydir"):
        folder.chmod(0o755)
    return home


@pytest.mark.parametrize("by", [make_home_private, environment.writable_home, preflight.check_home])
def test_an_existing_home_is_closed_to_others(old: Path, by: object) -> None:
    by(old)  # type: ignore[operator]
    assert {name: mode(old / name) for name in FILES} == dict.fromkeys(FILES, 0o600)
    assert {path.name for path in [old, *old.rglob("*")] if path.is_dir() and mode(path) != 0o700} == set()


def test_a_folder_that_others_use_keeps_its_mode_and_the_files_in_it_are_closed(
    old: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old.chmod(0o1777)
    make_home_private(old)
    assert (mode(old), mode(old / "allotment.sqlite3")) == (0o1777, 0o600)
    old.chmod(0o755)
    monkeypatch.setenv("HOME", str(old))
    make_home_private(old)
    assert mode(old) == 0o755


def test_a_folder_with_other_things_in_it_keeps_its_mode(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("mine")
    tmp_path.chmod(0o755)
    (tmp_path / "thesis.tex").chmod(0o644)
    make_home_private(tmp_path)
    assert (mode(tmp_path), mode(tmp_path / "thesis.tex")) == (0o755, 0o644)


def test_a_link_in_the_home_changes_nothing_outside(old: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o755)
    (outside / "file").write_text("")
    (outside / "file").chmod(0o644)
    (old / "logs" / "link").symlink_to(outside / "file")
    (old / "run").symlink_to(outside)
    make_home_private(old)
    assert (mode(outside), mode(outside / "file")) == (0o755, 0o644)


def test_what_the_platform_creates_is_its_owners_alone(tmp_path: Path) -> None:
    """The database with its journal, under an open mask, by a command that is typed by hand."""
    home = tmp_path / "home"
    variables = {
        **os.environ,
        "ALLOTMENT_HOME": str(home),
        "DJANGO_SETTINGS_MODULE": "allotment.settings.embedded",
    }
    variables.pop("ALLOTMENT_BROKER_URL", None)
    code = (
        "import os; os.umask(0o022); import django; django.setup()\n"
        "from django.db import connection\n"
        "connection.cursor().execute('CREATE TABLE t (n int)'); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code], env=variables, check=True)
    made = {path.name: mode(path) for path in home.iterdir()}
    assert {"allotment.sqlite3", "allotment.sqlite3-wal"} <= set(made)
    assert set(made.values()) == {0o600}
    assert mode(home) == 0o700
