"""The holders of what a pending job lacks, against sums over rows; quota that adds up in sentences."""

from __future__ import annotations

import re
from typing import Final

from clusters.models import Device
from foundation.core.quantities import Resource
from foundation.core.reasons import Reason
from scheduling.models import Job
from tenants.models import Tenant, User
from tests.truth.pages.console import Console
from tests.truth.pages.reading import Line, number_of

_AMOUNT: Final = r"(?P<%s>unlimited|[\d.,]+)(?: GPUs?)?"
_SENTENCE: Final = re.compile(
    f"{_AMOUNT % 'used'} of {_AMOUNT % 'nominal'} nominal used"
    f"(?:, {_AMOUNT % 'lent'} (?:lent to|used by) other queues(?: and reclaimable)?)?; "
    f"available: {_AMOUNT % 'own'} nominal \\+ {_AMOUNT % 'more'} to borrow = {_AMOUNT % 'available'}"
)
_SHORT: Final = (Reason.WAITING_FOR_QUOTA, Reason.WAITING_FOR_BORROWED)


def check_held_by(console: Console) -> None:
    """Each pending job that lacks GPUs or quota, for a user of its workspace and for the platform admin."""
    for job in console.ledger.jobs:
        named = job.reason_numbers.get("resource") == Resource.GPU_CORES
        if job.state == "queued" and (job.reason == Reason.NO_ROOM or (named and job.reason in _SHORT)):
            _check(console, job, console.made.people[job.workspace][0], [job.workspace])
            _check(console, job, console.made.operator, console.made.workspaces)


def _check(console: Console, job: Job, reader: User, seen: list[Tenant]) -> None:
    ledger, made = console.ledger, console.made
    page = console.open(reader, f"/w/{job.workspace.slug}/jobs/{job.pk}")
    pool = next(one for one in made.pools if f"{one.name}: " in page.text().partition("Held by")[2])
    assert pool.name == job.reason_numbers.get("flavor", pool.name)
    lines = {line.name: line for line in page.lines("Holder", "Held")}
    jobs = {one.name for one in ledger.jobs_of(job.workspace)} | {"Other jobs"}
    shown = {name: line for name, line in lines.items() if name not in jobs}
    held = {one: ledger.reserved(one, pool) for one in made.workspaces}
    for tenant in seen:
        if held[tenant]:
            _compare(shown[tenant.name], held[tenant], ledger.borrowed(tenant, pool))
        else:
            assert tenant.name not in shown, tenant.name
    others = [one for one in made.workspaces if one not in seen]
    if sum(held[one] for one in others):
        borrowed = sum(ledger.borrowed(one, pool) for one in others)
        _compare(shown["Other tenants"], sum(held[one] for one in others), borrowed)
    own = sum(_gpus(lines[name]) for name in lines.keys() & jobs)
    assert abs(100 * own - held[job.workspace]) < 1, (job.name, "jobs do not add up to their workspace")
    total = 100 * Device.unscoped.filter(node__flavor=pool).count()
    assert abs(100 * sum(map(_gpus, shown.values())) - total) < 1, (job.name, shown, total)


def check_quota_sentences(console: Console) -> None:
    """In each sentence about the quota of a queue: nominal = used of it + lent + available of it."""
    for job in console.ledger.jobs:
        if job.state == "queued":
            text = console.open(console.made.operator, f"/w/{job.workspace.slug}/jobs/{job.pk}").text()
            for sentence in _SENTENCE.finditer(text):
                _check_sum(job, sentence)


def _check_sum(job: Job, sentence: re.Match[str]) -> None:
    used, nominal, own, more, available = (
        _amount(sentence[name]) for name in ("used", "nominal", "own", "more", "available")
    )
    lent = _amount(sentence["lent"]) if sentence["lent"] else 0.0
    if nominal is not None and used is not None and own is not None and lent is not None:
        assert abs(min(used, nominal) + lent + own - nominal) < 0.02, (job.name, sentence[0])
    if own is not None and more is not None and available is not None:
        assert abs(own + more - available) < 0.02, (job.name, sentence[0])


def _amount(text: str) -> float | None:
    return None if text == "unlimited" else number_of(text)


def _compare(line: Line, held: int, borrowed: int) -> None:
    assert abs(100 * _gpus(line) - held) < 1, (line, held)
    assert abs(100 * (line.number("Borrowed") or 0.0) - borrowed) < 1, (line, borrowed)
    assert abs(100 * (line.number("Within nominal") or 0.0) - (held - borrowed)) < 1, (line, held, borrowed)


def _gpus(line: Line) -> float:
    return number_of(line.cells["Held"]) or 0.0
