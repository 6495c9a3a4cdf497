"""The command that runs exported case tables: its counts, its output and its exit status."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from scheduling.conformance import conformance, registry
from scheduling.conformance.cli import add_conformance_arguments, conformance_command
from scheduling.conformance.errors import BadCase, Skipped


def check(case: dict[str, Any]) -> str | None:
    """A table of one question: whether the input is even."""
    number = case["input"]["number"]
    if number == 13:
        raise Skipped("unlucky")
    if number < 0:
        raise RuntimeError("below zero")
    return None if number % 2 == 0 else f"expected even, got {number}"


@pytest.fixture(autouse=True)
def one_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conformance, "all_tables", lambda: {"TestEven": check})


def write(path: Path, *numbers: int) -> Path:
    cases = [{"name": f"case {n}", "input": {"number": n}, "expected": {}} for n in numbers]
    path.write_text(json.dumps({"cases": cases}))
    return path


def run(*arguments: object) -> int:
    parser = argparse.ArgumentParser()
    add_conformance_arguments(parser)
    return conformance_command(parser.parse_args([str(argument) for argument in arguments]))


def test_each_case_is_counted_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(tmp_path / "TestEven.json", 2, 3, 13, -1, 4)
    assert run(file, "--json", "-") == 1
    (report,) = json.loads(capsys.readouterr().out)["files"]
    assert (report["file"], report["cases"], report["passed"]) == (str(file), 5, 2)
    assert report["failed"] == [
        {"name": "case 3", "expected": "even", "got": "3"},
        {"name": "case -1", "expected": "an outcome", "got": "RuntimeError: below zero"},
    ]
    assert report["skipped"] == [{"name": "case 13", "why": "unlucky"}]


def test_all_passing_ends_with_zero_and_prints_a_line_per_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(write(tmp_path / "TestEven.json", 2, 4)) == 0
    assert "TestEven" in capsys.readouterr().out


def test_a_file_without_cases_is_ignored_and_an_unknown_one_is_skipped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    switches = tmp_path / "switches.json"
    switches.write_text('{"Gate": true}')
    assert run(switches, write(tmp_path / "TestOther.json", 1), "--json", "-") == 0
    (report,) = json.loads(capsys.readouterr().out)["files"]
    assert report["skipped"] == [{"name": "case 1", "why": "no adapter reads TestOther"}]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON"),
        ('{"cases": 3}', "cases: is not a list"),
        ('{"cases": [{"name": "a", "input": {}}]}', "case 1: expected: is missing"),
        ('{"cases": [7]}', "case 1: name: is missing"),
        ('{"switch": 1}', "none of the files holds cases"),
    ],
)
def test_bad_files_get_one_line_and_status_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str, message: str
) -> None:
    file = tmp_path / "TestEven.json"
    file.write_text(content)
    assert run(file) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadCase, match="nowhere"):
        conformance.read_cases(tmp_path / "nowhere.json")


def test_no_two_adapters_offer_the_same_table() -> None:
    registry.all_tables.cache_clear()
    assert "TestAvailable" in registry.all_tables()
