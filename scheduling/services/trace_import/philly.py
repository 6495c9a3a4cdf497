"""Reads a Philly trace, and checks every row before any job is submitted."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from foundation.core.identifiers import dns_label

SUBMIT: Final = "submit_s_since_2017_10_01_est"
WINDOW: Final = "in_helios_window"
JOB_COLUMNS: Final = ("vc", "vc_job_no", SUBMIT, "num_gpu", "duration_s", WINDOW)
TENANT_COLUMNS: Final = ("vc", "gpus")


@dataclass(frozen=True, slots=True)
class Rejected:
    """A row that cannot be used; `line` counts from 1, including the header."""

    file: str
    line: int
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class ImportedJob:
    """One job of the trace: times are whole seconds, `line` is its line in the file."""

    line: int
    name: str
    tenant: str
    submit_s: int
    gpus: int
    duration_s: int


@dataclass(slots=True)
class Trace:
    """The content of a trace file; `rejected` is empty if and only if all rows can be used."""

    jobs: list[ImportedJob] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)


class _TraceRow:
    def __init__(
        self, file: Path, line: int, values: Mapping[str, str | None], rejected: list[Rejected]
    ) -> None:
        self.file, self.line, self.values, self.rejected = file, line, values, rejected
        self.good = True

    def reject_value(self, column: str, message: str) -> None:
        self.good = False
        self.rejected.append(Rejected(str(self.file), self.line, column, message))

    def read_text(self, column: str) -> str:
        value = (self.values.get(column) or "").strip()
        if not value:
            self.reject_value(column, "is empty")
        return value

    def read_whole(self, column: str, least: int | None = None) -> int:
        value = self.read_text(column)
        try:
            number = int(value or "0")
        except ValueError:
            self.reject_value(column, f"{value!r} is not a whole number")
            return 0
        if value and least is not None and number < least:
            self.reject_value(column, f"{number} is below {least}")
        return number


def read_trace(file: Path, tenants: Iterable[str] | None = None, limit: int | None = None) -> Trace:
    """Return the jobs of the published window by time of submission, at most `limit` of them.

    With `tenants`, a job of any other is rejected.
    """
    trace = Trace()
    known = None if tenants is None else set(tenants)
    names: set[str] = set()
    for row in _rows(file, JOB_COLUMNS, trace.rejected):
        if (row.values.get(WINDOW) or "").strip() == "0":
            continue
        job = _job(row, known)
        if job.name in names:
            row.reject_value("vc_job_no", f"{job.name} stands twice")
        names.add(job.name)
        if row.good:
            trace.jobs.append(job)
    trace.jobs.sort(key=lambda job: (job.submit_s, job.line))
    trace.jobs = trace.jobs[:limit]
    return trace


def read_shares(file: Path) -> tuple[dict[str, int], list[Rejected]]:
    """Return the cards that each tenant owns, by name, and the rows that cannot be used."""
    shares: dict[str, int] = {}
    rejected: list[Rejected] = []
    for row in _rows(file, TENANT_COLUMNS, rejected):
        name, gpus = row.read_text("vc"), row.read_whole("gpus", least=1)
        if name in shares:
            row.reject_value("vc", f"{name} stands twice")
        if row.good:
            shares[name] = gpus
    return shares, rejected


def _rows(file: Path, columns: Sequence[str], rejected: list[Rejected]) -> Iterator[_TraceRow]:
    try:
        with file.open(newline="", encoding="utf-8-sig") as stream:
            reader = csv.DictReader(stream)
            missing = [name for name in columns if name not in (reader.fieldnames or ())]
            if missing:
                rejected.append(Rejected(str(file), 1, missing[0], "there is no such column"))
                return
            for values in reader:
                yield _TraceRow(file, reader.line_num, values, rejected)
    except OSError as error:
        rejected.append(Rejected(str(file), 0, "", error.strerror or "cannot be read"))
    except (UnicodeDecodeError, csv.Error) as error:
        rejected.append(Rejected(str(file), 0, "", f"is not a CSV file: {error}"))


def _job(row: _TraceRow, known: set[str] | None) -> ImportedJob:
    tenant = row.read_text("vc")
    if known is not None and tenant and tenant not in known:
        row.reject_value("vc", f"{tenant!r} is not among the tenants")
    return ImportedJob(
        line=row.line,
        name=dns_label(f"{tenant}-{row.read_text('vc_job_no')}"),
        tenant=tenant,
        submit_s=row.read_whole(SUBMIT),
        gpus=row.read_whole("num_gpu", least=1),
        duration_s=row.read_whole("duration_s", least=0),
    )
