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
            "%(asked)s tasks of %(role)s must run in one %(level)s; at most %(together)s fit, even "
            "if all %(flavor)s nodes are empty."
        ),
        _(
            "%(asked)s tasks of %(role)s must run together; at most %(together)s fit, even if all "
            "%(flavor)s nodes are empty."
        ),
        _(
            "No %(flavor)s node fits a task of %(cards_per_task)s GPUs, even when empty. Nodes by "
            "cause: %(refused)s."
        ),
        _("No %(flavor)s node fits a task, even when empty. Nodes by cause: %(refused)s."),
        _("Requests %(asked)s per task; the largest matching node has %(largest)s."),
        _("Requests %(asked)s per task; %(flavor)s nodes have at most %(available)s."),
        _("No node is large enough for this job: %(detail)s"),
        _("No node is large enough for this job."),
    ),
    "EXCEEDS_MAX_QUOTA": (
        _(
            "Preempted %(capped)s times, so the job can't borrow: requests %(asked)s, nominal "
            "quota in %(flavor)s is %(limit)s."
        ),
        _("Requests %(asked)s; maximum for queue %(queue)s is %(limit)s (nominal + borrowing)."),
        _("Requests %(asked)s of %(flavor)s; the queue's maximum is %(limit)s."),
        _("Requests %(asked)s; the queue's maximum is %(limit)s (nominal + borrowing)."),
        _("Exceeds the queue's maximum quota (nominal + borrowing)."),
    ),
    "POLICY_DENIED": (
        _("User limit: %(user_limit)s. In use or reserved: %(held)s. Requested: %(asked)s."),
        _(
            "Monthly budget of %(budget_of)s exhausted (%(used_hours)s of %(budget_hours)s "
            "GPU-hours). Only preemptible jobs start in %(preemptible_in)s."
        ),
        _(
            "Monthly budget of %(budget_of)s exhausted (%(used_hours)s of %(budget_hours)s "
            "GPU-hours). No new jobs start in %(flavor)s."
        ),
        _("Denied by policy %(policy)s: requested %(asked)s, limit %(limit)s."),
        _("Denied by policy %(policy)s."),
        _("Denied by a policy, user limit, budget or priority grant."),
    ),
    "QUEUE_STOPPED": (
        _("Queue %(queue)s is on hold. No new jobs are admitted."),
        _("The queue is on hold. No new jobs are admitted."),
    ),
    "SUSPENDED": (
        _(
            "Suspended by %(user)s after a database restore: cluster %(restored)s doesn't show "
            "whether the job ran since the backup. Resume or cancel the job."
        ),
        _("Suspended by %(user)s. Resume the job to queue it again."),
        _("Suspended. Resume the job to queue it again."),
    ),
    "BEHIND_HEAD": (
        _("Strict FIFO queue; %(job)s is ahead. Position %(position)s."),
        _("Strict FIFO queue. Position %(position)s; GPUs requested ahead: %(ahead_cards)s."),
        _("Strict FIFO queue. Position %(position)s."),
        _("Strict FIFO queue; the job ahead can't start yet."),
    ),
    "IN_LINE": (
        _("Position %(position)s of %(waiting)s. Jobs ahead are evaluated first."),
        _("Position %(position)s. Jobs ahead are evaluated first."),
        _("Other jobs in the queue are evaluated first."),
    ),
    "WAITING_FOR_QUOTA": (
        _(
            "Preempted %(capped)s times, so the job can't borrow: requests %(asked)s of "
            "%(flavor)s; %(own_free)s of %(nominal)s nominal available to the job."
        ),
        _("Requests %(asked)s of %(flavor)s. Free: %(own_free)s nominal, %(borrowable)s to borrow."),
        _("Requests %(asked)s; %(free)s of %(nominal)s nominal free, %(borrowable)s can be borrowed."),
        _("Requests %(asked)s of %(flavor)s; %(available)s available."),
        _("Requests %(asked)s; %(free)s of %(nominal)s free."),
        _("Requests %(asked)s; %(available)s available."),
        _("Nominal quota is fully used and no quota can be borrowed."),
    ),
    "WAITING_FOR_BORROWED": (
        _(
            "Preempted %(evictions)s times. To borrow again, %(keep_free)s of %(flavor)s must stay "
            "unused besides the requested %(asked)s; unused now: %(unused)s."
        ),
        _(
            "Preemption lost many GPU-hours in the last 30 days. To borrow, %(keep_free)s of %(flavor)s must "
            "stay unused besides the requested %(asked)s; unused now: %(unused)s."
        ),
        _(
            "The job's borrowed quota was reclaimed; the job can't borrow before "
            "%(drained_until)s. Requests %(asked)s of %(flavor)s."
        ),
        _(
            "Preempted %(capped)s times, so the job can't borrow: requests %(asked)s of "
            "%(flavor)s; %(own_free)s nominal available to the job, the rest is in use."
        ),
        _(
            "Requests %(asked)s of %(flavor)s. Free: %(own_free)s nominal, %(borrowable)s to "
            "borrow; the rest is in use."
        ),
        _("Needs to borrow %(short)s of %(asked)s; currently used by %(holders)s."),
        _("Requests %(asked)s of %(flavor)s; %(available)s available including borrowing."),
        _("Requests %(asked)s; %(available)s available including borrowing."),
        _("The quota is used by others that this job can't preempt."),
    ),
    "NO_ROOM": (
        _("Quota is available, but only %(available)s of %(asked)s tasks fit together in one %(level)s."),
        _(
            "%(available)s of %(asked)s tasks of %(cards_per_task)s GPUs fit. Most free GPUs on "
            "one node: %(most_free_on_one_node)s, total: %(free_cards)s. Unsuitable nodes by "
            "cause: %(refused)s."
        ),
        _(
            "%(available)s of %(asked)s tasks fit. Each needs %(cards_per_task)s GPUs on one node; "
            "at most %(most_free_on_one_node)s are free on one node (%(free_cards)s in total)."
        ),
        _("Quota is available, but only %(largest)s of %(asked)s fit together (%(free)s free, fragmented)."),
        _("Quota is available, but only %(largest)s of %(asked)s fit."),
        _("Requests %(asked)s; %(available)s available on nodes."),
        _("Quota is available, but no nodes fit this job."),
    ),
    "WAITING_FOR_PREEMPTED": (
        _("Nodes reserved. Waiting for preempted jobs to terminate: %(jobs)s jobs, %(tasks)s tasks."),
        _("Preempted jobs: %(victims)s, %(held)s not yet released. Nodes are reserved."),
        _("Preempted jobs: %(victims)s. Nodes are reserved."),
        _("Waiting for preempted jobs to terminate. Nodes are reserved."),
    ),
    "RESERVED_FOR_LARGER": (
        _(
            "Free capacity has been reserved since %(since)s for %(job)s, which is ahead in the "
            "queue and has waited long."
        ),
        _("%(available)s free, reserved for %(job)s."),
        _("Free capacity is reserved for %(job)s."),
        _("Free capacity is reserved for a larger job."),
    ),
    "PROTECTED": (
        _("Preemptible jobs: %(victims)s, in their guaranteed run time until %(until)s."),
        _("Preemptible jobs are in their guaranteed run time until %(until)s."),
        _("Preemptible jobs are in their guaranteed run time."),
    ),
    "BACKOFF": (
        _("Failed starts: %(attempts)s. Next retry: %(retry_at)s."),
        _("Failed to start. Next retry: %(retry_at)s."),
        _("Failed to start. Retrying soon."),
    ),
    "CLUSTER_UNREACHABLE": (
        _("Cluster %(cluster)s unreachable since %(at)s. The job keeps its resources."),
        _("Cluster %(cluster)s is unreachable. The job keeps its resources."),
    ),
    "POD_NOT_CREATED": (
        _("The cluster hasn't confirmed the creation of pod %(pod)s. Retrying… %(message)s"),
        _("The cluster hasn't confirmed the creation of the pods. Retrying…"),
    ),
    "IMAGE_PULL_FAILED": (
        _("Can't pull the image of pod %(pod)s (pods: %(pods)s). %(cause)s: %(message)s"),
        _("Can't pull the image of pod %(pod)s (pods: %(pods)s): %(cause)s."),
    ),
    "CONTAINER_NOT_CREATED": (
        _("Can't create the container of pod %(pod)s (pods: %(pods)s). %(cause)s: %(message)s"),
        _("Can't create the container of pod %(pod)s (pods: %(pods)s): %(cause)s."),
    ),
    "VOLUME_NOT_MOUNTED": (
        _("Can't mount a volume of pod %(pod)s (pods: %(pods)s). %(cause)s: %(message)s"),
        _("Can't mount a volume of pod %(pod)s (pods: %(pods)s): %(cause)s."),
    ),
    "POD_NOT_STARTED": (
        _("Pod %(pod)s hasn't started (pods: %(pods)s). %(cause)s: %(message)s"),
        _("Pod %(pod)s was created at %(at)s and hasn't started (pods: %(pods)s)."),
        _("The pods haven't started yet."),
    ),
    "POD_TERMINATING": (
        _("Pod %(pod)s, deleted at %(at)s, is kept by its finalizers: %(finalizers)s."),
        _("Deletion of pod %(pod)s was requested at %(at)s; the pod still exists (pods: %(pods)s)."),
        _("Deletion of the pods was requested; they still exist."),
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
        _("Submitted %(age)s ago; not evaluated yet."),
        _("Not evaluated yet."),
    ),
}

# What the engine of a cluster's own says, where one decides: it comes before any sentence of ours.
TOLD_ELSEWHERE: Sentences = (
    _("Scheduled by %(cluster)s, which isn't responding: %(unheard)s"),
    _("Scheduled by %(cluster)s: %(told)s"),
    _("All tasks of a job run in one cluster. Not enough resources for all of them in: %(clusters)s."),
)

# A taint is no rule of the job that could be removed.
TOLERATE_TAINTS: Sentences = (_("Tolerate all taints of the nodes."),)

# What would help, as the engine found out for this job.
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

# What becomes of the job then, said behind a recommendation that was tried: it is of use only beside others,
# it lets the job wait for something else, or it lets the job start.
ONLY_WITH = _("Effective only together with the other changes listed here.")
THEN_WAITS: Sentences = (_("The job still waits afterwards: %(also)s."),)
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

# What usually helps against a reason, where the engine has found nothing for this very job.
USUAL_HELP: dict[str, Sentences] = {
    "NEVER_FITS": (
        _("Reduce to %(largest)s per task, or select another GPU model."),
        _("Reduce resources per task or select another GPU model."),
    ),
    "EXCEEDS_MAX_QUOTA": (
        _("Reduce to %(limit)s, or request more quota."),
        _("Reduce the request, or request more quota."),
    ),
    "POLICY_DENIED": (
        _("Wait for this user's other jobs to finish (limit: %(user_limit)s)."),
        _("Make the job preemptible to start it in %(preemptible_in)s."),
        _("Wait for next month, or ask a parent admin of %(budget_of)s to raise the budget."),
        _("Reduce to %(limit)s, or contact a workspace admin."),
        _("Contact a workspace admin."),
    ),
    "QUEUE_STOPPED": (_("Select another queue, or ask an admin to resume this one."),),
    "SUSPENDED": (_("Resume the job."),),
    "BEHIND_HEAD": (_("Wait for the job ahead, or use a queue with backfill."),),
    "IN_LINE": (_("No action required. The scheduler evaluates the job shortly."),),
    "WAITING_FOR_QUOTA": (
        _("Reduce to %(free)s, or request %(short)s more quota."),
        _("Reduce the request, select another pool, or request more quota."),
    ),
    "WAITING_FOR_BORROWED": (
        _("Reduce to %(available)s, or wait for borrowers to finish."),
        _("Stay within nominal quota, or wait for borrowers to finish."),
    ),
    "NO_ROOM": (
        _("Reduce to %(largest)s, or relax the placement constraints."),
        _("Use smaller tasks, or relax the placement constraints."),
    ),
    "WAITING_FOR_PREEMPTED": (_("No action required. The job starts when the preempted pods are deleted."),),
    "RESERVED_FOR_LARGER": (
        _("Wait for %(job)s to start, or reduce the request to the capacity not reserved since %(since)s."),
        _("Set a maximum run time below %(window)s to allow backfill."),
        _("Set a short maximum run time to allow backfill."),
    ),
    "PROTECTED": (_("Wait for the guaranteed run time to end, or reduce the request."),),
    "BACKOFF": (_("Check the events of the last attempt."),),
    "CLUSTER_UNREACHABLE": (_("No action required. The job continues when the cluster is reachable."),),
    "POD_NOT_CREATED": (_("No action required. After ten attempts the job is requeued."),),
    "IMAGE_PULL_FAILED": (_("Check the image name and tag, and the pull secret in the job file."),),
    "CONTAINER_NOT_CREATED": (
        _("Check the secrets, config maps, command and working directory in the job file."),
    ),
    "VOLUME_NOT_MOUNTED": (_("Check that the volume claims, secrets and config maps exist."),),
    "POD_NOT_STARTED": (_("A large image takes time to pull. See the pod's events below."),),
    "POD_TERMINATING": (_("Its GPUs stay allocated until the pod is deleted. Contact a platform admin."),),
    "TASKS_GIVEN_UP": (
        _("Fix what kept the pod from starting, then suspend and resume the job to run all tasks."),
    ),
    "PENDING_EVALUATION": (_("No action required. Platform admins are alerted after 10 s."),),
}
