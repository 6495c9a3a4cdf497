"""A job's events as sentences, newest first."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from frontend.components import view_models
from frontend.pages.jobs.eviction import why
from frontend.texts import formats, labels, reasons
from scheduling.models import JobEvent
from scheduling.services.resizing.resize_settle import NOT_CONFIRMED

Numbers = Mapping[str, Any]

# Tag and tone of each event code; those without a tag are steps that everybody expects.
_TAGS: Final[dict[str, tuple[str | Promise, str]]] = {
    "evicting": (gettext_lazy("Evicted"), "waiting"),
    "shrunk": (gettext_lazy("Shrunk"), "waiting"),
    "succeeded": (gettext_lazy("Succeeded"), "running"),
    "failed": (gettext_lazy("Failed"), "failed"),
    "stopping": (gettext_lazy("Stopping"), "waiting"),
    "cancelled": (gettext_lazy("Cancelled"), "done"),
    "suspended": (gettext_lazy("Suspended"), "done"),
    "held_up": (gettext_lazy("Held up"), "waiting"),
}
_CAUSES: Final[dict[str, str | Promise]] = {
    "OOMKilled": gettext_lazy("out of memory (OOMKilled)"),
    "Evicted": gettext_lazy("evicted by the node (Evicted)"),
    "UnexpectedAdmissionError": gettext_lazy("refused by the node (UnexpectedAdmissionError)"),
}
# Nobody took anything away: the job, or its owner, ended the attempt.
_OWN_DOING: Final = ("TASK_FAILED", "USER")


def rows(events: Iterable[JobEvent]) -> Sequence[view_models.StoryRow]:
    """One row per event; an unknown code is shown as it is."""
    return [_row(event) for event in reversed(list(events))]


def _row(event: JobEvent) -> view_models.StoryRow:
    numbers = event.numbers
    sentence = _SENTENCES.get(event.code)
    text = sentence(event.actor, numbers) if sentence else event.code
    tag, tone = _TAGS.get(event.code, ("", "info"))
    if event.code == "held_up":
        return view_models.StoryRow(at=event.at, text=text, tag=str(tag), tone=tone)
    if numbers.get("rule") in _OWN_DOING:
        tag = "" if event.code == "evicting" else tag
    return view_models.StoryRow(
        at=event.at, text=text, tag=str(tag), tone=tone, detail=describe_ending(numbers)
    )


def describe_ending(numbers: Numbers) -> str:
    """The text of what the cluster reported: pod, exit code, reason or signal, message."""
    said = []
    if numbers.get("pod"):
        said.append(_("pod %(pod)s") % {"pod": numbers["pod"]})
    if numbers.get("exit_code") is not None:
        said.append(_("exit code %(code)s") % {"code": numbers["exit_code"]})
    if reason := str(numbers.get("reason") or ""):
        said.append(str(_CAUSES.get(reason, reason)))
    if numbers.get("signal"):
        said.append(_("killed by %(signal)s") % {"signal": numbers["signal"]})
    said += [str(numbers[key]) for key in ("code", "message") if numbers.get(key)]
    return " · ".join(said)


def _submitted(actor: str, numbers: Numbers) -> str:
    return _("Submitted by %(user)s.") % {"user": actor} if actor else _("Submitted.")


def _admitted(actor: str, numbers: Numbers) -> str:
    known = {name: numbers.get(name, 0) for name in ("attempt", "cards", "nodes", "borrowed_cards")}
    if not numbers:
        return _("Admitted: quota and place are reserved.")
    if known["borrowed_cards"]:
        return _(
            "Admitted, attempt %(attempt)s: GPUs %(cards)s (borrowed %(borrowed_cards)s), nodes %(nodes)s."
        ) % (known)
    return _("Admitted, attempt %(attempt)s: GPUs %(cards)s from its own quota, nodes %(nodes)s.") % known


def _adopted(actor: str, numbers: Numbers) -> str:
    known = {name: numbers.get(name, 0) for name in ("attempt", "tasks")}
    return _("Pods of attempt %(attempt)s adopted after a database restore; tasks: %(tasks)s.") % known


def _not_adopted(actor: str, numbers: Numbers) -> str:
    known = {name: numbers.get(name, 0) for name in ("attempt", "pods")}
    return _("Not started: unknown pods of attempt %(attempt)s cannot be adopted; pods: %(pods)s.") % known


def _beyond_quota(actor: str, numbers: Numbers) -> str:
    return _(
        "%(cluster)s admitted it beyond what the quota tree allows at this moment; the books follow it."
    ) % {"cluster": numbers.get("cluster", "")}


def _unseated(actor: str, numbers: Numbers) -> str:
    known = {name: numbers.get(name, 0) for name in ("waited_s", "rest_s")}
    return _(
        "Admitted, but no nodes held it for %(waited_s)s s: it leaves its quota to others for %(rest_s)s s."
    ) % (known)


def _starting(actor: str, numbers: Numbers) -> str:
    return _("Starting: the cluster creates its pods.")


def _running(actor: str, numbers: Numbers) -> str:
    return _("Running: enough of its tasks are up.")


def _evicting(actor: str, numbers: Numbers) -> str:
    rule = str(numbers.get("rule", ""))
    if rule == "USER" and actor:
        return _("%(user)s suspends it; it gives back what it holds.") % {"user": actor}
    reason = why(rule, numbers)
    if reason:
        return _('It gives back what it holds by the rule "%(rule)s": %(reason)s.') % {
            "rule": labels.rule_word(rule),
            "reason": reason,
        }
    if rule:
        return _("It gives back what it holds: %(rule)s.") % {"rule": labels.rule_word(rule)}
    return _("It gives back what it holds.")


def _held_up(actor: str, numbers: Numbers) -> str:
    return reasons.reason_sentence(str(numbers.get("reason", "")), numbers)


def _shrunk(actor: str, numbers: Numbers) -> str:
    rule = str(numbers.get("rule", ""))
    reason = why(rule, numbers)
    if not reason:
        return _("It gives up tasks that it can spare, and goes on.")
    return _('It gives up tasks that it can spare (%(tasks)s) by the rule "%(rule)s": %(reason)s.') % {
        "tasks": numbers.get("tasks", 1),
        "rule": labels.rule_word(rule),
        "reason": reason,
    }


def _requeued(actor: str, numbers: Numbers) -> str:
    rule = str(numbers.get("rule", ""))
    if rule:
        return _("Back in the queue with its first submission time, after: %(rule)s.") % {
            "rule": labels.rule_word(rule)
        }
    return _("Back in the queue with its first submission time.")


def _succeeded(actor: str, numbers: Numbers) -> str:
    return _("All tasks ended well; everything it held is free again.")


def _failed(actor: str, numbers: Numbers) -> str:
    rule = str(numbers.get("rule", ""))
    return _("It ended: %(rule)s.") % {"rule": labels.rule_word(rule)} if rule else _("It ended.")


def _stopping(actor: str, numbers: Numbers) -> str:
    if actor:
        return _("%(user)s cancels it; its pods are told to end.") % {"user": actor}
    return _("Its pods are told to end.")


def _cancelled(actor: str, numbers: Numbers) -> str:
    return _("Cancelled by %(user)s.") % {"user": actor} if actor else _("Everything it held is free again.")


def _suspended(actor: str, numbers: Numbers) -> str:
    if actor:
        return _("%(user)s took it out of the queue until someone resumes it.") % {"user": actor}
    return _("It waits until someone resumes it.")


def _resumed(actor: str, numbers: Numbers) -> str:
    return _("%(user)s put it back into the queue.") % {"user": actor or _("The platform")}


def _task_restarting(actor: str, numbers: Numbers) -> str:
    known = {name: numbers.get(name, "") for name in ("role", "index", "restart")}
    return _("Task %(role)s-%(index)s has failed and starts again in its place, time %(restart)s.") % known


def _role_restarting(actor: str, numbers: Numbers) -> str:
    known = {name: numbers.get(name, "") for name in ("role", "index", "restart")}
    return (
        _("Task %(role)s-%(index)s has failed; all of its role are started again, time %(restart)s.") % known
    )


def _moved(actor: str, numbers: Numbers) -> str:
    names = {"from": numbers.get("from", ""), "to": numbers.get("to", ""), "user": actor or _("The platform")}
    return _("%(user)s moved it from the queue %(from)s, which is deleted, to %(to)s.") % names


def _priority(actor: str, numbers: Numbers) -> str:
    names = {"from": numbers.get("from", ""), "to": numbers.get("to", ""), "user": actor or _("The platform")}
    return _("%(user)s changed its priority class from %(from)s to %(to)s.") % names


def _sizes(numbers: Numbers) -> dict[str, Any]:
    named = {name: numbers.get(name, "") for name in ("role", "index")}
    return named | {name: formats.memory(numbers.get(name)) for name in ("from", "to")}


def _resizing(actor: str, numbers: Numbers) -> str:
    told = _sizes(numbers) | {"user": actor or _("The platform")}
    return _("%(user)s wants %(to)s instead of %(from)s for each card of %(role)s-%(index)s.") % told


def _resized(actor: str, numbers: Numbers) -> str:
    return _("Each card of %(role)s-%(index)s has %(to)s now, after %(from)s.") % _sizes(numbers)


def _resize_overdue(actor: str, numbers: Numbers) -> str:
    return _(
        "Nobody confirmed %(to)s for %(role)s-%(index)s in time: it is taken back. What is charged stays"
        " until the cluster confirms that."
    ) % _sizes(numbers)


def _resize_refused(actor: str, numbers: Numbers) -> str:
    sentence = _("The memory of %(role)s-%(index)s stays at %(from)s for each card; %(to)s was refused.")
    return " ".join(filter(None, (sentence % _sizes(numbers), _refusal(numbers))))


def _refusal(numbers: Numbers) -> str:
    if numbers.get("code") == NOT_CONFIRMED:
        return _("It was not confirmed in time.")
    message = numbers.get("message")
    return _("The cluster says: %(message)s") % {"message": message} if message else ""


_SENTENCES: Final[dict[str, Callable[[str, Numbers], str]]] = {
    "submitted": _submitted,
    "admitted": _admitted,
    "adopted": _adopted,
    "not_adopted": _not_adopted,
    "beyond_quota": _beyond_quota,
    "unseated": _unseated,
    "starting": _starting,
    "running": _running,
    "evicting": _evicting,
    "held_up": _held_up,
    "shrunk": _shrunk,
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
    "resizing": _resizing,
    "resized": _resized,
    "resize_overdue": _resize_overdue,
    "resize_refused": _resize_refused,
}
