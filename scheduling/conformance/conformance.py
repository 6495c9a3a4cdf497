"""Runs exported case tables of other schedulers with the engine and reports which cases pass."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from scheduling.conformance.errors import BadCase, Skipped
from scheduling.conformance.registry import Check, all_tables

_DIFFERENCE: Final = re.compile(r"expected (?P<expected>.*), got (?P<got>.*)", re.DOTALL)

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class CaseFailure:
    """A case whose outcome differs from the expected one."""

    name: str
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class Skip:
    """A case that was not run, with the reason."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class FileReport:
    """The results of one file: the numbers of all and of passed cases, and the other cases by name."""

    file: str
    cases: int
    passed: int
    failed: tuple[CaseFailure, ...]
    skipped: tuple[Skip, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the fixed keys of the command's JSON."""
        return {
            "file": self.file,
            "cases": self.cases,
            "passed": self.passed,
            "failed": [{"name": f.name, "expected": f.expected, "got": f.got} for f in self.failed],
            "skipped": [{"name": s.name, "why": s.why} for s in self.skipped],
        }


@dataclass(frozen=True, slots=True)
class CaseFile:
    """The content of a file of cases."""

    path: Path
    cases: tuple[Mapping[str, Any], ...]


def read_cases(path: Path) -> CaseFile | None:
    """Return the cases of a file; None for a file without cases, such as a table of switches.

    Raises:
        BadCase: when the file cannot be read, or a case lacks a required key.
    """
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise BadCase(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadCase(f"{path}: is not JSON: {error}") from error
    if not isinstance(content, dict) or "cases" not in content:
        return None
    cases = content["cases"]
    if not isinstance(cases, list):
        raise BadCase(f"{path}: cases: is not a list")
    for number, case in enumerate(cases, start=1):
        for field, kind in (("name", str), ("input", dict), ("expected", dict)):
            if not isinstance(case, dict) or not isinstance(case.get(field), kind):
                raise BadCase(f"{path}: case {number}: {field}: is missing or of another kind")
    return CaseFile(path, tuple(cases))


def run_files(files: Sequence[CaseFile], progress: Progress) -> list[FileReport]:
    """Run all cases, file by file."""
    total, done = sum(len(file.cases) for file in files), 0
    reports = []
    for file in files:
        reports.append(run_file(file))
        done += len(file.cases)
        progress(done, total)
    return reports


def run_file(file: CaseFile) -> FileReport:
    """Run the cases of one file with the check of the table that the file is named after."""
    check = all_tables().get(file.path.stem)
    failed: list[CaseFailure] = []
    skipped: list[Skip] = []
    passed = 0
    for case in file.cases:
        outcome = (
            Skip(case["name"], f"no adapter reads {file.path.stem}") if check is None else _run(check, case)
        )
        match outcome:
            case CaseFailure():
                failed.append(outcome)
            case Skip():
                skipped.append(outcome)
            case None:
                passed += 1
    return FileReport(str(file.path), len(file.cases), passed, tuple(failed), tuple(skipped))


def _run(check: Check, case: Mapping[str, Any]) -> CaseFailure | Skip | None:
    try:
        line = check(case)
    except Skipped as skip:
        return Skip(case["name"], skip.why)
    except Exception as error:  # a case that breaks the engine is a finding, not the end of the run
        return CaseFailure(case["name"], "an outcome", f"{type(error).__name__}: {error}")
    if line is None:
        return None
    parts = _DIFFERENCE.fullmatch(line)
    if parts is None:
        return CaseFailure(case["name"], "no difference", line)
    return CaseFailure(case["name"], parts["expected"], parts["got"])
