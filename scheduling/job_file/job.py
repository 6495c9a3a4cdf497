"""Reading a whole job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from django.utils.translation import gettext as _

from foundation.core.errors import FieldError, Invalid
from foundation.core.identifiers import is_dns_label, new_id
from scheduling.job_file.container import JOB_KEYS, read_runtime
from scheduling.job_file.environment import read_environment
from scheduling.job_file.lifecycle import read_lifecycle
from scheduling.job_file.placement import read_placement
from scheduling.job_file.roles import read_roles
from scheduling.job_file.section import Problems, Section
from scheduling.job_file.size import check_file_size, check_host_lists, check_pod_sizes, compact_json
from scheduling.job_file.types import JobSpec, RoleSpec
from scheduling.job_file.volumes import read_volumes
from scheduling.models import JobKind

KEYS: Final = (
    "kind", "name", "queue", "priority_class", "preemptible", "min_run_s", "max_run_s",
    "checkpoint_interval_s", "gang", "roles", "placement", "lifecycle", "environment", "volumes", "simulate",
    *JOB_KEYS,
)  # fmt: skip
STATIC_CPUS: Final = {"allotment.io/cpu-manager": "static"}
"""The label of nodes whose kubelet gives whole CPUs to guaranteed pods."""
TASKS_MAX: Final = 10_000
_LONGEST_S: Final = 10 * 365 * 86_400


def parse_job(body: Any) -> JobSpec:
    """Read a job file.

    Raises: Invalid (code SPEC_INVALID) with one `FieldError` for each mistake, in the file's order; TooLarge.
    """
    text = compact_json(body)
    check_file_size(text)
    _check_text(text)
    problems = Problems()
    job = Section.read(body, "", KEYS, problems)
    roles = read_roles(job)
    kind = JobKind(job.choice("kind", JobKind.values, default=JobKind.BATCH))
    spec = JobSpec(
        name=_name(job, kind),
        kind=kind,
        queue=job.text("queue", default="default", limit=63),
        priority_class=job.text("priority_class", default="normal", limit=63),
        preemptible=job.flag("preemptible", default=True),
        roles=roles,
        min_available=_min_available(job, sum(r.min_replicas for r in roles), sum(r.replicas for r in roles)),
        min_run_s=job.integer("min_run_s", default=0, high=_LONGEST_S),
        max_run_s=job.optional_integer("max_run_s", low=1, high=_LONGEST_S),
        checkpoint_interval_s=job.optional_integer("checkpoint_interval_s", low=1, high=_LONGEST_S),
        placement=_placement(job, roles),
        lifecycle=read_lifecycle(job, tuple(role.name for role in roles)),
        environment=read_environment(job),
        volumes=read_volumes(job),
        runtime=read_runtime(job),
        simulate=_simulate(job),
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
    # Neither can be stored: a database's text ends at NUL, and half of a surrogate pair is no character.
    halves = not text.isascii() and any("\ud800" <= char <= "\udfff" for char in text)
    if halves or "\\u0000" in text:
        message = _("The job file contains characters that are not text.")
        raise Invalid(message, code="SPEC_INVALID", errors=[FieldError("", "TEXT", message)])


def _name(job: Section, kind: JobKind) -> str:
    if not job.has("name"):
        return f"{kind.value}-{new_id().hex[-8:]}"
    name = job.text("name", limit=63)
    if name and not is_dns_label(name):
        job.add("name", "FORMAT", _("use lower-case letters, digits and hyphens, as in train-1"))
    return name


def _min_available(job: Section, least: int, most: int) -> int:
    gang = job.section("gang", ("min_available",))
    if most > TASKS_MAX:
        job.add("roles", "RANGE", _("a job has at most %(limit)s tasks") % {"limit": TASKS_MAX})
        return least
    return gang.integer("min_available", default=least, low=1, high=max(most, 1))


def _placement(job: Section, roles: Sequence[RoleSpec]) -> dict[str, Any]:
    """Where it may run; CPUs of one's own are there only on nodes that an operator has marked so."""
    found = read_placement(job)
    if any(role.container.get("exclusive_cpus") for role in roles):
        found["node_selector"] = {**found.get("node_selector", {}), **STATIC_CPUS}
    return found


def _simulate(job: Section) -> dict[str, Any]:
    part = job.section("simulate", ("start_s", "run_s", "exit_code", "gpu_utilisation"))
    values = {
        "start_s": part.number("start_s", low=0, high=_LONGEST_S),
        "run_s": part.number("run_s", low=0, high=_LONGEST_S),
        "exit_code": part.integer("exit_code", default=0, high=255) if part.has("exit_code") else None,
        "gpu_utilisation": part.number("gpu_utilisation", low=0, high=1),
    }
    return {key: value for key, value in values.items() if value is not None}
