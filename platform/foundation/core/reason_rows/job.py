"""Reasons of the job itself: its size, policies, state and order in the queue."""

from __future__ import annotations

from typing import Final

from foundation.core.quantities import gettext_noop as _
from foundation.core.reason_row import Gate, ReasonRow, ReasonSeverity

NEVER_FITS: Final = ReasonRow(
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

POLICY_DENIED: Final = ReasonRow(
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

QUEUE_STOPPED: Final = ReasonRow(
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

SUSPENDED: Final = ReasonRow(
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

BEHIND_HEAD: Final = ReasonRow(
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

IN_LINE: Final = ReasonRow(
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

BACKOFF: Final = ReasonRow(
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

PENDING_EVALUATION: Final = ReasonRow(
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
