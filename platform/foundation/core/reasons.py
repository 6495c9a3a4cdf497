"""The table of reason codes: why a job is pending, doesn't start or still terminates.

One row declares a code: its label, severity, gate, meaning, sentences and usual help. The engine, the
services, the delegation to engines of clusters, the console and `docs/reasons.md` all use this table.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from foundation.core.reason_row import ReasonRow
from foundation.core.reason_rows import cluster, job, nodes, quota, volumes

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

    NEVER_FITS = job.NEVER_FITS
    EXCEEDS_MAX_QUOTA = quota.EXCEEDS_MAX_QUOTA
    POLICY_DENIED = job.POLICY_DENIED
    QUEUE_STOPPED = job.QUEUE_STOPPED
    SUSPENDED = job.SUSPENDED
    BEHIND_HEAD = job.BEHIND_HEAD
    IN_LINE = job.IN_LINE
    WAITING_FOR_QUOTA = quota.WAITING_FOR_QUOTA
    WAITING_FOR_BORROWED = quota.WAITING_FOR_BORROWED
    NO_ROOM = nodes.NO_ROOM
    VOLUME_NODE_CONFLICT = volumes.VOLUME_NODE_CONFLICT
    VOLUME_NODES_TOO_SMALL = volumes.VOLUME_NODES_TOO_SMALL
    VOLUME_CLAIM_NOT_BOUND = volumes.VOLUME_CLAIM_NOT_BOUND
    VOLUME_CLAIM_UNREAD = volumes.VOLUME_CLAIM_UNREAD
    WAITING_FOR_PREEMPTED = nodes.WAITING_FOR_PREEMPTED
    RESERVED_FOR_LARGER = nodes.RESERVED_FOR_LARGER
    PROTECTED = nodes.PROTECTED
    BACKOFF = job.BACKOFF
    PENDING_EVALUATION = job.PENDING_EVALUATION
    CLUSTER_UNREACHABLE = cluster.CLUSTER_UNREACHABLE
    POD_NOT_CREATED = cluster.POD_NOT_CREATED
    IMAGE_PULL_FAILED = cluster.IMAGE_PULL_FAILED
    CONTAINER_NOT_CREATED = cluster.CONTAINER_NOT_CREATED
    VOLUME_NOT_MOUNTED = cluster.VOLUME_NOT_MOUNTED
    POD_NOT_STARTED = cluster.POD_NOT_STARTED
    POD_TERMINATING = cluster.POD_TERMINATING
    TASKS_GIVEN_UP = cluster.TASKS_GIVEN_UP


_BY_CODE: Final = {str(reason): reason for reason in Reason}


def find_reason(code: str) -> Reason | None:
    """Return the row of a stored code; None for a code that another release wrote."""
    return _BY_CODE.get(code)
