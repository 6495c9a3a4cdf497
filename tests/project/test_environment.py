"""Every variable is typed, and a wrong one is named in one line."""

from __future__ import annotations

import os
import resource
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from allotment.settings import environment as env
from tests.fixtures.programs import run_to_end

NAME = "ALLOTMENT_EXAMPLE"
GOOD = {
    "DJANGO_SETTINGS_MODULE": "allotment.settings.production",
    "ALLOTMENT_SECRET_KEY": "k9" * 20 + "abcdefghijklmnop",
    "ALLOTMENT_DATABASE_URL": "postgres://user:secret@db:5432/allotment",
    "ALLOTMENT_BROKER_URL": "redis://:secret@redis:6379/0",
    "ALLOTMENT_ALLOWED_HOSTS": "gpu.example.com",
}


@pytest.mark.parametrize(("value", "expected"), [("on", True), ("No", False), ("1", True), ("", True)])
def test_switch(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv(NAME, value)
    assert env.read_flag(NAME, default=True) is expected


@pytest.mark.parametrize("value", ["-1", "11", "three", "1.5"])
def test_a_number_out_of_range_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(NAME, value)
    with pytest.raises(env.SettingError, match=f"^{NAME}: is '{value}'; write a whole number from 0 to 10$"):
        env.read_number(NAME, default=1, high=10)


def test_networks_are_read_from_addresses_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, " 10.96.0.1, 10.0.0.0/24 ,fd00:1::/64,")
    assert env.read_networks(NAME) == ["10.96.0.1/32", "10.0.0.0/24", "fd00:1::/64"]
    monkeypatch.delenv(NAME)
    assert env.read_networks(NAME) == []


@pytest.mark.parametrize("value", ["10.0.0.1/24", "db.example.com", "10.0.0", "0.0.0.0/0", "10.0.0.1:5432"])
def test_what_is_no_network_is_refused(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(NAME, value)
    with pytest.raises(env.SettingError, match=f"^{NAME}: '{value}' is "):
        env.read_networks(NAME)


@pytest.mark.parametrize(
    "url", ["mysql://u:hunter2@h/d", "postgres://u:hunter2@h:x/d", "hunter2", "postgres://u:hunter2@h"]
)
def test_a_wrong_database_address_does_not_leak_its_password(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.setenv(NAME, url)
    with pytest.raises(env.SettingError) as caught:
        env.read_database(NAME, default=None)
    assert NAME in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_sqlite_takes_the_write_lock_early(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(NAME, raising=False)
    entry = env.read_database(NAME, default=tmp_path / "with space" / "data.sqlite3")
    assert entry["NAME"] == str(tmp_path / "with space" / "data.sqlite3")
    assert entry["OPTIONS"]["transaction_mode"] == "IMMEDIATE"
    assert "foreign_keys=ON" in entry["OPTIONS"]["init_command"]


def test_secret_key_is_generated_once_and_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ALLOTMENT_SECRET_KEY", raising=False)
    key = env.secret_key(tmp_path)
    assert len(key) >= env.SECRET_KEY_LENGTH
    assert env.secret_key(tmp_path) == key
    assert stat.S_IMODE((tmp_path / "secret-key").stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["secret-key"]


def test_a_secret_key_that_cannot_be_written_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ALLOTMENT_SECRET_KEY", raising=False)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))  # as a full disk: nothing can be written
    try:
        with pytest.raises(env.SettingError, match="can't be used"):
            env.secret_key(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert list(tmp_path.iterdir()) == []


def test_a_secret_key_that_is_there_is_read_without_writing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("ALLOTMENT_SECRET_KEY", raising=False)
    key = env.secret_key(tmp_path)
    monkeypatch.setattr(env, "_write_once", lambda *_: pytest.fail("it writes"))
    assert env.secret_key(tmp_path) == key


def test_a_given_secret_key_must_be_long(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ALLOTMENT_SECRET_KEY", "short")
    with pytest.raises(env.SettingError, match="ALLOTMENT_SECRET_KEY"):
        env.secret_key(tmp_path)


def _run(tmp_path: Path, *command: str, **changes: str | None) -> subprocess.CompletedProcess[str]:
    environment = {**GOOD, "ALLOTMENT_HOME": str(tmp_path / "home"), "PATH": os.environ["PATH"], **changes}
    given = {name: value for name, value in environment.items() if value is not None}
    return run_to_end(
        [sys.executable, *command],
        env=given,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        within_s=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALLOTMENT_SECRET_KEY", None),
        ("ALLOTMENT_SECRET_KEY", "a" * 60),
        ("ALLOTMENT_DATABASE_URL", "sqlite:////tmp/x"),
        ("ALLOTMENT_BROKER_URL", "amqp://host"),
        ("ALLOTMENT_ALLOWED_HOSTS", "*"),
        ("ALLOTMENT_TLS", "maybe"),
        ("ALLOTMENT_LOG_LEVEL", "LOUD"),
    ],
)
@pytest.mark.parametrize("entry", ["cli", "celery"])
def test_a_wrong_variable_costs_one_line_and_status_2(
    tmp_path: Path, entry: str, variable: str, value: str | None
) -> None:
    command = ("-m", "allotment.cli", "check") if entry == "cli" else ("-c", "import allotment.celery")
    result = _run(tmp_path, *command, **{variable: value})
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith(f"allotment: {variable}: ")


def test_an_unknown_settings_module_is_named(tmp_path: Path) -> None:
    result = _run(tmp_path, "-m", "allotment.cli", "check", DJANGO_SETTINGS_MODULE="allotment.settings.prod")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "allotment.settings.prod" in result.stderr


def test_production_passes_the_deployment_check(tmp_path: Path) -> None:
    result = _run(tmp_path, "-m", "allotment.cli", "check", "--deploy", "--fail-level", "WARNING")
    assert result.returncode == 0, result.stderr
