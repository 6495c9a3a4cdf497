"""Parses a whole job file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.utils.translation import gettext as _

from foundation.core.errors import FieldError, Invalid
from foundation.core.identifiers import new_id
from scheduling.job_file.declaration.fields import keys_below, pod_fields
from scheduling.job_file.parsing.lifecycle import read_lifecycle
from scheduling.job_file.parsing.placement import read_placement
from scheduling.job_file.parsing.reading import open_part, read_columns, read_field, read_said
from scheduling.job_file.parsing.roles import read_roles
from scheduling.job_file.parsing.size import check_file_size, check_host_lists, check_pod_sizes, compact_json
from scheduling.job_file.parsing.volumes import read_volumes
from scheduling.job_file.values.kinds import Whole
from scheduling.job_file.values.section import Problems, Section
from scheduling.job_file.values.types import JobSpec, RoleSpec
from scheduling.models import JobKind

STATIC_CPUS: Final = {"allotment.io/cpu-manager": "static"}
"""The label of nodes whose kubelet assigns whole CPUs to guaranteed pods."""
TASKS_MAX: Final = 10_000


def parse_job(body: Any) -> JobSpec:
    """Parse a job file.

    Raises: Invalid (code SPEC_INVALID) with one `FieldError` for each error; TooLarge.
    """
    text = compact_json(body)
    check_file_size(text)
    _check_text(text)
    problems = Problems()
    job = Section.read_section(body, "", keys_below(""), problems)
    columns = read_columns(job, "")
    columns["kind"] = JobKind(columns["kind"])
    columns["name"] = columns["name"] or f"{columns['kind'].value}-{new_id().hex[-8:]}"
    roles = read_roles(job)
    spec = JobSpec(
        **columns,
        roles=roles,
        min_available=_min_available(job, roles),
        placement=_placement(job, roles),
        lifecycle=read_lifecycle(job, tuple(role.name for role in roles)),
        volumes=read_volumes(job, roles),
        runtime=read_said(job, pod_fields("")),
        simulate=read_field(job, "simulate") or {},
    )
    check_pod_sizes(
        job,
        roles,
        environment=spec.environment,
        volumes=spec.volumes,
        runtime=spec.runtime,
        placement=spec.placement,
    )
    check_host_lists(job, spec.name, roles)
    problems.raise_if_any()
    return spec


def _check_text(text: str) -> None:
    # PostgreSQL can store neither NUL nor half of a surrogate pair.
    halves = not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)
    if halves or "\\u0000" in text:
        message = _("The job file contains invalid characters.")
        raise Invalid(message, code="SPEC_INVALID", errors=[FieldError("", "TEXT", message)])


def _min_available(job: Section, roles: Sequence[RoleSpec]) -> int:
    least, most = sum(role.min_replicas for role in roles), sum(role.replicas for role in roles)
    gang = open_part(job, "gang")
    if most > TASKS_MAX:
        job.add_problem("roles", "RANGE", _("Maximum: %(limit)s tasks per job.") % {"limit": TASKS_MAX})
        return least
    return int(Whole(1, max(most, 1)).read_value(gang, "min_available", least))


def _placement(job: Section, roles: Sequence[RoleSpec]) -> dict[str, Any]:
    """Return the placement; a job with exclusive CPUs gets the label of nodes that have them."""
    found = read_placement(job)
    if any(role.container.get("exclusive_cpus") for role in roles):
        found["node_selector"] = {**found.get("node_selector", {}), **STATIC_CPUS}
    return found
