"""Reading roles and what each of their tasks asks for."""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext as _

from foundation.core.identifiers import dns_label, is_dns_label
from foundation.core.quantities import Mebibytes, Millicores, parse_cpu, parse_percent
from scheduling.engine.model import parse_profile
from scheduling.job_file.container import (
    CPU_MAX,
    MEMORY_MAX,
    ROLE_KEYS,
    read_container,
    read_exclusive,
    read_limits,
)
from scheduling.job_file.memory import read_memory
from scheduling.job_file.section import Section
from scheduling.job_file.types import GpuSpec, RoleSpec
from scheduling.models import GpuRequestMode

ROLES_MAX: Final = 16
REPLICAS_MAX: Final = 4096
CARDS_MAX: Final = 64
_NAME_IN_POD: Final = 12
_MODES: Final = (GpuRequestMode.WHOLE.value, GpuRequestMode.SLICE.value, GpuRequestMode.MIG.value)


def read_roles(job: Section) -> tuple[RoleSpec, ...]:
    """The roles of a job; there is at least one."""
    raw = job.items("roles", limit=ROLES_MAX)
    if not raw and not any(e.field.startswith("roles") for e in job.problems.errors):
        job.add("roles", "REQUIRED", _("a job needs at least one role"))
    roles = [_role(job, index, item) for index, item in enumerate(raw)]
    # Pod names carry this much of a role's name, so that much must tell the roles apart.
    heads = [dns_label(role.name, _NAME_IN_POD) for role in roles]
    for index, head in enumerate(heads):
        if head in heads[:index]:
            message = _("the first %(count)s characters of each role's name must differ")
            job.add(f"roles.{index}.name", "DUPLICATE", message % {"count": _NAME_IN_POD})
    return tuple(roles)


def _role(job: Section, index: int, raw: Any) -> RoleSpec:
    known = ("name", "replicas", "min_replicas", "image", "command", "resources", *ROLE_KEYS)
    role = Section.read(raw, f"roles.{index}", known, job.problems)
    name = role.text("name", default="main" if index == 0 else f"role-{index}", limit=40)
    if not is_dns_label(name):
        role.add("name", "FORMAT", _("use lower-case letters, digits and hyphens, as in worker"))
    replicas = role.integer("replicas", default=1, low=1, high=REPLICAS_MAX)
    resources = role.section("resources", ("cpu", "memory", "gpu", "limits", "exclusive_cpus"))
    cpu = _bounded(resources, "cpu", resources.quantity("cpu", parse_cpu, Millicores(0)), CPU_MAX)
    memory = resources.quantity("memory", read_memory, Mebibytes(0))
    memory_mib = _bounded(resources, "memory", memory, MEMORY_MAX)
    limits = read_limits(resources, cpu, memory_mib)
    own = {"limits": limits, "exclusive_cpus": read_exclusive(resources, cpu, memory_mib, limits)}
    return RoleSpec(
        name=name,
        replicas=replicas,
        min_replicas=role.integer("min_replicas", default=replicas, low=1, high=replicas),
        cpu_millicores=cpu,
        memory_mib=memory_mib,
        gpu=_gpu(resources) if resources.has("gpu") else None,
        image=role.text("image"),
        command=role.texts("command", limit=256),
        container={**read_container(role), **{key: value for key, value in own.items() if value}},
    )


def _bounded(section: Section, key: str, amount: int, high: int) -> int:
    if amount > high:
        section.add(key, "RANGE", _("is more than any node could have"))
        return 0
    return amount


def _gpu(resources: Section) -> GpuSpec | None:
    gpu = resources.section("gpu", ("cards", "mode", "cores", "memory", "model", "profile"))
    mode = GpuRequestMode(gpu.choice("mode", _MODES, default=GpuRequestMode.WHOLE.value))
    cards = gpu.integer("cards", default=1, low=0, high=CARDS_MAX)
    models = _models(gpu)
    if mode is GpuRequestMode.MIG:
        return _instances(gpu, cards, models)
    if gpu.has("profile"):
        gpu.add("profile", "CONTRADICTION", _("a profile is named with mode: mig only"))
    if mode is GpuRequestMode.WHOLE:
        _refuse_parts(gpu)
        return GpuSpec(cards=cards, mode=mode, models=models) if cards else None
    memory_mib, memory_percent = _slice_memory(gpu)
    cores = _cores(gpu)
    if not cards:
        gpu.add("cards", "RANGE", _("a slice is cut from at least one card"))
    return GpuSpec(
        cards=max(cards, 1),
        mode=mode,
        cores=cores,
        memory_mib=memory_mib,
        memory_percent=memory_percent,
        models=models,
    )


def _instances(gpu: Section, cards: int, models: tuple[str, ...]) -> GpuSpec | None:
    profile = gpu.text("profile", limit=40)
    if not profile:
        gpu.add("profile", "REQUIRED", _("name a MIG profile, as in 2g.10gb"))
        return None
    try:
        parse_profile(profile)
    except ValueError:
        gpu.add("profile", "FORMAT", _("is no MIG profile; one looks like 2g.10gb"))
        return None
    for key in ("cores", "memory"):
        if gpu.has(key):
            gpu.add(key, "CONTRADICTION", _("the profile says how much an instance has; leave this out"))
    if not cards:
        gpu.add("cards", "RANGE", _("ask for at least one instance"))
    return GpuSpec(cards=max(cards, 1), mode=GpuRequestMode.MIG, cores=0, models=models, profile=profile)


def _refuse_parts(gpu: Section) -> None:
    message = _("a whole card has all its cores and memory; leave this out, or ask for mode: slice")
    if gpu.has("cores") and str(gpu.values["cores"]).strip("% ") != "100":
        gpu.add("cores", "CONTRADICTION", message)
    if gpu.has("memory"):
        gpu.add("memory", "CONTRADICTION", message)


def _cores(gpu: Section) -> int:
    if not gpu.has("cores"):
        gpu.add("cores", "REQUIRED", _("a slice names its share of the card's compute, 1 to 100"))
        return 1
    if str(gpu.values["cores"]).strip("% ") == "0":
        gpu.add("cores", "RANGE", _("0 would mean no limit to the layer that cuts slices; ask for 1 to 100"))
        return 1
    return gpu.quantity("cores", lambda value: int(parse_percent(value)), 1)


def _slice_memory(gpu: Section) -> tuple[int | None, int | None]:
    if not gpu.has("memory"):
        gpu.add("memory", "REQUIRED", _("a slice names its memory, as in 20480Mi, 20Gi or 50%%") % ())
        return None, None
    if str(gpu.values["memory"]).strip().endswith("%"):
        return None, gpu.quantity("memory", lambda value: int(parse_percent(value)), 1)
    amount = _bounded(gpu, "memory", gpu.quantity("memory", read_memory, Mebibytes(1)), MEMORY_MAX)
    if amount < 1:
        gpu.add("memory", "RANGE", _("must be more than nothing"))
    return amount, None


def _models(gpu: Section) -> tuple[str, ...]:
    if isinstance(gpu.values.get("model"), str):
        return (gpu.text("model", limit=80),)
    return gpu.texts("model", limit=32, length=80)
