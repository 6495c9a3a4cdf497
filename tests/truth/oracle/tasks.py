"""Tasks of jobs: their amounts and charges in a flavor, and the volumes that they mount."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from scheduling.engine.model import Flavor, GpuMode, Job, PlacementRules, Role
from tests.truth.oracle.cell import CARD_MEMORY, CARDS, CORES, CPU, MEMORY, least, rules_of


@dataclass(frozen=True)
class Task:
    """A task of a role in a flavor. `cores` and `memory` are per card, 0 if they follow from the card."""

    flavor: Flavor
    rules: PlacementRules
    cpu: int
    ram: int
    cards: int
    mode: GpuMode
    whole: bool
    derived: bool
    cores: int
    memory: int
    models: tuple[str, ...]
    profile: str
    extended: tuple[tuple[str, int], ...]

    def charges(self) -> dict[str, int]:
        """Return the charges of one task, by resource."""
        plain = {
            CPU: self.cpu,
            MEMORY: self.ram,
            CARDS: self.cards,
            CORES: self.cards * self.cores,
            CARD_MEMORY: self.cards * self.memory,
        }
        for name, amount in self.extended:
            plain[name] = plain.get(name, 0) + amount
        return {name: amount for name, amount in plain.items() if amount}


def task_of(job: Job, role: Role, flavor: Flavor) -> Task:
    """Return a task of this role in this flavor."""
    request, gpu = role.request, role.request.gpu
    whole, derived, cores, memory = False, False, 0, 0
    if gpu is not None and gpu.mode is GpuMode.MIG:
        # An instance is allocated whole, and charged by its name.
        whole, (cores, memory) = True, _instance(gpu.profile, flavor)
    elif gpu is not None:
        whole = gpu.mode is GpuMode.WHOLE or (gpu.cores or 0) >= flavor.card_cores
        percent = gpu.memory_percent or 0
        memory = -(-flavor.card_memory * percent // 100) if gpu.memory is None else gpu.memory
        if whole:
            cores, memory = gpu.cores or flavor.card_cores, flavor.card_memory
        elif gpu.cores is not None:
            cores = gpu.cores
        elif gpu.memory is None:
            cores = max(1, flavor.card_cores * percent // 100)
        else:
            derived = True
            cores = max(1, flavor.card_cores * memory // flavor.card_memory if flavor.card_memory else 100)
    return Task(
        flavor=flavor,
        rules=rules_of(job, role),
        cpu=request.cpu,
        ram=request.memory,
        cards=0 if gpu is None else gpu.cards,
        mode=GpuMode.WHOLE if gpu is None else gpu.mode,
        whole=whole,
        derived=derived,
        cores=cores,
        memory=memory,
        models=() if gpu is None else gpu.models,
        profile="" if gpu is None else gpu.profile,
        extended=tuple((item.resource, item.amount) for item in request.extended if item.amount),
    )


def _instance(profile: str, flavor: Flavor) -> tuple[int, int]:
    """Return the core units, rounded up, and MiB of a MIG instance, by its name (`3g.40gb`)."""
    parts, gigabytes = profile.removesuffix("gb").split("g.")
    share = min(int(parts), flavor.mig_slices)
    memory = int(gigabytes) * 1024
    return (
        -(-flavor.card_cores * share // flavor.mig_slices),
        min(memory, flavor.card_memory) if flavor.card_memory else memory,
    )


def without_claims(job: Job) -> Job:
    """Return the job without volumes."""
    return replace(job, rules=replace(job.rules, volume_claims=()))


def with_lasting_claims(task: Task) -> Task:
    """Return the task without the claims that only count until their volumes are created."""
    lasting = tuple(claim for claim in task.rules.volume_claims if not claim.temporary)
    return replace(task, rules=replace(task.rules, volume_claims=lasting))


def counts_of(job: Job, size: Callable[[Role], int] = least) -> list[int]:
    """Return the requested number of tasks of each role."""
    return [size(role) for role in job.roles]
