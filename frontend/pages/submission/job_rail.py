"""The preview beside the form: whether the job would be accepted, and its effect on the quota."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext as _

from foundation.core.errors import AllotmentError, FieldError
from foundation.core.quantities import Resource
from foundation.core.reasons import Reason
from frontend.components import view_models
from frontend.components.capacity import Meter
from frontend.pages.submission import preview_words
from frontend.pages.submission.job_values import ROLES_MAX
from frontend.pages.submission.preview_helps import list_helps
from frontend.texts import reasons
from frontend.texts.quota_amounts import QuotaAmounts, describe_quota_amounts
from quotas.models import Queue
from quotas.selectors.pools.pool import WorkspacePool
from quotas.selectors.tables.quota import workspace_quota
from quotas.selectors.tables.quota_row import QuotaRow
from scheduling.job_file import FIELDS, JobSpec, RoleSpec
from scheduling.policy import Filled
from scheduling.selectors.pending.pending import flavor_suits
from scheduling.services.jobs.job_check import job_check
from scheduling.services.jobs.job_preview import JobPreview, preview_submission
from scheduling.services.jobs.job_read import job_read
from tenants.models import Tenant, User


@dataclass(frozen=True, slots=True)
class PoolAfter:
    """One pool of the selected queue with the job: blue is what the job requests."""

    name: str
    meter: Meter
    asked: float
    text: str


@dataclass(frozen=True, slots=True)
class SubmissionPreview:
    """The outcome of submitting the job. `tone` is running, waiting or failed."""

    tone: str
    title: str
    text: str = ""
    helps: Sequence[view_models.HelpItem] = ()
    facts: Sequence[tuple[str, str]] = ()
    preempted: Sequence[str] = ()
    errors: Sequence[FieldError] = ()
    after: Sequence[PoolAfter] = ()
    filled: Sequence[Filled] = ()
    may_estimate: bool = False
    """Whether a simulation can estimate when the job would start."""
    named: bool = False
    """Whether the errors name fields by their labels."""


def preview_job(
    who: User, workspace: Tenant, body: Mapping[str, Any], pools: Sequence[WorkspacePool]
) -> SubmissionPreview:
    """Check a job file as a submission would, and return the placement and the quota that it would get."""
    try:
        reading = job_read(acting_user=who, workspace=workspace, body=body)
        spec = reading.spec
        submission = job_check(acting_user=who, workspace=workspace, spec=spec)
    except AllotmentError as error:
        return preview_refusal(error)
    seen = preview_submission(submission)
    known: dict[str, Any] = {
        "after": _after(who, submission.queue, spec, pools, seen),
        "filled": reading.filled,
        "may_estimate": preview_words.may_estimate(submission, seen),
    }
    if seen.timed_out:
        text = _("The start couldn't be predicted now. You can submit the job all the same.")
        return SubmissionPreview("waiting", _("Start unknown"), text, **known)
    known["facts"] = preview_words.list_facts(who, submission, seen)
    if seen.starts:
        title = _("Starts immediately")
        return SubmissionPreview("running", title, preview_words.describe_start(seen), **known)
    if seen.reason == Reason.WAITING_FOR_PREEMPTED:
        return SubmissionPreview(
            "waiting",
            preview_words.title_preemption(seen),
            preview_words.describe_preemption(seen),
            preempted=preview_words.list_preempted(who, seen.preempted),
            **known,
        )
    sentence = reasons.reason_sentence(seen.reason, reasons.name_role(seen.numbers, len(spec.roles)))
    helps = list_helps(seen.reason, seen.numbers, seen.help, submission)
    return SubmissionPreview("waiting", _("Will be queued"), sentence, helps, **known)


def preview_refusal(error: AllotmentError) -> SubmissionPreview:
    """Return an error of the check as the preview and the banner show it."""
    if error.code == Reason.NEVER_FITS:
        found = [item for item in error.numbers.get("help", ()) if isinstance(item, dict)]
        return SubmissionPreview(
            "failed",
            _("Can't be scheduled"),
            reasons.reason_sentence(Reason.NEVER_FITS, error.numbers),
            list_helps(Reason.NEVER_FITS, error.numbers, found),
        )
    if error.code == "SPEC_INVALID":
        text = _("Correct the fields marked below.")
        return SubmissionPreview("failed", _("Fix the errors below"), text, errors=error.errors)
    if error.code == "YAML_INVALID":
        return SubmissionPreview("failed", _("Invalid YAML"), error.detail)
    return SubmissionPreview("failed", _("Will be rejected"), error.detail, errors=error.errors)


def name_fields(preview: SubmissionPreview) -> SubmissionPreview:
    """Return the preview with the labels of the form in place of paths in the job file."""
    errors = [replace(error, field=_label(error.field)) for error in preview.errors]
    return replace(preview, errors=errors, named=True)


def _label(path: str) -> str:
    parts = path.split(".")
    declared = ".".join(part for part in parts if not part.isdecimal())
    while declared and not (declared in FIELDS and FIELDS[declared].label):
        declared = declared.rpartition(".")[0]
    if not declared:
        return path
    label = _(FIELDS[declared].label)
    if declared.startswith("roles.") and parts[1].isdecimal() and len(parts[1]) < len(str(ROLES_MAX)) + 1:
        place = _("Task role %(place)s") % {"place": int(parts[1]) + 1}
        return f"{place}{_(': ')}{label}"
    return label


def _eligible(role: RoleSpec, pool: WorkspacePool) -> bool:
    return role.gpu is not None and flavor_suits(pool.flavor, role.gpu.mode, role.gpu.models)


def _asked(spec: JobSpec, pools: Sequence[WorkspacePool]) -> Counter[str]:
    """Return the compute that a job will use by pool name, for roles that fit into one pool only."""
    asked: Counter[str] = Counter()
    for role in spec.roles:
        fitting = [pool.flavor.name for pool in pools if _eligible(role, pool)]
        if len(fitting) == 1 and role.gpu:
            asked[fitting[0]] += role.replicas * role.gpu.cards * role.gpu.cores
    return asked


def _after(
    who: User,
    queue: Queue,
    spec: JobSpec,
    pools: Sequence[WorkspacePool],
    seen: JobPreview,
) -> list[PoolAfter]:
    """Return the pools in which the job starts, or may start if it is pending."""
    given = seen.pools
    asked = given or _asked(spec, pools)
    may = {pool.flavor.name for pool in pools for role in spec.roles if _eligible(role, pool)}
    rows = {
        row.flavor.name: row
        for row in workspace_quota(who, queue.workspace, [Resource.GPU_CORES])
        if row.queue == queue.name
    }
    names = [pool.flavor.name for pool in pools if pool.flavor.name in rows]
    shown = given or may or set(names)
    return [
        _pool_after(rows[name], queue, asked.get(name, 0) / 100, seen.numbers)
        for name in names
        if name in shown
    ]


def _pool_after(row: QuotaRow, queue: Queue, asked: float, stated: Mapping[str, Any]) -> PoolAfter:
    amounts = QuotaAmounts.of_reason(stated, row) or QuotaAmounts.of_row(row)
    meter = Meter(
        nominal=(amounts.nominal or 0) / 100,
        allocated=amounts.used / 100,
        borrowed=amounts.borrowed / 100,
        lent=amounts.taken / 100,
        held=asked,
    )
    text = describe_quota_amounts(amounts, queue, reasons.format_compute_limit)
    return PoolAfter(row.flavor.name, meter, asked, text)
