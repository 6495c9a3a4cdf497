"""The texts behind reason codes and help codes.

Several per code, the most telling first; `frontend.texts.reasons` takes the first whose numbers are all
known. They are worded so that no number decides between singular and plural.
"""

from __future__ import annotations

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

Sentences = tuple[str | Promise, ...]

SENTENCES: dict[str, Sentences] = {
    "NEVER_FITS": (
        _(
            "%(asked)s tasks of %(role)s have to run in one domain of %(level)s; even if every node of"
            " %(flavor)s were empty, at most %(together)s could."
        ),
        _(
            "%(asked)s tasks of %(role)s have to run together; even if every node of %(flavor)s were empty,"
            " at most %(together)s could."
        ),
        _(
            "No node of %(flavor)s can hold a task of %(cards_per_task)s GPUs, even when empty."
            " Nodes by cause: %(refused)s."
        ),
        _("No node of %(flavor)s can hold a task, even when empty. Nodes by cause: %(refused)s."),
        _("It asks for %(asked)s per task; the largest node that matches has %(largest)s."),
        _("It asks for %(asked)s per task; a node of %(flavor)s has at most %(available)s."),
        _("No node could hold it even if every node were empty: %(detail)s"),
        _("No node could hold it even if every node were empty."),
    ),
    "EXCEEDS_MAX_QUOTA": (
        _(
            "Preempted %(capped)s times, so the job can't borrow: requested %(asked)s, the "
            "queue's own quota of %(flavor)s is %(limit)s."
        ),
        _("It asks for %(asked)s; %(queue)s can never have more than %(limit)s, borrowing included."),
        _("It asks for %(asked)s of %(flavor)s; the queue can never have more than %(limit)s."),
        _("It asks for %(asked)s; the queue can never have more than %(limit)s, borrowing included."),
        _("It asks for more than the queue can ever have, borrowing included."),
    ),
    "POLICY_DENIED": (
        _(
            "One user may hold %(user_limit)s in this workspace; %(held)s are held or promised, and it asks"
            " for %(asked)s."
        ),
        _(
            "The budget of %(budget_of)s is used up this month: %(used_hours)s of %(budget_hours)s GPU-hours."
            " Only preemptible jobs start in %(preemptible_in)s."
        ),
        _(
            "The budget of %(budget_of)s is used up this month: %(used_hours)s of %(budget_hours)s GPU-hours."
            " Nothing new starts in %(flavor)s."
        ),
        _("%(policy)s refuses it: asked %(asked)s, allowed %(limit)s."),
        _("%(policy)s refuses it."),
        _("A policy, user limit, budget or priority right refuses it."),
    ),
    "QUEUE_STOPPED": (
        _("The queue %(queue)s is on hold: it starts nothing new."),
        _("The queue is on hold or closed: it starts nothing new."),
    ),
    "SUSPENDED": (
        _(
            "Suspended by %(user)s after a database restore: cluster %(restored)s doesn't show "
            "whether the job ran since the backup. Resume or cancel the job."
        ),
        _("%(user)s suspended it. It waits until someone resumes it."),
        _("It was suspended. It waits until someone resumes it."),
    ),
    "BEHIND_HEAD": (
        _("The queue keeps strict order and %(job)s is ahead; position %(position)s."),
        _("The queue keeps strict order; position %(position)s, GPUs asked for ahead: %(ahead_cards)s."),
        _("The queue keeps strict order; position %(position)s."),
        _("The queue keeps strict order and the job ahead cannot start yet."),
    ),
    "IN_LINE": (
        _("Position %(position)s of %(waiting)s: the jobs ahead are looked at first."),
        _("Position %(position)s: the jobs ahead are looked at first."),
        _("Other jobs of the queue are looked at first."),
    ),
    "WAITING_FOR_QUOTA": (
        _(
            "Preempted %(capped)s times, so the job can't borrow: requested %(asked)s of "
            "%(flavor)s, free for the job %(own_free)s of the queue's own %(nominal)s."
        ),
        _(
            "Requested %(asked)s of %(flavor)s. Free: %(own_free)s of the queue's own quota and "
            "%(borrowable)s to borrow."
        ),
        _("Asked %(asked)s, free of nominal %(free)s of %(nominal)s, may borrow %(borrowable)s more."),
        _("Asked %(asked)s of %(flavor)s, available %(available)s."),
        _("Asked %(asked)s, free %(free)s of %(nominal)s."),
        _("Asked %(asked)s, available %(available)s."),
        _("The queue's own quota is in use, and nothing may be borrowed now."),
    ),
    "WAITING_FOR_BORROWED": (
        _(
            "Preempted before: %(evictions)s times. The job can borrow again once %(keep_free)s "
            "of %(flavor)s stay unused beside the requested %(asked)s; unused now: %(unused)s."
        ),
        _(
            "Borrowed quota was reclaimed from the job, which can't borrow again before "
            "%(drained_until)s: requested %(asked)s of %(flavor)s."
        ),
        _(
            "Preempted %(capped)s times, so the job can't borrow: requested %(asked)s of "
            "%(flavor)s, free for the job %(own_free)s of the queue's own quota; others use the "
            "rest."
        ),
        _(
            "Requested %(asked)s of %(flavor)s. Free: %(own_free)s of the queue's own quota and "
            "%(borrowable)s to borrow; others use the rest."
        ),
        _("%(short)s of %(asked)s would have to be borrowed; %(holders)s hold them now."),
        _("Asked %(asked)s of %(flavor)s, available to borrow %(available)s: others use the rest."),
        _("Asked %(asked)s, available to borrow %(available)s: others use the rest."),
        _("The quota exists, but others use it and may not be preempted for this job."),
    ),
    "NO_ROOM": (
        _("Quota is free, but only %(available)s of %(asked)s tasks have room together in one %(level)s."),
        _(
            "Room for %(available)s of %(asked)s tasks of %(cards_per_task)s GPUs. Most free GPUs on one"
            " node: %(most_free_on_one_node)s, in all: %(free_cards)s."
            " Nodes without room, by cause: %(refused)s."
        ),
        _(
            "Room for %(available)s of %(asked)s tasks: each needs %(cards_per_task)s GPUs on one node, and"
            " the most free on one is %(most_free_on_one_node)s (free in all: %(free_cards)s)."
        ),
        _("Quota is free, but the largest place holds %(largest)s of %(asked)s; free in pieces: %(free)s."),
        _("Quota is free, but the largest place holds %(largest)s of %(asked)s."),
        _("Asked %(asked)s, available on the nodes %(available)s."),
        _("Quota is free, but no set of nodes holds it."),
    ),
    "WAITING_FOR_PREEMPTED": (
        _("Its place is promised; tasks that have yet to leave: %(tasks)s, of %(jobs)s other jobs."),
        _("Jobs told to leave: %(victims)s, still holding %(held)s. Its place is kept."),
        _("Jobs told to leave: %(victims)s. Its place is kept until they are gone."),
        _("Jobs were told to leave; its place is kept until they are gone."),
    ),
    "RESERVED_FOR_LARGER": (
        _(
            "Free capacity has been reserved since %(since)s for %(job)s, which is ahead in the "
            "queue and has waited long."
        ),
        _("There is room for %(available)s, kept for %(job)s ahead of it."),
        _("There is room, kept for %(job)s ahead of it."),
        _("There is room, kept for a larger job ahead of it."),
    ),
    "PROTECTED": (
        _("Jobs that could give way: %(victims)s, inside their guaranteed run time until %(until)s."),
        _("The jobs that could give way are inside their guaranteed run time until %(until)s."),
        _("The jobs that could give way are inside their guaranteed run time."),
    ),
    "BACKOFF": (
        _("Failed starts: %(attempts)s; next try at %(retry_at)s."),
        _("It failed to start; next try at %(retry_at)s."),
        _("It failed to start and is tried again shortly."),
    ),
    "CLUSTER_UNREACHABLE": (
        _("The cluster %(cluster)s has not answered since %(at)s. The job keeps what it holds."),
        _("The cluster %(cluster)s does not answer. The job keeps what it holds."),
    ),
    "POD_NOT_CREATED": (
        _("The cluster has not confirmed that the pod %(pod)s was created, and is asked again: %(message)s"),
        _("The cluster has not confirmed that its pods were created, and is asked again."),
    ),
    "IMAGE_PULL_FAILED": (
        _("The image of the pod %(pod)s cannot be pulled (pods: %(pods)s). %(cause)s: %(message)s"),
        _("The image of the pod %(pod)s cannot be pulled (pods: %(pods)s): %(cause)s."),
    ),
    "CONTAINER_NOT_CREATED": (
        _("The container of the pod %(pod)s cannot be created (pods: %(pods)s). %(cause)s: %(message)s"),
        _("The container of the pod %(pod)s cannot be created (pods: %(pods)s): %(cause)s."),
    ),
    "VOLUME_NOT_MOUNTED": (
        _("A volume of the pod %(pod)s cannot be mounted (pods: %(pods)s). %(cause)s: %(message)s"),
        _("A volume of the pod %(pod)s cannot be mounted (pods: %(pods)s): %(cause)s."),
    ),
    "POD_NOT_STARTED": (
        _("The pod %(pod)s has not started (pods: %(pods)s). %(cause)s: %(message)s"),
        _("The pod %(pod)s was created at %(at)s and has not started (pods: %(pods)s)."),
        _("Its pods have not started yet."),
    ),
    "POD_TERMINATING": (
        _("The cluster keeps the pod %(pod)s, told to end at %(at)s, for its finalizers: %(finalizers)s."),
        _("The pod %(pod)s was told to end at %(at)s and is still there (pods: %(pods)s)."),
        _("Its pods were told to end and are still there."),
    ),
    "TASKS_GIVEN_UP": (
        _(
            "%(tasks)s of the tasks didn't start in time; the job runs without them and doesn't grow again"
            " while running. Pod %(pod)s: %(message)s"
        ),
        _(
            "%(tasks)s of the tasks didn't start in time, among them pod %(pod)s; the job runs without them"
            " and doesn't grow again while running."
        ),
        _("The job runs without tasks that didn't start in time, and doesn't grow again while running."),
    ),
    "PENDING_EVALUATION": (
        _("Submitted %(age)s ago; no cycle has looked at it yet."),
        _("No cycle has looked at it yet."),
    ),
}

# What the engine of a cluster's own says, where one decides: it comes before any sentence of ours.
TOLD_ELSEWHERE: Sentences = (
    _("%(cluster)s decides about it and does not answer, so nothing is concluded: %(unheard)s"),
    _("%(cluster)s decides about it and says: %(told)s"),
    _("All tasks of a job run in one cluster, and none of these has room for all of them: %(clusters)s."),
)

# A taint is no rule of the job that could be removed.
TOLERATE_TAINTS: Sentences = (_("Tolerate all taints of the nodes."),)

# What would help, as the engine found out for this job.
HELPS: dict[str, Sentences] = {
    "ASK_FEWER_CARDS": (
        _("Ask for fewer GPUs per task: at most %(cards)s."),
        _("Ask for fewer GPUs per task."),
    ),
    "ASK_FEWER_TASKS": (
        _("Run fewer tasks: at most %(tasks)s."),
        _("Run fewer tasks."),
    ),
    "ASK_LESS": (
        _("Ask for at most %(each)s per task: %(limit)s of %(flavor)s in all."),
        _("Ask for at most %(limit)s of %(flavor)s."),
        _("Ask for at most %(limit)s."),
        _("Ask for less."),
    ),
    "ASK_OTHER_MODEL": (
        _("Select an available GPU model: %(models)s."),
        _("Select another GPU model."),
    ),
    "ASK_OTHER_PROFILE": (
        _("Select an available MIG profile: %(profiles)s."),
        _("Select another MIG profile."),
    ),
    "LOOSEN_PLACEMENT": (
        _("Remove this placement rule: %(rule)s."),
        _("Loosen the placement rules."),
    ),
    "MAKE_PREEMPTIBLE": (
        _("Make it preemptible: it could then borrow in %(flavor)s."),
        _("Make it preemptible: it could then borrow."),
    ),
    "OPEN_QUEUE": (
        _("Ask an admin to release the queue %(queue)s, or choose another one."),
        _("Ask an admin to release the queue, or choose another one."),
    ),
    "FOREIGN_WORK": (
        _(
            "Pods that were not started here hold %(cards)s GPUs of %(flavor)s: wait for their end, or ask"
            " who runs the cluster."
        ),
    ),
    "RAISE_QUOTA": (
        _("Request more quota of %(flavor)s: %(short)s."),
        _("Request more quota."),
    ),
    "RESUME": (_("Resume it when it should run."),),
    "WAIT_FOR_RELEASE": (
        _("Wait until more of %(flavor)s is free for the queue: %(short)s."),
        _("Wait until others give back what they borrowed."),
    ),
    "WAIT_UNTIL": (
        _("Wait until %(at)s."),
        _("Wait a little."),
    ),
}

# What becomes of the job then, said behind a recommendation that was tried: it is of use only beside others,
# it lets the job wait for something else, or it lets the job start.
ONLY_WITH = _("Effective only together with the other changes listed here.")
THEN_WAITS: Sentences = (_("The job then still waits: %(also)s."),)
THEN_STARTS = _("The job can then start.")
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

# What usually helps against a reason, where the engine has found nothing for this very job.
USUAL_HELP: dict[str, Sentences] = {
    "NEVER_FITS": (
        _("Ask for at most %(largest)s per task, or another model."),
        _("Ask for less per task, or another model."),
    ),
    "EXCEEDS_MAX_QUOTA": (
        _("Ask for at most %(limit)s, or request more quota."),
        _("Ask for less, or request more quota."),
    ),
    "POLICY_DENIED": (
        _("Wait until other jobs of the same user end; together they may hold %(user_limit)s."),
        _("Make it preemptible: then it may start in %(preemptible_in)s."),
        _("Wait for the next month, or ask an admin above %(budget_of)s for more GPU-hours."),
        _("Stay within %(limit)s, or ask an admin of the workspace."),
        _("Ask an admin of the workspace."),
    ),
    "QUEUE_STOPPED": (_("Choose another queue, or ask an admin to release this one."),),
    "SUSPENDED": (_("Resume it when it should run."),),
    "BEHIND_HEAD": (_("Wait for the job ahead, or use a queue that fills gaps."),),
    "IN_LINE": (_("Nothing to do: it is looked at in a moment."),),
    "WAITING_FOR_QUOTA": (
        _("Ask for at most %(free)s, or request %(short)s more."),
        _("Ask for less, use another flavor, or request more quota."),
    ),
    "WAITING_FOR_BORROWED": (
        _("Ask for at most %(available)s, or wait until the borrowers finish."),
        _("Stay within the nominal quota, or wait until the borrowers finish."),
    ),
    "NO_ROOM": (
        _("At most %(largest)s start now; or loosen the placement rules."),
        _("Use smaller tasks, or loosen the placement rules."),
    ),
    "WAITING_FOR_PREEMPTED": (_("Nothing to do: it starts when the cluster confirms that they are gone."),),
    "RESERVED_FOR_LARGER": (
        _(
            "Wait until %(job)s has started, or request less than what is left beside the "
            "capacity reserved since %(since)s."
        ),
        _("A run-time limit below %(window)s would let it use the gap."),
        _("A short run-time limit may let it use the gap."),
    ),
    "PROTECTED": (_("Wait until the protection ends, or ask for less."),),
    "BACKOFF": (_("Look at the last attempt's events and fix what failed."),),
    "CLUSTER_UNREACHABLE": (_("Nothing to do: it goes on when the cluster answers."),),
    "POD_NOT_CREATED": (_("Nothing to do: after ten tries it gives its place back and is queued again."),),
    "IMAGE_PULL_FAILED": (_("Check the image's name and tag, and the pull secret of the job file."),),
    "CONTAINER_NOT_CREATED": (
        _("Check the secrets and config maps that the job file names, its command and its folder."),
    ),
    "VOLUME_NOT_MOUNTED": (_("Check that the claims, secrets and config maps of its volumes exist."),),
    "POD_NOT_STARTED": (_("A large image takes time; the pod's events below say what it does."),),
    "POD_TERMINATING": (_("Its cards stay held until the cluster has removed the pod: ask an operator."),),
    "TASKS_GIVEN_UP": (
        _("Fix what kept the pod from starting, then suspend and resume the job to run all tasks."),
    ),
    "PENDING_EVALUATION": (_("Nothing to do; an operator is told if it takes longer than 10 s."),),
}
