"""The table of reason codes: why a job is pending, doesn't start or still terminates.

One row declares a code: its label, severity, gate, meaning, sentences and usual help. The engine, the
services, the delegation to engines of clusters, the console and `docs/reasons.md` all use this table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from foundation.core.quantities import gettext_noop as _
from foundation.core.reason_row import Gate, ReasonRow, ReasonSeverity

PAGE: Final = "docs/reasons.md"
"""The page of the documentation that explains each code below a heading of its own."""


class Reason(StrEnum):
    """The code of a reason. Of several reasons the first is reported, which is the most fundamental."""

    row: ReasonRow

    def __new__(cls, row: ReasonRow) -> Reason:
        """Make the member whose text is the code of the row."""
        member = str.__new__(cls, row.code)
        member._value_, member.row = row.code, row
        return member

    @property
    def anchor(self) -> str:
        """The address in the documentation of the section on the code."""
        return f"{PAGE}#{self.row.code.lower()}"

    NEVER_FITS = ReasonRow(
        "NEVER_FITS",
        _("Unschedulable"),
        ReasonSeverity.ERROR,
        Gate.FIT,
        "No node could hold a task, or no nodes all tasks together, even if nothing else ran.",
        sentences=(
            _(
                "%(asked)s tasks of %(role)s must run in one %(level)s; at most %(together)s fit,"
                " even if all %(flavor)s nodes are empty."
            ),
            _(
                "%(asked)s tasks of %(role)s must run together; at most %(together)s fit, even if"
                " all %(flavor)s nodes are empty."
            ),
            _(
                "No %(flavor)s node fits a task, even when empty. GPUs per task: %(cards_per_task)s."
                " Nodes by cause: %(refused)s."
            ),
            _("No %(flavor)s node fits a task, even when empty. Nodes by cause: %(refused)s."),
            _("Requests %(asked)s per task; the largest matching node has %(largest)s."),
            _("Requests %(asked)s per task; %(flavor)s nodes have at most %(available)s."),
            _("No node is large enough for this job: %(detail)s"),
            _("No node is large enough for this job."),
        ),
        helps=(
            _("Reduce to %(largest)s per task, or select another GPU model."),
            _("Reduce resources per task or select another GPU model."),
        ),
    )

    EXCEEDS_MAX_QUOTA = ReasonRow(
        "EXCEEDS_MAX_QUOTA",
        _("Exceeds maximum quota"),
        ReasonSeverity.ERROR,
        Gate.QUOTA,
        "The request is above what the queue could ever get: its nominal quota and its borrowing limit.",
        sentences=(
            _(
                "Preemptions: %(capped)s, so the job can't borrow: requests %(asked)s, nominal"
                " quota in %(flavor)s is %(limit)s."
            ),
            _("Requests %(asked)s; maximum for queue %(queue)s is %(limit)s (nominal + borrowing)."),
            _("Requests %(asked)s of %(flavor)s; the queue's maximum is %(limit)s."),
            _("Requests %(asked)s; the queue's maximum is %(limit)s (nominal + borrowing)."),
            _("Exceeds the queue's maximum quota (nominal + borrowing)."),
        ),
        helps=(
            _("Reduce to %(limit)s, or request more quota."),
            _("Reduce the request, or request more quota."),
        ),
    )

    POLICY_DENIED = ReasonRow(
        "POLICY_DENIED",
        _("Denied by policy"),
        ReasonSeverity.ERROR,
        Gate.POLICY,
        "A user limit, an exhausted budget or a policy of the workspace or a parent doesn't allow the job.",
        sentences=(
            _("User limit: %(user_limit)s. In use or reserved: %(held)s. Requested: %(asked)s."),
            _(
                "Monthly budget of %(budget_of)s exhausted (%(used_hours)s of %(budget_hours)s"
                " GPU-hours). Only preemptible jobs start in %(preemptible_in)s."
            ),
            _(
                "Monthly budget of %(budget_of)s exhausted (%(used_hours)s of %(budget_hours)s"
                " GPU-hours). No new jobs start in %(flavor)s."
            ),
            _("Denied by policy %(policy)s: requested %(asked)s, limit %(limit)s."),
            _("Denied by policy %(policy)s."),
            _("Denied by a policy, user limit, budget or priority grant."),
        ),
        helps=(
            _("Wait for this user's other jobs to finish (limit: %(user_limit)s)."),
            _("Make the job preemptible to start it in %(preemptible_in)s."),
            _("Wait for next month, or ask a parent admin of %(budget_of)s to raise the budget."),
            _("Reduce to %(limit)s, or contact a workspace admin."),
            _("Contact a workspace admin."),
        ),
    )

    QUEUE_STOPPED = ReasonRow(
        "QUEUE_STOPPED",
        _("Queue on hold"),
        ReasonSeverity.WAITING,
        Gate.OPEN,
        "An admin set the queue on hold; no job of it is admitted.",
        sentences=(
            _("Queue %(queue)s is on hold. No new jobs are admitted."),
            _("The queue is on hold. No new jobs are admitted."),
        ),
        helps=(_("Select another queue, or ask an admin to resume this one."),),
    )

    SUSPENDED = ReasonRow(
        "SUSPENDED",
        _("Suspended"),
        ReasonSeverity.PAUSED,
        Gate.OPEN,
        "A user suspended the job; it keeps its place in the history and holds nothing.",
        sentences=(
            _(
                "Suspended by %(user)s after a database restore: cluster %(restored)s doesn't show"
                " whether the job ran since the backup. Resume or cancel the job."
            ),
            _("Suspended by %(user)s. Resume the job to queue it again."),
            _("Suspended. Resume the job to queue it again."),
        ),
        helps=(_("Resume the job."),),
    )

    BEHIND_HEAD = ReasonRow(
        "BEHIND_HEAD",
        _("Waiting for queue head"),
        ReasonSeverity.WAITING,
        Gate.TURN,
        "The queue is strict FIFO and the job ahead can't start yet.",
        sentences=(
            _("Strict FIFO queue; the first job, %(head)s, can't start yet. Position %(position)s."),
            _("Strict FIFO queue. Position %(position)s; GPUs requested ahead: %(ahead_cards)s."),
            _("Strict FIFO queue. Position %(position)s."),
            _("Strict FIFO queue; the job ahead can't start yet."),
        ),
        helps=(_("Wait for the job ahead, or use a queue with backfill."),),
    )

    IN_LINE = ReasonRow(
        "IN_LINE",
        _("Waiting in queue"),
        ReasonSeverity.WAITING,
        Gate.TURN,
        "Jobs ahead in the queue are evaluated first.",
        sentences=(
            _("Position %(position)s of %(waiting)s. Jobs ahead are evaluated first."),
            _("Position %(position)s. Jobs ahead are evaluated first."),
            _("Other jobs in the queue are evaluated first."),
        ),
        helps=(_("No action required. The scheduler evaluates the job shortly."),),
    )

    WAITING_FOR_QUOTA = ReasonRow(
        "WAITING_FOR_QUOTA",
        _("Waiting for quota"),
        ReasonSeverity.WAITING,
        Gate.QUOTA,
        "The queue's own quota is in use, and the job may not borrow or nothing is left to borrow.",
        sentences=(
            _(
                "Preemptions: %(capped)s, so the job can't borrow: requests %(asked)s of"
                " %(flavor)s; %(own_free)s of %(nominal)s nominal available to the job."
            ),
            _("Requests %(asked)s of %(flavor)s. Free: %(own_free)s nominal, %(borrowable)s to borrow."),
            _("Requests %(asked)s; %(free)s of %(nominal)s nominal free, %(borrowable)s can be borrowed."),
            _("Requests %(asked)s of %(flavor)s; %(available)s available."),
            _("Requests %(asked)s; %(free)s of %(nominal)s free."),
            _("Requests %(asked)s; %(available)s available."),
            _("Nominal quota is fully used and no quota can be borrowed."),
        ),
        helps=(
            _("Reduce to %(free)s, or request %(short)s more quota."),
            _("Reduce the request, select another pool, or request more quota."),
        ),
    )

    WAITING_FOR_BORROWED = ReasonRow(
        "WAITING_FOR_BORROWED",
        _("Waiting to borrow quota"),
        ReasonSeverity.WAITING,
        Gate.COHORT,
        "The job would start on quota that others own and use at the moment.",
        sentences=(
            _(
                "Preemptions: %(evictions)s. To borrow again, %(keep_free)s of %(flavor)s must"
                " stay unused besides the requested %(asked)s; unused now: %(unused)s."
            ),
            _(
                "Preemption lost many GPU-hours in the last 30 days. To borrow, %(keep_free)s of"
                " %(flavor)s must stay unused besides the requested %(asked)s; unused now:"
                " %(unused)s."
            ),
            _(
                "The job's borrowed quota was reclaimed; the job can't borrow before"
                " %(drained_until)s. Requests %(asked)s of %(flavor)s."
            ),
            _(
                "Preemptions: %(capped)s, so the job can't borrow: requests %(asked)s of"
                " %(flavor)s; %(own_free)s nominal available to the job, the rest is in use."
            ),
            _(
                "Requests %(asked)s of %(flavor)s. Free: %(own_free)s nominal, %(borrowable)s to"
                " borrow; the rest is in use."
            ),
            _("Needs to borrow %(short)s of %(asked)s; currently used by %(holders)s."),
            _("Requests %(asked)s of %(flavor)s; %(available)s available including borrowing."),
            _("Requests %(asked)s; %(available)s available including borrowing."),
            _("The quota is used by others that this job can't preempt."),
        ),
        helps=(
            _("Reduce to %(available)s, or wait for borrowers to finish."),
            _("Stay within nominal quota, or wait for borrowers to finish."),
        ),
    )

    NO_ROOM = ReasonRow(
        "NO_ROOM",
        _("Insufficient resources on nodes"),
        ReasonSeverity.WAITING,
        Gate.ROOM,
        "Quota is available, but the free capacity of the nodes doesn't hold the job as it is.",
        sentences=(
            _("Quota is available, but only %(available)s of %(asked)s tasks fit together in one %(level)s."),
            _(
                "Tasks that fit: %(available)s of %(asked)s. GPUs per task: %(cards_per_task)s. Most"
                " free GPUs on one node: %(most_free_on_one_node)s, total: %(free_cards)s. Unsuitable"
                " nodes by cause: %(refused)s."
            ),
            _(
                "Tasks that fit: %(available)s of %(asked)s. GPUs per task: %(cards_per_task)s. Most"
                " free GPUs on one node: %(most_free_on_one_node)s, total: %(free_cards)s."
            ),
            _(
                "Quota is available, but only %(largest)s of %(asked)s fit together (%(free)s free,"
                " fragmented)."
            ),
            _("Quota is available, but only %(largest)s of %(asked)s fit."),
            _("Requests %(asked)s; %(available)s available on nodes."),
            _("Quota is available, but no nodes fit this job."),
        ),
        helps=(
            _("Reduce to %(largest)s, or relax the placement constraints."),
            _("Use smaller tasks, or relax the placement constraints."),
        ),
    )

    VOLUME_NODE_CONFLICT = ReasonRow(
        "VOLUME_NODE_CONFLICT",
        _("Volume out of reach of free nodes"),
        ReasonSeverity.WAITING,
        Gate.ROOM,
        "Nodes would take the job, but they can't mount the volume of a claim: its node affinity names other"
        " nodes, for example those of another zone. A volume that doesn't exist yet is created for the node"
        " that was selected for it, or for the topologies that its storage class allows.",
        sentences=(
            _(
                "Nodes that would take a task can't mount the volumes of all these claims (nodes:"
                " %(excluded_nodes)s): %(claims)s."
            ),
            _(
                "Until the volume of claim %(uncreated_claim)s is created, tasks can run only on the node"
                " that was selected for it. Other nodes would take a task (nodes: %(excluded_nodes)s)."
            ),
            _(
                "Nodes that would take a task can't mount the volume of claim %(claim)s (nodes:"
                " %(excluded_nodes)s). Tasks that fit in one %(level)s of the other nodes: %(available)s of"
                " %(asked)s."
            ),
            _(
                "Nodes that would take a task can't mount the volume of claim %(claim)s (nodes:"
                " %(excluded_nodes)s). Tasks that fit on the other nodes: %(available)s of %(asked)s."
            ),
            _(
                "Nodes that would take a task can't mount the volume of claim %(claim)s (nodes:"
                " %(excluded_nodes)s)."
            ),
            _("The nodes that would take this job can't mount the volume of one of its claims."),
        ),
        helps=(
            _(
                "Wait until the volume of claim %(uncreated_claim)s is created, after which other nodes may"
                " be able to mount it, or mount another claim."
            ),
            _("Wait for the nodes that can mount the volume, or mount another claim."),
        ),
    )

    VOLUME_NODES_TOO_SMALL = ReasonRow(
        "VOLUME_NODES_TOO_SMALL",
        _("Unschedulable with its volumes"),
        ReasonSeverity.ERROR,
        Gate.FIT,
        "The nodes that can mount the volumes of the job's claims don't hold it, even if nothing else ran;"
        " nodes that can't mount them would.",
        sentences=(
            _(
                "Empty %(flavor)s nodes that would take a task can't mount the volumes of all these claims"
                " (nodes: %(suitable_nodes)s): %(claims)s."
            ),
            _(
                "Empty %(flavor)s nodes that would take a task can't mount the volume of claim %(claim)s"
                " (nodes: %(suitable_nodes)s). Tasks that fit in one %(level)s of the nodes that can mount"
                " it: %(available)s of %(asked)s."
            ),
            _(
                "Empty %(flavor)s nodes that would take a task can't mount the volume of claim %(claim)s"
                " (nodes: %(suitable_nodes)s). Tasks that fit on the nodes that can mount it: %(available)s"
                " of %(asked)s."
            ),
            _("The nodes that can mount the volumes of this job don't hold it, even when empty."),
        ),
        helps=(
            _("Mount claims whose volumes the same nodes can mount, instead of all of these: %(claims)s."),
            _("Use fewer or smaller tasks, or mount claims whose volumes other nodes can mount."),
        ),
    )

    VOLUME_CLAIM_NOT_BOUND = ReasonRow(
        "VOLUME_CLAIM_NOT_BOUND",
        _("Volume claim not bound"),
        ReasonSeverity.ERROR,
        Gate.FIT,
        "A persistent volume claim that the job mounts is missing, not bound to a volume, or being deleted.",
        sentences=(
            _("Volume claim %(missing_claim)s doesn't exist in cluster %(cluster)s."),
            _("Volume claim %(deleting_claim)s in cluster %(cluster)s is being deleted."),
            _("Volume claim %(pending_claim)s in cluster %(cluster)s isn't bound to a volume."),
            _(
                "Volume claim %(static_claim)s in cluster %(cluster)s isn't bound to a volume, and its"
                " storage class doesn't create one (kubernetes.io/no-provisioner)."
            ),
            _(
                "Volume claim %(class_unread_claim)s in cluster %(cluster)s isn't bound to a volume, and the"
                " platform's account may not read its storage class (get on storageclasses)."
            ),
            _(
                "Volume claim %(not_permitted_claim)s in cluster %(cluster)s isn't bound: its volume is"
                " created once a node is selected, which the platform's account may not do (patch on"
                " persistentvolumeclaims)."
            ),
            _("Volume claim %(lost_claim)s in cluster %(cluster)s has lost its volume."),
            _("A volume claim of this job isn't bound to a volume."),
        ),
        helps=(
            _(
                "Ask a platform admin to grant the platform's account get on storageclasses in cluster"
                " %(cluster)s, or mount another claim than %(class_unread_claim)s."
            ),
            _(
                "Ask a platform admin to grant the platform's account patch on persistentvolumeclaims in"
                " cluster %(cluster)s, or mount another claim than %(not_permitted_claim)s."
            ),
            _("Check the claim in the workspace's namespace, or mount another one."),
        ),
    )

    VOLUME_CLAIM_UNREAD = ReasonRow(
        "VOLUME_CLAIM_UNREAD",
        _("Volume claim not read yet"),
        ReasonSeverity.WAITING,
        Gate.FIT,
        "The platform hasn't read a persistent volume claim of the job since its submission, so that it isn't"
        " known which nodes can mount it.",
        sentences=(
            _("Volume claim %(unread_claim)s hasn't been read from cluster %(cluster)s yet."),
            _("A volume claim of this job hasn't been read from its cluster yet."),
        ),
        helps=(_("No action required. The claim is read as soon as the cluster answers."),),
    )

    WAITING_FOR_PREEMPTED = ReasonRow(
        "WAITING_FOR_PREEMPTED",
        _("Waiting for preempted jobs to terminate"),
        ReasonSeverity.WAITING,
        Gate.PREEMPTION,
        "Jobs were preempted for this one; nodes are reserved until their pods are gone.",
        sentences=(
            _("Nodes reserved. Waiting for preempted jobs to terminate (jobs: %(jobs)s, tasks: %(tasks)s)."),
            _("Preempted jobs: %(victims)s, %(held)s not yet released. Nodes are reserved."),
            _("Preempted jobs: %(victims)s. Nodes are reserved."),
            _("Waiting for preempted jobs to terminate. Nodes are reserved."),
        ),
        helps=(_("No action required. The job starts when the preempted pods are deleted."),),
    )

    RESERVED_FOR_LARGER = ReasonRow(
        "RESERVED_FOR_LARGER",
        _("Capacity reserved for a larger job"),
        ReasonSeverity.WAITING,
        Gate.ROOM,
        "Capacity is free, but reserved for a job ahead that has waited for more of it.",
        sentences=(
            _(
                "Free capacity has been reserved since %(since)s for %(job)s, which is ahead in the"
                " queue and has waited long."
            ),
            _("%(available)s free, reserved for %(job)s."),
            _("Free capacity is reserved for %(job)s."),
            _("Free capacity is reserved for a larger job."),
        ),
        helps=(
            _(
                "Wait for %(job)s to start, or reduce the request to the capacity not reserved"
                " since %(since)s."
            ),
            _("Set a maximum run time below %(window)s to allow backfill."),
            _("Set a short maximum run time to allow backfill."),
        ),
    )

    PROTECTED = ReasonRow(
        "PROTECTED",
        _("Waiting for guaranteed run time to end"),
        ReasonSeverity.WAITING,
        Gate.PREEMPTION,
        "The jobs that could be preempted are within their guaranteed run time.",
        sentences=(
            _("Preemptible jobs: %(victims)s, in their guaranteed run time until %(until)s."),
            _("Preemptible jobs are in their guaranteed run time until %(until)s."),
            _("Preemptible jobs are in their guaranteed run time."),
        ),
        helps=(_("Wait for the guaranteed run time to end, or reduce the request."),),
    )

    BACKOFF = ReasonRow(
        "BACKOFF",
        _("Backing off"),
        ReasonSeverity.WAITING,
        Gate.OPEN,
        "The last start failed; the job is tried again after a pause that grows with each attempt.",
        sentences=(
            _("Failed starts: %(attempts)s. Next retry: %(retry_at)s."),
            _("Failed to start. Next retry: %(retry_at)s."),
            _("Failed to start. Retrying soon."),
        ),
        helps=(_("Check the events of the last attempt."),),
    )

    PENDING_EVALUATION = ReasonRow(
        "PENDING_EVALUATION",
        _("Pending evaluation"),
        ReasonSeverity.INFO,
        Gate.EVALUATION,
        "No scheduling cycle has evaluated the job since it was submitted or last changed.",
        sentences=(
            _("Submitted %(age)s ago; not evaluated yet."),
            _("Not evaluated yet."),
        ),
        helps=(_("No action required. Platform admins are alerted after 10 s."),),
    )

    CLUSTER_UNREACHABLE = ReasonRow(
        "CLUSTER_UNREACHABLE",
        _("Cluster unreachable"),
        ReasonSeverity.ERROR,
        Gate.CLUSTER,
        "The API server of the job's cluster doesn't answer; the job keeps quota and GPUs.",
        sentences=(
            _("Cluster %(cluster)s unreachable since %(at)s. The job keeps its resources."),
            _("Cluster %(cluster)s is unreachable. The job keeps its resources."),
        ),
        helps=(_("No action required. The job continues when the cluster is reachable."),),
    )

    POD_NOT_CREATED = ReasonRow(
        "POD_NOT_CREATED",
        _("Pod not created"),
        ReasonSeverity.ERROR,
        Gate.CLUSTER,
        "The cluster hasn't confirmed that a pod was created; the platform tries again.",
        sentences=(
            _("The cluster hasn't confirmed the creation of pod %(pod)s. Retrying… %(message)s"),
            _("The cluster hasn't confirmed the creation of the pods. Retrying…"),
        ),
        helps=(_("No action required. After ten attempts the job is requeued."),),
    )

    IMAGE_PULL_FAILED = ReasonRow(
        "IMAGE_PULL_FAILED",
        _("Can't pull image"),
        ReasonSeverity.ERROR,
        Gate.CLUSTER,
        "The kubelet can't pull an image: wrong name or tag, missing pull secret, unreachable registry.",
        sentences=(
            _("Can't pull the image of pod %(pod)s (pods: %(pods)s). %(cause)s: %(message)s"),
            _("Can't pull the image of pod %(pod)s (pods: %(pods)s): %(cause)s."),
        ),
        helps=(_("Check the image name and tag, and the pull secret in the job file."),),
    )

    CONTAINER_NOT_CREATED = ReasonRow(
        "CONTAINER_NOT_CREATED",
        _("Container not created"),
        ReasonSeverity.ERROR,
        Gate.CLUSTER,
        "The kubelet can't create a container: missing secret or config map, bad command or hook.",
        sentences=(
            _("Can't create the container of pod %(pod)s (pods: %(pods)s). %(cause)s: %(message)s"),
            _("Can't create the container of pod %(pod)s (pods: %(pods)s): %(cause)s."),
        ),
        helps=(_("Check the secrets, config maps, command and working directory in the job file."),),
    )

    VOLUME_NOT_MOUNTED = ReasonRow(
        "VOLUME_NOT_MOUNTED",
        _("Volume not mounted"),
        ReasonSeverity.ERROR,
        Gate.CLUSTER,
        "The kubelet can't attach or mount a volume of a pod, or the volume can't be created.",
        sentences=(
            _("Can't mount a volume of pod %(pod)s (pods: %(pods)s). %(cause)s: %(message)s"),
            _("Can't mount a volume of pod %(pod)s (pods: %(pods)s): %(cause)s."),
        ),
        helps=(
            _(
                "The volume of a claim that pod %(pod_without_volume)s mounts can't be created. Check the"
                " storage class of the claim and its provisioner."
            ),
            _("Check that the volume claims, secrets and config maps exist."),
        ),
    )

    POD_NOT_STARTED = ReasonRow(
        "POD_NOT_STARTED",
        _("Pod not started yet"),
        ReasonSeverity.WAITING,
        Gate.CLUSTER,
        "A pod was created a while ago and doesn't run yet.",
        sentences=(
            _("Pod %(pod)s hasn't started (pods: %(pods)s). %(cause)s: %(message)s"),
            _("Pod %(pod)s was created at %(at)s and hasn't started (pods: %(pods)s)."),
            _("The pods haven't started yet."),
        ),
        helps=(_("A large image takes time to pull. See the pod's events below."),),
    )

    POD_TERMINATING = ReasonRow(
        "POD_TERMINATING",
        _("Pod still terminating"),
        ReasonSeverity.WAITING,
        Gate.CLUSTER,
        "Deletion of a pod was requested a while ago and the pod still exists.",
        sentences=(
            _("Pod %(pod)s, deleted at %(at)s, is kept by its finalizers: %(finalizers)s."),
            _("Deletion of pod %(pod)s was requested at %(at)s; the pod still exists (pods: %(pods)s)."),
            _("Deletion of the pods was requested; they still exist."),
        ),
        helps=(_("Its GPUs stay allocated until the pod is deleted. Contact a platform admin."),),
    )

    TASKS_GIVEN_UP = ReasonRow(
        "TASKS_GIVEN_UP",
        _("Tasks abandoned"),
        ReasonSeverity.WAITING,
        Gate.CLUSTER,
        "An elastic job runs without tasks that didn't start in time.",
        sentences=(
            _(
                "%(tasks)s of the tasks didn't start in time; the job runs without them and doesn't"
                " grow again while running. Pod %(pod)s: %(message)s"
            ),
            _(
                "%(tasks)s of the tasks didn't start in time, among them pod %(pod)s; the job runs"
                " without them and doesn't grow again while running."
            ),
            _("The job runs without tasks that didn't start in time, and doesn't grow again while running."),
        ),
        helps=(_("Fix what kept the pod from starting, then restart the job to run all tasks."),),
    )


_BY_CODE: Final = {str(reason): reason for reason in Reason}


def find_reason(code: str) -> Reason | None:
    """Return the row of a stored code; None for a code that another release wrote."""
    return _BY_CODE.get(code)
