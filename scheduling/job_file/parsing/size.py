"""Limits the size of a job file, and of the pods that are created from it.

A cluster stores no object above 1.5 MiB, and answers a larger one with an internal error. The limits here are
far below that, and apply to all ways of submission: single jobs, batches, copies and the form.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.utils.translation import gettext as _

from foundation.core.errors import FieldError, TooLarge
from scheduling.job_file.values.section import Section
from scheduling.job_file.values.types import RoleSpec
from scheduling.models import Job
from scheduling.models.pod_names import gang_name, pod_name

FILE_BYTES_MAX: Final = 256 * 1024
"""The largest size of a job file in bytes, as compact JSON in UTF-8."""
POD_BYTES_MAX: Final = 64 * 1024
"""The largest size of a job file's fields for the pods of one role in bytes, as compact JSON in UTF-8."""
LIST_BYTES_MAX: Final = 1024 * 1024 - 64
"""The largest size of a file that lists the tasks of a job in bytes: a ConfigMap's limit without the file
name."""
_ATTEMPTS: Final = 9_999
_SLOTS: Final = " slots=1024\n"
_LISTED_ALWAYS: Final = LIST_BYTES_MAX // (63 + 1 + 63 + len(_SLOTS))
"""The number of tasks that always fit in a list, with names of any length: an address is two DNS labels."""
_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), default=str, skipkeys=True)
_IN_PODS: Final = ("labels", "tolerations")


def compact_json(value: Any) -> str:
    """Return a value as compact JSON; values of types unknown to JSON are written as text."""
    return _JSON.encode(value)


def bytes_of(text: str) -> int:
    """Return the size of a text in UTF-8 bytes."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def check_file_size(text: str) -> None:
    """Refuse a job file, given as compact JSON, of more than `FILE_BYTES_MAX`. Raises: TooLarge."""
    if bytes_of(text) > FILE_BYTES_MAX:
        message = _("The job file exceeds %(limit)s KiB.") % {"limit": FILE_BYTES_MAX // 1024}
        errors = [FieldError("", "TOO_LARGE", message)]
        raise TooLarge(message, numbers={"limit_bytes": FILE_BYTES_MAX}, errors=errors)


def check_pod_sizes(
    job: Section,
    roles: Sequence[RoleSpec],
    *,
    environment: Mapping[str, Any],
    volumes: Sequence[Mapping[str, Any]],
    runtime: Mapping[str, Any],
    placement: Mapping[str, Any],
) -> None:
    """Record an error for each role whose pods would be larger than `POD_BYTES_MAX`."""
    of_pods = {key: placement[key] for key in _IN_PODS if key in placement}
    common = bytes_of(compact_json([environment, volumes, runtime, of_pods]))
    for index, role in enumerate(roles):
        size = common + bytes_of(compact_json([role.image, role.command, role.container]))
        if size > POD_BYTES_MAX:
            numbers = {"size": -(-size // 1024), "limit": POD_BYTES_MAX // 1024}
            message = _(
                "The pod of a task would have %(size)s KiB; maximum: %(limit)s KiB, including "
                "command, args, probes, environment, volumes and labels."
            )
            job.add_problem(f"roles.{index}", "TOO_LONG", message % numbers)


def check_host_lists(job: Section, name: str, roles: Sequence[RoleSpec]) -> None:
    """Record an error if the list of the job's task addresses would be larger than `LIST_BYTES_MAX`.

    Lists that are too long for a variable are written to files; each line has an address, and for an MPI job
    the number of slots.
    """
    if sum(role.replicas for role in roles) <= _LISTED_ALWAYS:
        return
    named = Job(name=name)
    service = len(gang_name(named, _ATTEMPTS))
    size = tasks = 0
    for role in roles:
        address = len(pod_name(named, _ATTEMPTS, role.name, role.replicas - 1)) + 1 + service
        size += role.replicas * (address + len(_SLOTS))
        tasks += role.replicas
    if size > LIST_BYTES_MAX:
        limit = tasks * LIST_BYTES_MAX // size
        message = _(
            "The task address list would have %(size)s KiB; maximum: %(limit)s KiB. With names of "
            "this length, use at most %(tasks)s tasks."
        )
        numbers = {"size": -(-size // 1024), "limit": LIST_BYTES_MAX // 1024 + 1, "tasks": limit}
        job.add_problem("roles", "TOO_LONG", message % numbers)
