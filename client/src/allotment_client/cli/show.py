"""The output of responses: aligned tables for users; JSON for programs, one document or one line each."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

from allotment_client.shapes import Explanation, Job, JobEvent, QuotaRow, Reason


def print_answer(output: str, value: Any, text: Callable[[], str]) -> None:
    """Print one response."""
    print(json.dumps(value, ensure_ascii=False, indent=2) if output == "json" else text(), flush=True)


def show_line(output: str, value: Any, text: str) -> None:
    """Print one of several items, as soon as it arrives."""
    print(
        json.dumps(value, ensure_ascii=False) if output == "json" else strip_control_characters(text),
        flush=True,
    )


def strip_control_characters(text: str) -> str:
    """Remove control characters: a job's output must not control the terminal."""
    return "".join(char if char == "\t" or unicodedata.category(char) != "Cc" else "\ufffd" for char in text)


def format_table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], *, right: frozenset[str] = frozenset()
) -> str:
    """Return columns as wide as their widest cell; those named in `right` are right-aligned."""
    cells = [[strip_control_characters(cell) for cell in row] for row in rows]
    widths = [max(_width(row[index]) for row in [list(heads), *cells]) for index in range(len(heads))]
    lines = []
    for row in [list(heads), *cells]:
        parts = []
        for head, cell, width in zip(heads, row, widths, strict=True):
            gap = " " * (width - _width(cell))
            parts.append(gap + cell if head in right else cell + gap)
        lines.append("  ".join(parts).rstrip())
    return "\n".join(lines)


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text)


def job_table(jobs: Sequence[Job], *, with_workspace: bool = False) -> str:
    """Return a table of jobs, one per line."""
    rows = [
        (
            *([job["workspace"]] if with_workspace else []),
            job["name"],
            job["state"],
            (job.get("reason") or Reason()).get("code", "") or job.get("end_reason", ""),
            str(job["cards"]),
            job["queue"],
            job["priority_class"],
            job["submitted_by"],
            job["submitted_at"][:19].replace("T", " "),
            ", ".join(job.get("tags", ())),
            job["id"],
        )
        for job in jobs
    ]
    heads: tuple[str, ...]
    heads = ("NAME", "STATE", "REASON", "GPUS", "QUEUE", "PRIORITY", "BY", "SUBMITTED (UTC)", "TAGS", "ID")
    heads = ("WORKSPACE", *heads) if with_workspace else heads
    return format_table(heads, rows, right=frozenset({"GPUS"}))


def quota_table(rows: Sequence[QuotaRow]) -> str:
    """Return the quota, one line per queue, flavor and resource; amounts in the unit of the resource."""
    shown = [
        (
            row["queue"] or "(workspace)",
            row["flavor"],
            row["resource"],
            _amount(row["nominal"]),
            str(row["reserved"]),
            str(row["borrowed"]),
            _amount(row["available"]),
        )
        for row in rows
    ]
    heads = ("QUEUE", "FLAVOR", "RESOURCE", "NOMINAL", "RESERVED", "BORROWED", "AVAILABLE")
    return format_table(heads, shown, right=frozenset(heads[3:]))


def _amount(value: int | None) -> str:
    return "unlimited" if value is None else str(value)


def format_explanation(found: Explanation) -> str:
    """Return the state, the reason with its numbers, recommendations, the last eviction, and the place in the
    queue.
    """
    lines = [f"state: {found['state']}"]
    reason = found.get("reason")
    if reason:
        lines.append(f"reason: {reason['code']}{_numbers(reason.get('numbers'))}")
        for item in reason.get("help", ()):
            lines.append(f"recommendation: {item.get('code', '')}{_numbers(item.get('numbers'))}")
    cause = found.get("cause")
    if cause:
        more = {name: value for name, value in cause.items() if name != "rule" and value not in (None, "")}
        lines.append(f"last eviction: {cause.get('rule', '')}{_numbers(more)}")
    position = found.get("position")
    if position:
        ahead, cards = position["position_in_local_queue"], position["cards_ahead"]
        lines.append(f"ahead: {ahead} jobs with {cards} GPUs")
    if found.get("promised_until"):
        lines.append(f"nodes reserved until {found['promised_until']}")
    return "\n".join(lines)


def _numbers(numbers: dict[str, Any] | None) -> str:
    plain = {name: value for name, value in (numbers or {}).items() if not isinstance(value, dict | list)}
    return f" ({', '.join(f'{name} {value}' for name, value in plain.items())})" if plain else ""


def event_line(event: JobEvent) -> str:
    """Return one event on one line."""
    return f"{event['id']}  {event['at'][:19]}  {event['name']}  {event['code']}{_numbers(event['numbers'])}"
