"""Reasons of room on nodes and of preemption."""

from __future__ import annotations

from typing import Final

from foundation.core.quantities import gettext_noop as _
from foundation.core.reason_row import Gate, ReasonRow, ReasonSeverity

NO_ROOM: Final = ReasonRow(
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
        _("Quota is available, but only %(largest)s of %(asked)s fit together (%(free)s free, fragmented)."),
        _("Quota is available, but only %(largest)s of %(asked)s fit."),
        _("Requests %(asked)s; %(available)s available on nodes."),
        _("Quota is available, but no nodes fit this job."),
    ),
    helps=(
        _("Reduce to %(largest)s, or relax the placement constraints."),
        _("Use smaller tasks, or relax the placement constraints."),
    ),
)

WAITING_FOR_PREEMPTED: Final = ReasonRow(
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

RESERVED_FOR_LARGER: Final = ReasonRow(
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
        _("Wait for %(job)s to start, or reduce the request to the capacity not reserved since %(since)s."),
        _("Set a maximum run time below %(window)s to allow backfill."),
        _("Set a short maximum run time to allow backfill."),
    ),
)

PROTECTED: Final = ReasonRow(
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
