"""Parses roles and the requests of their tasks."""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext as _

from foundation.core.identifiers import dns_label
from scheduling.engine.model import parse_profile
from scheduling.job_file.declaration.fields import FIELDS, pod_fields
from scheduling.job_file.parsing.reading import open_part, open_parts, read_columns, read_field, read_said
from scheduling.job_file.values.kinds import Amount, Cpu, Memory
from scheduling.job_file.values.section import Section
from scheduling.job_file.values.types import GpuSpec, RoleSpec
from scheduling.models import GpuRequestMode

_RESOURCES: Final = "roles.resources"
_GPU: Final = "roles.resources.gpu"
_NAME_IN_POD: Final = 12


def read_roles(job: Section) -> tuple[RoleSpec, ...]:
    """Return the roles of a job; a job without any is an error."""
    before = len(job.problems.errors)
    parts = open_parts(job, "roles")
    if not parts and len(job.problems.errors) == before:
        job.add_problem("roles", "REQUIRED", _(FIELDS["roles"].required))
    roles = tuple(_role(role, index) for index, role in enumerate(parts))
    # Pod names contain this prefix of a role's name, so the prefixes of roles must differ.
    heads = [dns_label(role.name, _NAME_IN_POD) for role in roles]
    for index, head in enumerate(heads):
        if head in heads[:index]:
            message = _("The first %(count)s characters of role names must differ.")
            job.add_problem(f"roles.{index}.name", "DUPLICATE", message % {"count": _NAME_IN_POD})
    return roles


def _role(role: Section, index: int) -> RoleSpec:
    columns = read_columns(role, "roles")
    columns["name"] = columns["name"] or ("main" if index == 0 else f"role-{index}")
    columns["command"] = tuple(columns["command"])
    columns["min_replicas"] = _least(role, columns["min_replicas"], columns["replicas"])
    resources = open_part(role, _RESOURCES)
    columns |= read_columns(resources, _RESOURCES)
    container = read_said(role, pod_fields("roles")) | read_said(resources, pod_fields(_RESOURCES))
    spec = RoleSpec(**columns, gpu=_gpu(resources) if resources.has_key("gpu") else None, container=container)
    _check_probes(role, container.get("probes", {}))
    _check_limits(resources, spec)
    _check_shared_memory(resources, spec)
    _check_exclusive(resources, spec)
    return spec


def _least(role: Section, least: int | None, replicas: int) -> int:
    if least is not None and least > replicas:
        limits = {"low": 1, "high": replicas}
        role.add_problem("min_replicas", "RANGE", _("Must be from %(low)s to %(high)s.") % limits)
    return replicas if least is None else min(least, replicas)


def _check_probes(role: Section, probes: dict[str, Any]) -> None:
    for kind, probe in probes.items():
        if kind != "readiness" and probe.get("successes", 1) != 1:
            message = _("Only readiness allows more than 1.")
            role.add_problem(f"probes.{kind}.successes", "CONTRADICTION", message)


def _check_limits(resources: Section, role: RoleSpec) -> None:
    """Check that limits are not below requests."""
    limits = role.container.get("limits", {})
    kinds: tuple[tuple[str, Amount, int], ...] = (
        ("cpu", Cpu(), role.cpu_millicores),
        ("memory", Memory(), role.memory_mib),
    )
    for key, kind, asked in kinds:
        amount = kind.parse_amount(limits[key]) if key in limits else None
        if amount is not None and (amount < asked or amount == 0):
            resources.add_problem(f"limits.{key}", "RANGE", _("Must not be below the request."))


def _check_shared_memory(resources: Section, role: RoleSpec) -> None:
    """Check that shared memory is not larger than the memory limit, at which the task would be ended."""
    kind, limits = Memory(), role.container.get("limits", {})
    limit = kind.parse_amount(limits["memory"]) if "memory" in limits else role.memory_mib
    size = role.container.get("shared_memory")
    if size is not None and limit and kind.parse_amount(size) > limit:
        resources.add_problem("shared_memory", "RANGE", _("Must not exceed the memory of the task."))


def _check_exclusive(resources: Section, role: RoleSpec) -> None:
    """Check the request for exclusive CPUs, which the static CPU manager assigns only to guaranteed pods that
    request whole CPUs."""
    cpu = role.cpu_millicores
    if not role.container.get("exclusive_cpus"):
        return
    if cpu % 1000 or not cpu or not role.memory_mib or role.container.get("limits"):
        message = _("Request whole CPUs and memory, without higher limits.")
        resources.add_problem("exclusive_cpus", "CONTRADICTION", message)


def _gpu(resources: Section) -> GpuSpec | None:
    gpu = open_part(resources, _GPU)
    mode = GpuRequestMode(read_field(gpu, f"{_GPU}.mode"))
    cards = int(read_field(gpu, f"{_GPU}.cards"))
    models = tuple(read_field(gpu, f"{_GPU}.model") or ())
    if mode is GpuRequestMode.MIG:
        return _instances(gpu, cards, models)
    if gpu.has_key("profile"):
        gpu.add_problem("profile", "CONTRADICTION", _("profile requires mode: mig."))
    if mode is GpuRequestMode.WHOLE:
        _refuse_parts(gpu)
        return GpuSpec(cards=cards, mode=mode, models=models) if cards else None
    memory_mib, memory_percent = _slice_memory(gpu)
    cores = _cores(gpu)
    if not cards:
        gpu.add_problem("cards", "RANGE", _("A slice requires at least one GPU."))
    return GpuSpec(
        cards=max(cards, 1),
        mode=mode,
        cores=cores,
        memory_mib=memory_mib,
        memory_percent=memory_percent,
        models=models,
    )


def _instances(gpu: Section, cards: int, models: tuple[str, ...]) -> GpuSpec | None:
    profile = read_field(gpu, f"{_GPU}.profile")
    if not profile:
        gpu.add_problem("profile", "REQUIRED", _("Specify a MIG profile, for example 2g.10gb."))
        return None
    try:
        parse_profile(profile)
    except ValueError:
        gpu.add_problem("profile", "FORMAT", _("Invalid MIG profile. Use the form 2g.10gb."))
        return None
    for key in ("cores", "memory"):
        if gpu.has_key(key):
            gpu.add_problem(key, "CONTRADICTION", _("Not allowed with a MIG profile, which sets the size."))
    if not cards:
        gpu.add_problem("cards", "RANGE", _("Minimum: 1 instance."))
    return GpuSpec(cards=max(cards, 1), mode=GpuRequestMode.MIG, cores=0, models=models, profile=profile)


def _refuse_parts(gpu: Section) -> None:
    message = _("Not allowed with mode: whole. Remove it or set mode: slice.")
    if gpu.has_key("cores") and str(gpu.values["cores"]).strip("% ") != "100":
        gpu.add_problem("cores", "CONTRADICTION", message)
    if gpu.has_key("memory"):
        gpu.add_problem("memory", "CONTRADICTION", message)


def _cores(gpu: Section) -> int:
    if not gpu.has_key("cores"):
        gpu.add_problem("cores", "REQUIRED", _("A slice requires cores from 1 to 100."))
        return 1
    if str(gpu.values["cores"]).strip("% ") == "0":
        gpu.add_problem("cores", "RANGE", _("Must be from 1 to 100."))
        return 1
    return read_field(gpu, f"{_GPU}.cores") or 1


def _slice_memory(gpu: Section) -> tuple[int | None, int | None]:
    if not gpu.has_key("memory"):
        gpu.add_problem(
            "memory", "REQUIRED", _("A slice requires GPU memory, for example 20Gi or 50%%.") % ()
        )
        return None, None
    found = read_field(gpu, f"{_GPU}.memory")
    if isinstance(found, str):
        return None, int(found.removesuffix("%"))
    return found, None
