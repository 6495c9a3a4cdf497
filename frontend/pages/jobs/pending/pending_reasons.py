"""The reason of a pending job, as the gates that it has to pass.

The engine names the first gate that the job fails. Gates before it are passed; the failed gate has the
engine's sentence; gates after it were not evaluated, and are shown so. The quota gate always shows its
numbers, because users look for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final
from urllib.parse import urlencode

from django.utils.html import escape, format_html_join
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.quantities import Resource
from foundation.core.reason_row import Gate
from foundation.core.reasons import Reason, find_reason
from foundation.core.sentences import join_sentences
from frontend.components import view_models
from frontend.pages.jobs.job_facts import Rights
from frontend.pages.jobs.pending import advice
from frontend.shell import navigation
from frontend.texts import formats, reasons
from frontend.texts.quota_amounts import QuotaAmounts, describe_quota_amounts
from frontend.texts.recommendations import Recommendation, asks_for_quota, find_recommendations, numbers_of
from quotas.selectors.tables.quota import workspace_quota
from quotas.selectors.tables.quota_row import QuotaRow
from scheduling.models import GpuRequestMode, Job
from scheduling.selectors.pending.pending import flavor_suits
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import User

_GATES: Final = {
    Gate.FIT: (gettext_lazy("Node capacity"), gettext_lazy("Large enough when empty")),
    Gate.POLICY: (gettext_lazy("Policy"), gettext_lazy("Allowed")),
    Gate.OPEN: (gettext_lazy("Queue and job state"), gettext_lazy("Queue is active; job isn't suspended")),
    Gate.TURN: (gettext_lazy("Queue order"), gettext_lazy("Evaluated by the scheduler")),
    Gate.QUOTA: (gettext_lazy("Nominal quota"), gettext_lazy("Sufficient")),
    Gate.COHORT: (gettext_lazy("Borrowing"), gettext_lazy("Not required or available")),
    Gate.ROOM: (gettext_lazy("Node resources"), gettext_lazy("Available")),
    Gate.PREEMPTION: (gettext_lazy("Preemption"), gettext_lazy("Not required")),
}
"""The title of each gate that the page shows, and its text once the job has passed it, in order."""

_OF_CLAIMS: Final = (Reason.VOLUME_CLAIM_NOT_BOUND, Reason.VOLUME_CLAIM_UNREAD)


def list_checks(viewer: User, job: Job) -> Sequence[view_models.Check]:
    """Return the gates of a waiting job, in the order of their evaluation."""
    reason, order = find_reason(job.reason), list(_GATES)
    held = order.index(reason.row.gate) if reason and reason.row.gate in _GATES else None
    quota = _quota_lines(viewer, job)
    checks = [_check(job, gate, place, held, quota) for place, gate in enumerate(order)]
    if reason is None or held is not None:
        return checks
    # The reason is none of these gates: the job was not evaluated yet, or its cluster decides about it.
    sentence = _reason_sentence(job)
    passed = None if reason.row.gate is Gate.EVALUATION else False
    return [view_models.Check(title=reasons.reason_title(job.reason), text=sentence, passed=passed), *checks]


def split_later(job: Job, checks: Sequence[view_models.Check]) -> tuple[Sequence[view_models.Check], ...]:
    """Split the gates into those that the stored reason covers, and node resources and preemption after them,
    which the gates of a check of the job replace.
    """
    reason = find_reason(job.reason)
    held = reason.row.gate if reason else None
    later = [str(_GATES[gate][0]) for gate in (Gate.ROOM, Gate.PREEMPTION) if gate is not held]
    return [check for check in checks if check.title not in later], [
        check for check in checks if check.title in later
    ]


def _check(job: Job, gate: Gate, place: int, held: int | None, quota: str) -> view_models.Check:
    if gate is Gate.QUOTA:
        title = _("Quota of %(queue)s") % {"queue": job.queue.name}
    elif gate is Gate.COHORT and job.workspace.parent:
        title = _("Borrowing in %(folder)s") % {"folder": job.workspace.parent.name}
    elif place == held and job.reason in _OF_CLAIMS:
        title = _("Volumes")
    else:
        title = str(_GATES[gate][0])
    if held is None:
        return view_models.Check(
            title=title, text=(gate is Gate.QUOTA and quota) or _("Not evaluated"), passed=None
        )
    if place == held:
        sentence = _reason_sentence(job)
        return view_models.Check(title=title, text=sentence, passed=False)
    if gate is Gate.QUOTA and quota:
        # The job's own quota may be used up while the job waits for quota to borrow.
        short = job.reason == Reason.WAITING_FOR_BORROWED
        return view_models.Check(title=title, text=quota, passed=None if place > held else not short)
    if place > held:
        return _describe_later(job, gate, title)
    return view_models.Check(title=title, text=str(_GATES[gate][1]), passed=True)


def _reason_sentence(job: Job) -> str:
    return reasons.reason_sentence(job.reason, reasons.name_role(job.reason_numbers, len(job.roles.all())))


def _describe_later(job: Job, gate: Gate, title: str) -> view_models.Check:
    """Return a gate after the failed one, as far as the engine has tried it with more quota for a
    recommendation.
    """
    tried = [item["numbers"] for item in job.reason_help if item.get("code") == "RAISE_QUOTA"]
    after: Mapping[str, Any] = tried[0] if tried else {}
    blocked = find_reason(str(after.get("also", "")))
    unknown = blocked is None and not after.get("starts")
    if unknown or (blocked is not None and _is_after(gate, blocked.row.gate)):
        return view_models.Check(title=title, text=_("Evaluated after the checks above pass"), passed=None)
    if blocked is not None and blocked.row.gate is gate:
        reason, passed = reasons.reason_title(blocked), False
    else:
        reason, passed = str(_GATES[gate][1]), True
    sentence = escape(_("With enough quota: %(result)s (evaluated at %(at)s)"))
    at = formats.clock_html(job.reason_at, seconds=True) if job.reason_at else formats.MISSING
    text = mark_safe(sentence % {"result": escape(reason), "at": at})  # noqa: S308 (all parts are escaped)
    return view_models.Check(title=title, text=text, passed=passed)


def _is_after(gate: Gate, other: Gate) -> bool:
    order = list(_GATES)
    return other not in order or order.index(gate) > order.index(other)


def _quota_lines(viewer: User, job: Job) -> str:
    """Return `a100-40g: 17 of 24 GPUs used, 6 more available` for each pool that the job could use."""
    roles = [role for role in job.roles.all() if role.gpu_cards]
    if not roles or not permissions.has_permission(viewer, Permission.QUOTA_VIEW, job.workspace):
        return ""
    whole = any(role.gpu_mode == GpuRequestMode.WHOLE for role in roles)
    resource = Resource.GPU_CARDS if whole else Resource.GPU_CORES
    offered = set(job.queue.flavors.values_list("pk", flat=True))

    def has_room(row: QuotaRow) -> bool:
        if row.flavor.pk not in offered:
            return False  # the quota tree may have quota of pools that the queue doesn't use
        suits = any(flavor_suits(row.flavor, role.gpu_mode, role.gpu_models) for role in roles)
        return row.queue == job.queue.name and suits

    rows = [row for row in workspace_quota(viewer, job.workspace, [resource]) if has_room(row)]
    return format_html_join(_("; "), "{}", ((_quota_line(row, resource, job),) for row in rows[:2]))


def _quota_line(row: QuotaRow, resource: Resource, job: Job) -> str:
    """Return the line of one pool's quota, with its time.

    Amounts that the reason states are those of its scheduling cycle: allocations change between two cycles,
    and the two lines must not contradict each other.
    """
    stated = QuotaAmounts.of_reason(job.reason_numbers, row)
    amounts = stated or QuotaAmounts.of_row(row)
    text = describe_quota_amounts(amounts, job.queue, partial(_format_amount, resource))
    numbers = {"flavor": escape(row.flavor.name), "quota": escape(text)}
    if stated is None:
        sentence = escape(_("%(flavor)s: %(quota)s (now)"))
    elif job.reason_at is None:
        sentence = escape(_("%(flavor)s: %(quota)s"))
    else:
        sentence = escape(_("%(flavor)s: %(quota)s (at %(at)s)"))
        numbers["at"] = formats.clock_html(job.reason_at, seconds=True)
    return mark_safe(sentence % numbers)  # noqa: S308 (all parts are escaped)


def _format_amount(resource: Resource, value: int | None) -> str:
    if value is None or resource is Resource.GPU_CORES:
        # The line is about compute only: GPUs are shorter and just as clear.
        return reasons.format_compute_limit(value)
    return reasons.format_resource_amount(value, resource)


def list_help(
    rights: Rights, job: Job, tried: Sequence[Mapping[str, Any]] | None = None
) -> Sequence[view_models.HelpItem]:
    """List recommendations, best first: a change opens a changed copy of the job, more quota opens the
    request.

    `tried` are those of a check of the job now, in place of the stored ones. Both buttons need the permission
    to submit jobs; without it recommendations have none.
    """
    items = list(job.reason_help if tried is None else tried)
    found = find_recommendations(items)
    if not found:
        sentence = reasons.help_sentence(job.reason, job.reason_numbers)
        return [view_models.HelpItem(title=sentence, effect="")] if sentence else []
    if not rights.submit:
        return [view_models.HelpItem(title=one.sentence, effect="") for one in found]
    return [_help(job, one, items, found) for one in found]


def _help(
    job: Job,
    found: Recommendation,
    items: Sequence[Mapping[str, Any]],
    all_found: Sequence[Recommendation],
) -> view_models.HelpItem:
    first = found is all_found[0]
    workspace = job.workspace.slug
    if found.code in advice.CHANGES:
        new = navigation.find_address("frontend:job-new", workspace=workspace)
        return view_models.HelpItem(
            title=found.sentence,
            effect=_describe_effect(_("Opens an edited copy. This job isn't changed."), found),
            url=f"{new}?from={job.pk}&{advice.change_query(found.items[0], items)}",
            action=_name_action(_("Try this change"), found),
            primary=first,
        )
    if asks_for_quota(found, all_found):
        page = navigation.find_address("frontend:workspace-requests", workspace=workspace)
        query = urlencode({"job": job.pk, "pool": found.flavor})
        return view_models.HelpItem(
            title=found.sentence,
            effect=_describe_effect(_("Opens a request with these amounts filled in."), found),
            url=f"{page}?{query}#ask",
            action=_name_action(_("Request quota"), found),
            primary=first,
        )
    return view_models.HelpItem(title=found.sentence, effect="")


def _name_action(action: str, found: Recommendation) -> str:
    """Return the label of a button with its effect: a start if that was tried with all other jobs, or the
    expected start if that was estimated.
    """
    numbers = numbers_of(found.items[0])
    if numbers.get("tried") and numbers.get("starts"):
        return _("%(action)s: starts now") % {"action": action}
    expected = numbers.get("expected")
    if isinstance(expected, int):
        at = formats.clock_html(datetime.fromtimestamp(expected, UTC))
        sentence = escape(_("%(action)s: starts about %(at)s"))
        return mark_safe(sentence % {"action": escape(action), "at": at})  # noqa: S308 (both are escaped)
    return action  # the recommendation's own sentence says that the job still waits


def _describe_effect(effect: str, found: Recommendation) -> str:
    """Describe the effect of a button, with the 50 % range of an expected start, or that it was not
    evaluated.
    """
    numbers = numbers_of(found.items[0])
    if numbers.get("unestimated"):
        return join_sentences([effect, _("The start was not estimated: out of time.")])
    first, last = numbers.get("likely_from"), numbers.get("likely_to")
    if not isinstance(first, int):
        return effect
    shown = {"first": formats.clock_html(datetime.fromtimestamp(first, UTC))}
    sentence = escape(_("50 %% range of the start: %(first)s or later. An estimate, not a guarantee."))
    if isinstance(last, int):
        shown["last"] = formats.clock_html(datetime.fromtimestamp(last, UTC))
        sentence = escape(_("50 %% range of the start: %(first)s – %(last)s. An estimate, not a guarantee."))
    return mark_safe(join_sentences([escape(effect), sentence % shown]))  # noqa: S308 (all parts are escaped)
