"""The groupings of a usage report. Nothing heavy: the command line lists the choices."""

from __future__ import annotations

from enum import StrEnum


class GroupBy(StrEnum):
    """The kind of thing that each row of a report stands for."""

    TENANT = "tenant"
    USER = "user"
    QUEUE = "queue"
    POOL = "pool"
    JOB = "job"
