"""Names of pods, derived from what they are for, so that a retry finds the first one."""

from __future__ import annotations

from typing import Final

from foundation.core.identifiers import dns_label
from scheduling.models import Job

_JOB_PART: Final = 30
_ROLE_PART: Final = 12


def gang_name(job: Job, attempt: int) -> str:
    """`<name>-<id>-<attempt>`, a DNS label that begins with a letter, for what the attempt's pods share.

    Of the id the last eight digits are used: the first ones of a UUIDv7 are the time, and jobs of the
    same minute share them.
    """
    name = f"{dns_label(job.name, _JOB_PART)}-{job.pk.hex[-8:]}-{attempt}"
    return name if name[0].isalpha() else f"j{name}"


def pod_name(job: Job, attempt: int, role: str, index: int, before: int = 0) -> str:
    """`<name>-<id>-<attempt>-<role>-<index>`, a DNS label; the id as in `gang_name`.

    `before` counts the pods that the task already had in this attempt: one that comes back after its job
    shrank has a name of its own.
    """
    head = dns_label(job.name, _JOB_PART)
    name = f"{head}-{job.pk.hex[-8:]}-{attempt}-{dns_label(role, _ROLE_PART)}-{index}"
    return f"{name}-{before}" if before else name
