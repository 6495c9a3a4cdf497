"""Why a job waits, as the gates it has to pass.

The engine names the first gate that holds a job up. Gates before it are passed; the one it names
carries the engine's sentence; those after it were not looked at, and say so. The quota gate always
shows its numbers, because that is what people come to see.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.quantities import Resource
from frontend import formats, navigation, parts, reasons
from quotas.selectors.quota import QuotaRow, workspace_quota
from scheduling.models import GpuRequestMode, Job
from tenants.models import User


@dataclass(frozen=True, slots=True)
class _Gate:
    """A gate, the codes by which it holds a job up, and what is said when it is passed."""

    key: str
    title: str | Promise
    codes: tuple[str, ...]
    passed: str | Promise


_GATES: Final = (
    _Gate(
        "fit",
        gettext_lazy("Could ever fit"),
        ("NEVER_FITS",),
        gettext_lazy("the nodes could hold it, were they empty"),
    ),
    _Gate(
        "policy",
        gettext_lazy("Policy and priority"),
        ("POLICY_DENIED",),
        gettext_lazy("within the workspace's rules"),
    ),
    _Gate(
        "open",
        gettext_lazy("Free to start"),
        ("QUEUE_STOPPED", "SUSPENDED", "BACKOFF"),
        gettext_lazy("the queue is open and nobody holds the job back"),
    ),
    _Gate(
        "turn",
        gettext_lazy("Its turn"),
        ("BEHIND_HEAD", "IN_LINE"),
        gettext_lazy("the engine has looked at it"),
    ),
    _Gate(
        "quota",
        gettext_lazy("Own quota"),
        ("EXCEEDS_MAX_QUOTA", "WAITING_FOR_QUOTA"),
        gettext_lazy("enough is free"),
    ),
    _Gate(
        "cohort",
        gettext_lazy("Borrowing"),
        ("WAITING_FOR_BORROWED",),
        gettext_lazy("not needed, or possible"),
    ),
    _Gate(
        "room",
        gettext_lazy("Room on the nodes"),
        ("NO_ROOM", "RESERVED_FOR_LARGER"),
        gettext_lazy("there are nodes with room"),
    ),
    _Gate(
        "preemption",
        gettext_lazy("Preemption"),
        ("WAITING_FOR_PREEMPTED", "PROTECTED"),
        gettext_lazy("nobody has to leave for it"),
    ),
)


def checks(viewer: User, job: Job) -> Sequence[parts.Check]:
    """The gates of a waiting job, in the order in which they are looked at."""
    names = [gate.key for gate in _GATES]
    held = next((names.index(gate.key) for gate in _GATES if job.reason in gate.codes), None)
    quota = _quota_lines(viewer, job)
    return [_check(job, gate, place, held, quota) for place, gate in enumerate(_GATES)]


def _check(job: Job, gate: _Gate, place: int, held: int | None, quota: str) -> parts.Check:
    if gate.key == "quota":
        title = _("Quota of %(queue)s") % {"queue": job.queue.name}
    elif gate.key == "cohort" and job.workspace.parent:
        title = _("Borrowing in %(folder)s") % {"folder": job.workspace.parent.name}
    else:
        title = str(gate.title)
    if held is None:
        return parts.Check(
            title=title, text=quota if gate.key == "quota" else _("not looked at yet"), passed=None
        )
    if place == held:
        sentence = reasons.reason_sentence(job.reason, job.reason_numbers)
        return parts.Check(title=title, text=sentence, passed=False)
    if gate.key == "quota" and quota:
        # Its own quota may be used up while the job waits for what it would borrow.
        short = job.reason == "WAITING_FOR_BORROWED"
        return parts.Check(title=title, text=quota, passed=None if place > held else not short)
    if place > held:
        return parts.Check(title=title, text=_("looked at once the gates above are open"), passed=None)
    return parts.Check(title=title, text=str(gate.passed), passed=True)


def _quota_lines(viewer: User, job: Job) -> str:
    """`a100-40g: 17 of 24 GPUs used, 6 more available` for each pool the job could use."""
    roles = [role for role in job.roles.all() if role.gpu_cards]
    if not roles:
        return ""
    whole = any(role.gpu_mode == GpuRequestMode.WHOLE for role in roles)
    models = {model for role in roles for model in role.gpu_models}
    resource = Resource.GPU_CARDS if whole else Resource.GPU_CORES

    def fits(row: QuotaRow) -> bool:
        mode = "whole" if whole else "slice"
        named = not models or row.flavor.card_model in models
        return (
            row.queue == job.queue.name and row.resource == resource and named and row.flavor.gpu_mode == mode
        )

    rows = [row for row in workspace_quota(viewer, job.workspace) if fits(row)]
    return "; ".join(_quota_line(row, resource) for row in rows[:2])


def _quota_line(row: QuotaRow, resource: str) -> str:
    def amount(value: int | None) -> str:
        return formats.limit(None) if value is None else reasons.amount(value, resource)

    numbers = {
        "flavor": row.flavor.name,
        "used": amount(row.used),
        "nominal": amount(row.nominal),
        "available": amount(row.available),
    }
    return _("%(flavor)s: %(used)s used of %(nominal)s, %(available)s available now") % numbers


def helps(job: Job, address: Callable[[str], str]) -> Sequence[parts.Help]:
    """What would help, best first; changes to the job lead to a copy of it in the form."""
    found = [item for item in job.reason_help if isinstance(item, dict)]
    codes = [str(item.get("code", "")) for item in found] or [""]
    sentences = reasons.help_sentences(job.reason, job.reason_numbers, found)
    items = []
    for place, sentence in enumerate(sentences):
        code = codes[place] if place < len(codes) else ""
        change = code.startswith(("ASK_", "LOOSEN_", "MAKE_"))
        items.append(
            parts.Help(
                title=sentence,
                effect=_("Opens a copy in the form; this job stays until you cancel it.") if change else "",
                url=address(str(job.pk)) if change else "",
                action=_("Try it") if change else "",
                primary=change and place == 0,
            )
        )
    return items


def clone_address(workspace: str) -> Callable[[str], str]:
    """Where a copy of a job is edited."""
    new = navigation.address("frontend:job-new", workspace=workspace)
    return lambda job: f"{new}?from={job}"
