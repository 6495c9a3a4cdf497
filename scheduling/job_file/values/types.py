"""The types of a parsed job file, with values in the platform's units."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from foundation.core.quantities import Resource
from scheduling.models import GpuRequestMode, JobKind


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSpec:
    """The cards of one task. `cores` (percent points) and memory are per card.

    A slice has its memory either in MiB or in percent of the card; a whole card has neither. For MIG, `cards`
    counts instances; their charge depends on the flavor, and `cores` is 0.
    """

    cards: int
    mode: GpuRequestMode
    cores: int = 100
    memory_mib: int | None = None
    memory_percent: int | None = None
    models: tuple[str, ...] = ()
    profile: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    """A group of equal tasks; CPU in millicores and memory in MiB, per task.

    `container` has the fields for the container as checked JSON: `args` to `pre_stop`, and `limits`.
    """

    name: str
    replicas: int
    min_replicas: int
    cpu_millicores: int
    memory_mib: int
    gpu: GpuSpec | None = None
    image: str = ""
    command: tuple[str, ...] = ()
    container: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """A whole job; times in seconds.

    `placement`, `lifecycle`, `environment` and `volumes` are normalised JSON. So is `runtime`, which has the
    fields for all pods, `environment_from` to `termination_grace_s`.
    """

    name: str
    kind: JobKind
    queue: str
    priority_class: str
    preemptible: bool
    roles: tuple[RoleSpec, ...]
    min_available: int
    tags: tuple[str, ...] = ()
    min_run_s: int = 0
    max_run_s: int | None = None
    checkpoint_interval_s: int | None = None
    placement: Mapping[str, Any] = field(default_factory=dict)
    lifecycle: tuple[Mapping[str, Any], ...] = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    volumes: tuple[Mapping[str, Any], ...] = ()
    runtime: Mapping[str, Any] = field(default_factory=dict)
    simulate: Mapping[str, Any] = field(default_factory=dict)

    @property
    def task_count(self) -> int:
        return sum(role.replicas for role in self.roles)

    def total_demand(self) -> dict[str, int]:
        """Return the sum of the requests of all tasks, by resource.

        GPU memory counts only if it is given in MiB: that of a percentage, a whole card or an instance
        depends on the flavor that is chosen later; so do the cores of an instance.
        """
        total: Counter[str] = Counter()
        for role in self.roles:
            total[Resource.CPU] += role.replicas * role.cpu_millicores
            total[Resource.MEMORY] += role.replicas * role.memory_mib
            if role.gpu is not None:
                cards = role.replicas * role.gpu.cards
                total[Resource.GPU_CARDS] += cards
                total[Resource.GPU_CORES] += cards * role.gpu.cores
                total[Resource.GPU_MEMORY] += cards * (role.gpu.memory_mib or 0)
        return {str(resource): total[resource] for resource in Resource if total[resource]}
