"""A job's events as sentences, newest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.html import escape
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.quantities import WHOLE_CARD
from foundation.core.sentences import join_sentences
from frontend.components import view_models
from frontend.pages.jobs.events.eviction import explain_rule, name_beneficiary
from frontend.texts import formats, labels, reasons
from scheduling.job_file.parsing.tags import join_tags
from scheduling.models import OWN_END_REASONS, IdleAction, JobEvent
from scheduling.selectors.events.beneficiary import Beneficiary
from scheduling.services.resizing.by_use import RULE as MEASURED_USE
from scheduling.services.resizing.resize_settle import NOT_CONFIRMED
from telemetry.usage.figures import to_hours
from telemetry.usage.preemptions import JobLoss

Numbers = Mapping[str, Any]

# The tag and tone of each event code; expected steps have no tag. A sentence doesn't repeat its tag.
_TAGS: Final[dict[str, tuple[str | Promise, str]]] = {
    "evicting": (gettext_lazy("Evicted"), "waiting"),
    "shrunk": (gettext_lazy("Scaled down"), "waiting"),
    "grown": (gettext_lazy("Scaled up"), "running"),
    "idle_warned": (gettext_lazy("Idle"), "waiting"),
    "succeeded": (gettext_lazy("Succeeded"), "running"),
    "failed": (gettext_lazy("Failed"), "failed"),
    "stopping": (gettext_lazy("Stopping"), "waiting"),
    "cancelled": (gettext_lazy("Canceled"), "done"),
    "suspended": (gettext_lazy("Suspended"), "done"),
    "held_up": (gettext_lazy("Needs attention"), "waiting"),
}
_CAUSES: Final[dict[str, str | Promise]] = {
    "OOMKilled": gettext_lazy("Out of memory (OOMKilled)"),
    "Evicted": gettext_lazy("Evicted by the node (Evicted)"),
    "UnexpectedAdmissionError": gettext_lazy("Rejected by the node (UnexpectedAdmissionError)"),
}
_FOR: Final = "for"
"""The key of the beneficiary's name among the numbers of an event."""
_AFTER_EVICTION: Final = ("requeued", "suspended")
"""The events at the end of an evicted run, when the cost of the eviction is known."""


def job_event_rows(
    events: Iterable[JobEvent],
    losses: Mapping[datetime, JobLoss] | None = None,
    beneficiaries: Mapping[int, Beneficiary] | None = None,
) -> Sequence[view_models.EventRow]:
    """Return one row per event; an unknown code is shown as it is.

    `losses` is the work that each preemption cost, by the end of the run (`read_job_losses`); `beneficiaries`
    are the beneficiaries of preemptions by event (`job_beneficiaries`).
    """
    names = {pk: name_beneficiary(found) for pk, found in (beneficiaries or {}).items()}
    return [
        _row(event, (losses or {}).get(event.at), names.get(event.pk, "")) for event in reversed(list(events))
    ]


def _row(event: JobEvent, loss: JobLoss | None, beneficiary: str) -> view_models.EventRow:
    numbers = {**event.numbers, _FOR: beneficiary} if beneficiary else event.numbers
    sentence = _SENTENCES.get(event.code)
    text = sentence(event.actor, numbers) if sentence else event.code
    tag, tone = _TAGS.get(event.code, ("", "info"))
    if event.code == "held_up":
        return view_models.EventRow(at=event.at, text=text, tag=str(tag), tone=tone)
    if numbers.get("rule") in OWN_END_REASONS:
        tag = "" if event.code == "evicting" else tag
    detail = describe_ending(numbers)
    if loss is not None and event.code in _AFTER_EVICTION:
        detail = _describe_loss(loss)
    return view_models.EventRow(at=event.at, text=text, tag=str(tag), tone=tone, detail=detail)


def _describe_loss(loss: JobLoss) -> str:
    """Return the work that a preemption cost, and since when: the last checkpoint, otherwise the start."""
    hours = formats.format_number(float(to_hours(loss.lost)), 1)
    if loss.since is None or not loss.lost:
        return _("GPU-hours lost: %(hours)s") % {"hours": hours}
    if loss.checkpointed:
        sentence = _("GPU-hours lost: %(hours)s since the last checkpoint (%(at)s, by the declared interval)")
    else:
        sentence = _("GPU-hours lost: %(hours)s since the start (%(at)s); no checkpoint")
    at = formats.clock_html(loss.since)
    return mark_safe(escape(sentence) % {"hours": hours, "at": at})  # noqa: S308 (numbers and a time)


def describe_ending(numbers: Numbers) -> str:
    """Return the text of the cluster's report: pod, exit code, reason or signal, message."""
    said = []
    if numbers.get("pod"):
        said.append(_("Pod %(pod)s") % {"pod": numbers["pod"]})
    if numbers.get("exit_code") is not None:
        said.append(_("Exit code %(code)s") % {"code": numbers["exit_code"]})
    if reason := str(numbers.get("reason") or ""):
        said.append(str(_CAUSES.get(reason, reason)))
    if numbers.get("signal"):
        said.append(_("Killed by %(signal)s") % {"signal": numbers["signal"]})
    said += [str(numbers[key]) for key in ("code", "message") if numbers.get(key)]
    return " · ".join(said)


def _submitted(actor: str, numbers: Numbers) -> str:
    return _("Submitted by %(user)s") % {"user": actor} if actor else _("Submitted")


def _admitted(actor: str, numbers: Numbers) -> str:
    if not numbers:
        return _("Admitted: quota reserved and nodes assigned")
    known = {name: numbers.get(name, 0) for name in ("attempt", "nodes")}
    known["cards"] = formats.format_gpus(WHOLE_CARD * numbers.get("cards", 0), digits=2)
    if borrowed := numbers.get("borrowed_cards", 0):
        known["borrowed_cards"] = formats.format_gpus(WHOLE_CARD * borrowed, digits=2)
        return _(
            "Admitted (attempt %(attempt)s). GPUs: %(cards)s (%(borrowed_cards)s borrowed), nodes: %(nodes)s"
        ) % (known)
    return _("Admitted (attempt %(attempt)s). GPUs from nominal quota: %(cards)s, nodes: %(nodes)s") % known


def _adopted(actor: str, numbers: Numbers) -> str:
    known = {name: numbers.get(name, 0) for name in ("attempt", "tasks")}
    return _("Pods of attempt %(attempt)s adopted after a database restore; tasks: %(tasks)s.") % known


def _not_adopted(actor: str, numbers: Numbers) -> str:
    known = {name: numbers.get(name, 0) for name in ("attempt", "pods")}
    return _("Not started: unknown pods of attempt %(attempt)s can't be adopted; pods: %(pods)s.") % known


def _beyond_quota(actor: str, numbers: Numbers) -> str:
    return _("Admitted by %(cluster)s above the current quota; usage was recorded") % {
        "cluster": numbers.get("cluster", "")
    }


def _unplaced(actor: str, numbers: Numbers) -> str:
    known = {name: numbers.get(name, 0) for name in ("waited_s", "rest_s")}
    return _("Admitted, but not placed within %(waited_s)s s; quota released for %(rest_s)s s") % (known)


def _starting(actor: str, numbers: Numbers) -> str:
    return _("Creating pods")


def _running(actor: str, numbers: Numbers) -> str:
    return _("Running: minimum number of tasks ready")


def _evicting(actor: str, numbers: Numbers) -> str:
    rule = str(numbers.get("rule", ""))
    if rule == "USER" and actor:
        return _("Suspended by %(user)s; releasing resources") % {"user": actor}
    if rule == "RESTART" and actor:
        return _("Restarted by %(user)s; releasing resources") % {"user": actor}
    word, reason = labels.rule_word(rule), explain_rule(rule, numbers, str(numbers.get(_FOR, "")))
    if rule in OWN_END_REASONS:
        return _("Deleting pods: %(rule)s") % {"rule": reason or word}
    if reason:
        return _("%(rule)s: %(reason)s") % {"rule": word, "reason": reason}
    return word or _("Releasing resources")


def _held_up(actor: str, numbers: Numbers) -> str:
    return reasons.reason_sentence(str(numbers.get("reason", "")), numbers)


def _shrunk(actor: str, numbers: Numbers) -> str:
    rule = str(numbers.get("rule", ""))
    reason = explain_rule(rule, numbers, str(numbers.get(_FOR, "")))
    if not reason:
        return _("The remaining tasks keep running")
    return _("%(rule)s, tasks: %(tasks)s. %(reason)s") % {
        "tasks": numbers.get("tasks", 1),
        "rule": labels.rule_word(rule),
        "reason": reason,
    }


def _requeued(actor: str, numbers: Numbers) -> str:
    rule = str(numbers.get("rule", ""))
    if rule:
        return _("Requeued with its original submission time (%(rule)s)") % {"rule": labels.rule_word(rule)}
    return _("Requeued with its original submission time")


def _succeeded(actor: str, numbers: Numbers) -> str:
    return _("All tasks completed, resources released")


def _failed(actor: str, numbers: Numbers) -> str:
    rule = str(numbers.get("rule", ""))
    return labels.rule_word(rule) if rule else _("Finished")


def _stopping(actor: str, numbers: Numbers) -> str:
    if actor:
        return _("Canceled by %(user)s; deleting pods") % {"user": actor}
    return _("Deleting pods")


def _cancelled(actor: str, numbers: Numbers) -> str:
    return _("By %(user)s") % {"user": actor} if actor else _("Resources released")


def _suspended(actor: str, numbers: Numbers) -> str:
    if actor:
        return _("By %(user)s") % {"user": actor}
    return _("Until resumed")


def _resumed(actor: str, numbers: Numbers) -> str:
    return _("Resumed by %(user)s") % {"user": actor or _("Allotment")}


def _task_restarting(actor: str, numbers: Numbers) -> str:
    known = {name: numbers.get(name, "") for name in ("role", "index", "restart")}
    return _("Task %(role)s-%(index)s failed; restart %(restart)s in place") % known


def _role_restarting(actor: str, numbers: Numbers) -> str:
    known = {name: numbers.get(name, "") for name in ("role", "index", "restart")}
    return _("Task %(role)s-%(index)s failed; restart %(restart)s of the whole role") % known


def _moved(actor: str, numbers: Numbers) -> str:
    names = {"from": numbers.get("from", ""), "to": numbers.get("to", ""), "user": actor or _("Allotment")}
    return _("Moved from deleted queue %(from)s to %(to)s by %(user)s") % names


def _priority(actor: str, numbers: Numbers) -> str:
    names = {"from": numbers.get("from", ""), "to": numbers.get("to", ""), "user": actor or _("Allotment")}
    return _("%(user)s changed the priority from %(from)s to %(to)s") % names


def _exchanged(actor: str, numbers: Numbers) -> str:
    names = {"other": numbers.get("other", ""), "user": actor or _("Allotment")}
    if not names["other"]:
        return _("%(user)s changed the order of other jobs that were submitted at the same moment") % names
    return _("%(user)s exchanged its place in the queue with %(other)s") % names


def _tags(actor: str, numbers: Numbers) -> str:
    user = actor or _("Allotment")
    added, removed = (join_tags(numbers.get(name, ())) for name in ("added", "removed"))
    if added and removed:
        sentence = _("%(user)s added the tags %(added)s and removed %(removed)s")
    elif added:
        sentence = _("%(user)s added the tags %(added)s")
    else:
        sentence = _("%(user)s removed the tags %(removed)s")
    return sentence % {"user": user, "added": added, "removed": removed}


_IDLE_ACTIONS: Final[dict[str, str | Promise]] = {
    IdleAction.SUSPEND: gettext_lazy("suspended"),
    IdleAction.SHRINK: gettext_lazy("scaled down"),
    IdleAction.PREEMPTIBLE: gettext_lazy("made preemptible"),
}


def _idle_warned(actor: str, numbers: Numbers) -> str:
    return _("GPUs idle for %(idle)s; will be %(action)s in %(left)s unless they are used or extended") % {
        "idle": formats.format_duration(numbers.get("idle_s")),
        "left": formats.format_duration(numbers.get("left_s")),
        "action": _IDLE_ACTIONS.get(str(numbers.get("action", "")), ""),
    }


def _idle_ended(actor: str, numbers: Numbers) -> str:
    return _("GPUs are no longer idle, or weren't measured for a while")


def _idle_extended(actor: str, numbers: Numbers) -> str:
    values = {"user": actor, "span": formats.format_duration(numbers.get("by_s"))}
    return _("%(user)s extended the idle time by %(span)s") % values


def _idle_preemptible(actor: str, numbers: Numbers) -> str:
    values = {"idle": formats.format_duration(numbers.get("idle_s"))}
    return _("Preemptible until its GPUs are used again (idle for %(idle)s)") % values


def _grown(actor: str, numbers: Numbers) -> str:
    return _("Added tasks: %(tasks)s") % {"tasks": numbers.get("tasks", 1)}


def _sizes(numbers: Numbers) -> dict[str, Any]:
    named = {name: numbers.get(name, "") for name in ("role", "index")}
    return named | {name: formats.format_memory(numbers.get(name)) for name in ("from", "to")}


def _resizing(actor: str, numbers: Numbers) -> str:
    values = _sizes(numbers) | {"user": actor or _("Allotment")}
    if numbers.get("rule") == MEASURED_USE:
        values["peak"] = formats.format_memory(numbers.get("peak"))
        if numbers.get("to", 0) < numbers.get("from", 0):
            return (
                _(
                    "Lending GPU memory of %(role)s-%(index)s that it doesn't use: %(from)s → %(to)s per GPU "
                    "(at most %(peak)s used in 10 minutes)"
                )
                % values
            )
        return (
            _("Returning GPU memory to %(role)s-%(index)s: %(from)s → %(to)s per GPU (up to %(peak)s used)")
            % values
        )
    return _("%(user)s requested %(to)s per GPU for %(role)s-%(index)s (now %(from)s)") % values


def _resized(actor: str, numbers: Numbers) -> str:
    return _("GPU memory of %(role)s-%(index)s changed from %(from)s to %(to)s per GPU") % _sizes(numbers)


def _resize_overdue(actor: str, numbers: Numbers) -> str:
    return _(
        "Change to %(to)s for %(role)s-%(index)s timed out; reverting. Charged unchanged until the "
        "cluster confirms."
    ) % _sizes(numbers)


def _resize_refused(actor: str, numbers: Numbers) -> str:
    sentence = _("Change to %(to)s for %(role)s-%(index)s rejected; stays at %(from)s per GPU")
    return join_sentences([sentence % _sizes(numbers), _refusal(numbers)])


def _refusal(numbers: Numbers) -> str:
    if numbers.get("code") == NOT_CONFIRMED:
        return _("Confirmation timed out.")
    message = numbers.get("message")
    return _("Cluster message: %(message)s") % {"message": message} if message else ""


_SENTENCES: Final[dict[str, Callable[[str, Numbers], str]]] = {
    "submitted": _submitted,
    "admitted": _admitted,
    "adopted": _adopted,
    "not_adopted": _not_adopted,
    "beyond_quota": _beyond_quota,
    "unseated": _unplaced,
    "starting": _starting,
    "running": _running,
    "evicting": _evicting,
    "held_up": _held_up,
    "shrunk": _shrunk,
    "grown": _grown,
    "idle_warned": _idle_warned,
    "idle_ended": _idle_ended,
    "idle_extended": _idle_extended,
    "idle_preemptible": _idle_preemptible,
    "requeued": _requeued,
    "succeeded": _succeeded,
    "failed": _failed,
    "stopping": _stopping,
    "cancelled": _cancelled,
    "suspended": _suspended,
    "resumed": _resumed,
    "task_restarting": _task_restarting,
    "role_restarting": _role_restarting,
    "moved": _moved,
    "priority": _priority,
    "exchanged": _exchanged,
    "tags": _tags,
    "resizing": _resizing,
    "resized": _resized,
    "resize_overdue": _resize_overdue,
    "resize_refused": _resize_refused,
}
