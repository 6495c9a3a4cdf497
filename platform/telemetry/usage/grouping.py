"""The groupings of a usage report, without heavy imports, because the command line lists them."""

from __future__ import annotations

from enum import StrEnum


class GroupBy(StrEnum):
    """The subject of each row of a report."""

    TENANT = "tenant"
    USER = "user"
    QUEUE = "queue"
    POOL = "pool"
    JOB = "job"
