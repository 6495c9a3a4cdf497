"""The attempts of a job, and the differences between two of them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import yaml
from django.http import HttpRequest

from foundation.core.actor import Actor
from foundation.core.numbers import read_whole
from frontend.texts import formats, labels
from scheduling.models import Allocation, Attempt, DeviceSlice, Job
from scheduling.selectors.jobs.attempt import AttemptRow, attempt_rows, job_attempts

_CONTEXT_LINES: Final = 8
"""The lines of context around a difference: as many as a task has, so that the task's name is among them."""


class _Indices(list[int]):
    """Indices of GPUs, which are written on one line."""


class _Dumper(yaml.SafeDumper):
    """The YAML dumper of attempts; writes plain values."""


_Dumper.add_representer(
    _Indices, lambda dumper, value: dumper.represent_sequence("tag:yaml.org,2002:seq", value, flow_style=True)
)


@dataclass(frozen=True, slots=True)
class AttemptLine:
    """One attempt in the table."""

    number: int
    admitted_at: datetime
    ran: object
    waited_to_start: object
    end: str
    is_live: bool


@dataclass(frozen=True, slots=True)
class DiffLine:
    """One line of a comparison; `kind` is added, removed, same or gap."""

    kind: str
    text: str

    @property
    def diff_sign(self) -> str:
        return {"added": "+", "removed": "−"}.get(self.kind, " ")


def describe_attempts(viewer: Actor, job: Job, request: HttpRequest, now: datetime) -> dict[str, Any]:
    """Return the attempts of a job, the two that the address compares, and their differences."""
    attempts = job_attempts(viewer=viewer, job=job)
    numbers = [attempt.number for attempt in attempts]
    left, right = _chosen(request, numbers)
    found: dict[str, Any] = {
        "attempt_lines": [_line(attempt, now) for attempt in attempts],
        "attempt_numbers": numbers,
        "compared": (left, right),
    }
    if left is not None and right is not None:
        rows = attempt_rows(viewer=viewer, job=job, numbers={left, right})
        found["diff"] = compare_texts(attempt_text(rows[left]), attempt_text(rows[right]))
    return found


def _chosen(request: HttpRequest, numbers: Sequence[int]) -> tuple[int | None, int | None]:
    """Return the numbers that the address names; the last two if it names none."""
    if len(numbers) < 2:
        return None, None
    asked = [read_whole(request.GET.get(name, ""), most=10**8) for name in ("from", "to")]
    left, right = (number if number in numbers else None for number in asked)
    return numbers[1] if left is None else left, numbers[0] if right is None else right


def _line(attempt: Attempt, now: datetime) -> AttemptLine:
    begin, end = attempt.started_at, attempt.ended_at
    return AttemptLine(
        number=attempt.number,
        admitted_at=attempt.admitted_at,
        ran=(end or now) - begin if begin else None,
        waited_to_start=begin - attempt.admitted_at if begin else None,
        end=labels.rule_word(attempt.end_reason) if attempt.end_reason else formats.MISSING,
        is_live=end is None,
    )


def attempt_text(row: AttemptRow) -> str:
    """Return the allocation of an attempt as YAML, a mapping for each task."""
    tasks = {
        f"{allocation.task.role.name}-{allocation.task.index}": _allocated(
            allocation, row.slices.get(allocation, ())
        )
        for allocation in row.allocations
    }
    return yaml.dump({"tasks": tasks}, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


def _allocated(allocation: Allocation, parts: Sequence[DeviceSlice]) -> dict[str, Any]:
    cores = allocation.cpu_millicores / 1000
    found: dict[str, Any] = {
        "cluster": allocation.node.cluster.name,
        "node": allocation.node.name,
        "pool": allocation.flavor.name,
        "cpu": int(cores) if cores == int(cores) else cores,
        "memory": f"{allocation.memory_mib}Mi",
    }
    if parts:
        found["gpus"] = _Indices(part.device.index for part in parts)
    if parts and not parts[0].exclusive:
        found |= {"gpu_cores": parts[0].cores, "gpu_memory": f"{parts[0].memory_mib}Mi"}
    return found


def compare_texts(left: str, right: str) -> list[DiffLine]:
    """Return the lines that differ, with a few around them; nothing where the texts are equal."""
    kinds = {"+": "added", "-": "removed", " ": "same"}
    found: list[DiffLine] = []
    for line in difflib.unified_diff(left.splitlines(), right.splitlines(), lineterm="", n=_CONTEXT_LINES):
        if line.startswith(("---", "+++")):
            continue
        if line.startswith("@@"):
            if found:
                found.append(DiffLine("gap", "…"))
            continue
        found.append(DiffLine(kinds[line[0]], line[1:]))
    return found
