"""Node resources and preemption for a pending job as evaluated now, and the effect of each recommendation."""

from __future__ import annotations

from typing import Final

from django.utils.functional import Promise
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from foundation.core.quantities import Resource
from foundation.core.reason_row import Gate
from foundation.core.reasons import Reason, find_reason
from foundation.core.sentences import join_sentences
from frontend.components import view_models
from frontend.texts import formats, reasons
from scheduling.engine import PreemptionGate, PreemptionResult
from scheduling.models import Job
from scheduling.services.jobs.pending_check import PendingCheck, RoomNow

_MOST_NODES: Final = 5
_RULES: Final[dict[PreemptionResult, str | Promise]] = {
    PreemptionResult.NEVER: gettext_lazy("The preemption settings of queue %(queue)s allow no preemption."),
    PreemptionResult.BORROWS: gettext_lazy(
        "The job would borrow; the preemption settings of queue %(queue)s allow no preemption for that."
    ),
    PreemptionResult.NO_JOBS: gettext_lazy(
        "Settings of queue %(queue)s, priorities and quota shares allow none of the running jobs to be "
        "preempted."
    ),
    PreemptionResult.EXCLUDED: gettext_lazy(
        "Not evaluated: a limit, a budget or earlier preemptions exclude the job from its pools."
    ),
    PreemptionResult.NOT_NEEDED: gettext_lazy("Not required"),
}


def list_gates(job: Job, found: PendingCheck) -> list[view_models.Check]:
    """List the gates that were evaluated, without the one whose reason is stored with the job."""
    stored = find_reason(job.reason)
    held = stored.row.gate if stored else None
    gates = []
    if found.room is not None and held is not Gate.ROOM:
        gates.append(_check_room(job, found.room))
    if found.preemption is not None and held is not Gate.PREEMPTION:
        gates.append(_check_preemption(job, found, found.preemption))
    return gates


def _check_room(job: Job, room: RoomNow) -> view_models.Check:
    title = _("Node resources")
    if not room.tasks:
        return view_models.Check(title=title, text=_describe_lack(job, room), passed=False)
    named = [f"{node} ({formats.format_number(tasks)})" for node, tasks in room.tasks.items()][:_MOST_NODES]
    if len(room.tasks) > _MOST_NODES:
        named.append(_("%(n)s more") % {"n": formats.format_number(len(room.tasks) - _MOST_NODES)})
    text = _("All tasks fit now. Tasks by node: %(nodes)s.") % {"nodes": _(", ").join(named)}
    return view_models.Check(title=title, text=text, passed=True)


def _describe_lack(job: Job, room: RoomNow) -> str:
    if "level" in room.numbers or "cards_per_task" not in room.numbers:
        return _("The free resources of the nodes don't fit all tasks together.")
    return reasons.reason_sentence(Reason.NO_ROOM, reasons.name_role(room.numbers, len(job.roles.all())))


def _check_preemption(job: Job, found: PendingCheck, gate: PreemptionGate) -> view_models.Check:
    passed = gate.result in (PreemptionResult.POSSIBLE, PreemptionResult.NOT_NEEDED)
    known = _RULES.get(gate.result)
    if known is not None:
        sentences = [str(known) % {"queue": job.queue.name}]
    else:
        sentences = [_describe_candidates(gate), _describe_result(found, gate)]
    if gate.protected_jobs:
        sentences.append(
            _("In their guaranteed run time: %(jobs)s.") % {"jobs": _count_jobs(gate.protected_jobs)}
        )
    return view_models.Check(title=_("Preemption"), text=join_sentences(sentences), passed=passed)


def _describe_candidates(gate: PreemptionGate) -> str:
    """Describe the jobs that may be preempted, and how much of the missing quota they hold."""
    parts = []
    for jobs, amount, words in (
        (gate.own_jobs, gate.own_amount, _("%(jobs)s of this queue (%(amount)s)")),
        (gate.other_jobs, gate.other_amount, _("%(jobs)s that borrow in other queues (%(amount)s)")),
    ):
        if jobs:
            parts.append(words % {"jobs": _count_jobs(jobs), "amount": _format_amount(gate, amount)})
    if not parts:
        return ""
    return _("Jobs that can be preempted: %(jobs)s.") % {"jobs": _(", ").join(parts)}


def _describe_result(found: PendingCheck, gate: PreemptionGate) -> str:
    if gate.result is PreemptionResult.POSSIBLE:
        return _("Sufficient: %(jobs)s would be preempted.") % {"jobs": _count_jobs(len(gate.victims))}
    if gate.result is PreemptionResult.PROTECTED:
        return _("Not sufficient before guaranteed run times end.")
    held = gate.own_amount + gate.other_amount
    if gate.short is not None and held < gate.short:
        numbers = {"short": _format_amount(gate, gate.short), "pool": found.pool}
        return _("Not sufficient: the job lacks %(short)s of %(pool)s.") % numbers
    if gate.short is not None:
        return _("No selection of these jobs satisfies quota shares and placement.")
    return _("No selection of these jobs makes room for all tasks.")


def _format_amount(gate: PreemptionGate, amount: int) -> str:
    return reasons.format_resource_amount(amount, gate.key.resource if gate.key else Resource.GPU_CARDS)


def _count_jobs(count: int) -> str:
    return ngettext("%(n)s job", "%(n)s jobs", count) % {"n": formats.format_number(count)}
