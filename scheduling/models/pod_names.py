"""Names of pods, derived from job, attempt and task, so that a repeated creation finds the existing pod."""

from __future__ import annotations

from typing import Final

from foundation.core.identifiers import dns_label
from scheduling.models import Job

_JOB_PART: Final = 30
_ROLE_PART: Final = 12


def gang_name(job: Job, attempt: int) -> str:
    """Return `<name>-<id>-<attempt>`, a DNS label that begins with a letter, for the shared object of the
    pods.

    It has the last eight digits of the id: the first ones of a UUIDv7 are the time, which jobs of the same
    minute share.
    """
    name = f"{dns_label(job.name, _JOB_PART)}-{job.pk.hex[-8:]}-{attempt}"
    return name if name[0].isalpha() else f"j{name}"


def pod_name(job: Job, attempt: int, role: str, index: int, before: int = 0) -> str:
    """Return `<name>-<id>-<attempt>-<role>-<index>`, a DNS label; the id as in `gang_name`.

    `before` counts the pods that the task already had in this attempt: a task that starts again after its job
    shrank gets a new name.
    """
    head = dns_label(job.name, _JOB_PART)
    name = f"{head}-{job.pk.hex[-8:]}-{attempt}-{dns_label(role, _ROLE_PART)}-{index}"
    return f"{name}-{before}" if before else name
