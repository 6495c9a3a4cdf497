"""The fields of the resources of each task: CPU, memory, GPUs, and the limits of CPU and memory."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_noop as _

from scheduling.job_file.declaration.field import Field, Limited, Shown
from scheduling.job_file.values.kinds import (
    CardMemory,
    ChoiceKind,
    Cpu,
    Flag,
    Memory,
    PartKind,
    Percent,
    Text,
    Texts,
    Whole,
)

RESOURCE_FIELDS: Final = (
    Field("roles.resources", PartKind("Resources"), help="Resources of each task."),
    Field(
        "roles.resources.cpu",
        Cpu(),
        label=_("CPU per task"),
        default=0,
        column="cpu_millicores",
        policy=Limited.AMOUNT,
        form=Shown.REQUEST,
    ),
    Field(
        "roles.resources.memory",
        Memory(),
        label=_("Memory per task"),
        help=_("Example: 64Gi or 512Mi"),
        default=0,
        column="memory_mib",
        policy=Limited.AMOUNT,
        form=Shown.REQUEST,
        input="role_memory",
    ),
    Field(
        "roles.resources.shared_memory",
        Memory(written=True, low=1),
        label=_("Shared memory per task"),
        help=_("Size of /dev/shm; counts against the memory of the task."),
        otherwise=_("usually 64Mi"),
        for_pods=True,
        policy=Limited.AMOUNT,
        form=Shown.REQUEST,
    ),
    Field("roles.resources.gpu", PartKind("Gpu"), help="GPUs of each task.", otherwise="no GPU"),
    Field(
        "roles.resources.gpu.cards",
        Whole(0, 64),
        label=_("GPUs per task"),
        help=_("With a MIG profile: number of instances."),
        default=1,
        column="gpu_cards",
        policy=Limited.AMOUNT,
        form=Shown.REQUEST,
    ),
    Field(
        "roles.resources.gpu.mode",
        ChoiceKind(("whole", "slice", "mig")),
        help="Allocation mode: whole GPUs, slices or MIG instances.",
        default="whole",
        column="gpu_mode",
        policy=Limited.VALUES,
    ),
    Field(
        "roles.resources.gpu.cores",
        Percent(),
        label=_("Compute per GPU"),
        help=_("Percent of a GPU's compute."),
        unit="%",
        column="gpu_cores",
        policy=Limited.AMOUNT,
        form=Shown.REQUEST,
        only=("slice",),
    ),
    Field(
        "roles.resources.gpu.memory",
        CardMemory(low=1),
        label=_("Memory per GPU"),
        help=_("Example: 20Gi, 20480Mi or 50%"),
        column="gpu_memory_mib",
        policy=Limited.AMOUNT,
        form=Shown.REQUEST,
        only=("slice",),
    ),
    Field(
        "roles.resources.gpu.model",
        Texts(32, length=80, one=True),
        help="One of these models.",
        otherwise="any",
        column="gpu_models",
        policy=Limited.VALUES,
    ),
    Field(
        "roles.resources.gpu.profile",
        Text(40),
        label=_("MIG profile"),
        help=_("Example: 1g.10gb"),
        column="gpu_profile",
        form=Shown.REQUEST,
        only=("mig",),
    ),
    Field(
        "roles.resources.limits",
        PartKind("Limits"),
        help="Limits above the requests.",
        otherwise="what it asks for",
        for_pods=True,
    ),
    Field(
        "roles.resources.limits.cpu",
        Cpu(written=True),
        label=_("CPU limit per task"),
        policy=Limited.AMOUNT,
    ),
    Field(
        "roles.resources.limits.memory",
        Memory(written=True),
        label=_("Memory limit per task"),
        policy=Limited.AMOUNT,
    ),
    Field(
        "roles.resources.exclusive_cpus",
        Flag(),
        help="Exclusive whole CPUs for each task.",
        otherwise="false",
        for_pods=True,
    ),
)
