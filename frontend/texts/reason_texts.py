"""The sentences of reasons and recommendations in the user's language.

There are several per code, the most specific first; `frontend.texts.reasons` takes the first whose numbers
are all known. No number in them selects singular or plural. Those of reasons are in the table of reason codes
(`foundation.core.reasons`).
"""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy
from django.utils.translation import gettext_lazy as _

from foundation.core.reasons import Reason

Sentences = tuple[str | Promise, ...]

SENTENCES: dict[str, Sentences] = {
    reason.value: tuple(gettext_lazy(text) for text in reason.row.sentences) for reason in Reason
}
# The usual recommendation for a reason, if the engine has found nothing for the job.
USUAL_HELP: dict[str, Sentences] = {
    reason.value: tuple(gettext_lazy(text) for text in reason.row.helps) for reason in Reason
}

# The message of a cluster's own scheduler, if one decides: it precedes our sentences.
EXPLAINED_ELSEWHERE: Sentences = (
    _("Scheduled by %(cluster)s, which isn't responding: %(scheduler_error)s"),
    _("Scheduled by %(cluster)s: %(scheduler_message)s"),
    _("All tasks of a job run in one cluster. Not enough resources for all of them in: %(clusters)s."),
)

# A taint is not a rule of the job that could be removed.
TOLERATE_TAINTS: Sentences = (_("Tolerate all taints of the nodes."),)

# The recommendations that the engine found for the job.
HELPS: dict[str, Sentences] = {
    "ASK_FEWER_CARDS": (
        _("Reduce GPUs per task to at most %(cards)s."),
        _("Reduce GPUs per task."),
    ),
    "ASK_FEWER_TASKS": (
        _("Reduce the number of tasks to at most %(tasks)s."),
        _("Reduce the number of tasks."),
    ),
    "ASK_LESS": (
        _("Reduce to at most %(each)s per task: %(limit)s of %(flavor)s in total."),
        _("Reduce to %(limit)s of %(flavor)s."),
        _("Reduce to %(limit)s."),
        _("Reduce the requested resources."),
    ),
    "ASK_OTHER_MODEL": (
        _("Accept GPU model %(more)s as well."),
        _("Select an available GPU model: %(models)s."),
        _("Select another GPU model."),
    ),
    "ASK_OTHER_PROFILE": (
        _("Select an available MIG profile: %(profiles)s."),
        _("Select another MIG profile."),
    ),
    "LOOSEN_PLACEMENT": (
        _("Remove the placement constraint: %(rule)s."),
        _("Relax the placement constraints."),
    ),
    "MAKE_PREEMPTIBLE": (
        _("Make the job preemptible to borrow in %(flavor)s."),
        _("Make the job preemptible to borrow."),
    ),
    "OPEN_QUEUE": (
        _("Ask an admin to resume queue %(queue)s, or select another queue."),
        _("Ask an admin to resume the queue, or select another queue."),
    ),
    "FOREIGN_WORK": (
        _("Pods outside Allotment use %(flavor)s GPUs (%(cards)s). Wait, or contact the cluster admin."),
    ),
    "RAISE_QUOTA": (
        _("Request more quota in %(flavor)s: %(short)s."),
        _("Request more quota."),
    ),
    "RESUME": (_("Resume the job."),),
    "WAIT_FOR_RELEASE": (
        _("Wait for more of %(flavor)s to become available to the queue: %(short)s."),
        _("Wait for borrowed quota to be returned."),
    ),
    "WAIT_UNTIL": (
        _("Wait until %(at)s."),
        _("No action required."),
    ),
}

# The outcome of a recommendation that was tried, added to its sentence: it only helps together with others,
# the job then waits for another reason, or the job starts. The outcome is certain if it was tried with all
# other pending jobs and with preemption, as in a pre-check; a cycle tries it without both.
ONLY_WITH = _("Effective only together with the other changes listed here.")
THEN_WAITS: Sentences = (_("The job still waits afterwards: %(also)s."),)
THEN_WAITS_OR_PREEMPTS: Sentences = (_("Without preemption, the job still waits afterwards: %(also)s."),)
THEN_PREEMPTS: Sentences = (
    _("The job would start afterwards by preempting jobs (%(preempts)s) and moving jobs (%(moves)s)."),
    _("The job would start afterwards by moving jobs to other nodes (jobs: %(moves)s)."),
    _("The job would start afterwards by preempting jobs that borrow (jobs: %(preempts_borrowers)s)."),
    _("The job would start afterwards by preempting jobs (jobs: %(preempts)s)."),
)
THEN_SUFFICES = _("The job can start afterwards, unless jobs ahead of it take the capacity.")
THEN_STARTS = _("The job can start afterwards.")
TRIED = frozenset(
    {
        "ASK_FEWER_CARDS",
        "ASK_FEWER_TASKS",
        "ASK_LESS",
        "ASK_OTHER_MODEL",
        "ASK_OTHER_PROFILE",
        "LOOSEN_PLACEMENT",
        "MAKE_PREEMPTIBLE",
        "RAISE_QUOTA",
    }
)
