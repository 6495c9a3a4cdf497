"""The cost of an eviction, and the tasks that can leave a job while the rest of it runs on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from foundation.core.quantities import Resource
from scheduling.engine.model import Allocation, FlavorResource, Instant, Job, Role

_CORES_PER_CARD = 100
_CORES, _CARDS = Resource.GPU_CORES.value, Resource.GPU_CARDS.value


def count_cards(charges: Mapping[FlavorResource, int]) -> float:
    """Return the compute of the charges in cards: 100 GPU cores are one card."""
    cores = cards = 0
    for (_, resource), amount in charges.items():
        if resource == _CORES:
            cores += amount
        elif resource == _CARDS:
            cards += amount
    return cores / _CORES_PER_CARD if cores else float(cards)


def running_seconds(job: Job, now: Instant) -> float:
    """Return the seconds since the present attempt began; 0 if its start is unknown."""
    return 0.0 if job.attempt_started_at is None else max(0.0, now - job.attempt_started_at)


def unsaved_seconds(job: Job, now: Instant) -> float:
    """Return the seconds of work that an eviction discards: since the last checkpoint, or all."""
    elapsed = running_seconds(job, now)
    return elapsed % job.checkpoint_interval_s if job.checkpoint_interval_s else elapsed


def find_surplus(job: Job, held: Sequence[Allocation]) -> tuple[Allocation, ...]:
    """Return the tasks that can be evicted one after the other, in this order, without breaking the gang.

    Every role keeps its minimum, every sub-gang its `min_available`, and the job its own. Roles that are
    declared later give up tasks first, and inside a role the task with the highest index.
    """
    least = {role.name: max(0, role.min_count - role.ended) for role in job.roles}
    spare = len(held) - (sum(least.values()) if job.min_available is None else job.min_available)
    # Most jobs have no surplus, and this runs for every job.
    if spare <= 0:
        return ()
    if job.min_available is None and not job.sub_gangs and len(job.roles) == 1:
        own = [task for task in held if task.role == job.roles[0].name]
        if len(own) == len(held):
            return tuple(sorted(own, key=lambda task: -task.index)[:spare])
    roles = {role.name: role for role in job.roles}
    per_role = Counter(task.role for task in held)
    spare_of_role = {name: count - least.get(name, count) for name, count in per_role.items()}
    spare_of_part = _surplus_of_sub_gangs(job, roles, per_role)
    order = {role.name: index for index, role in enumerate(job.roles)}
    leaving: list[Allocation] = []
    for task in sorted(held, key=lambda task: (-order.get(task.role, -1), -task.index)):
        role = roles.get(task.role)
        part = role.sub_gang if role is not None else ""
        if spare <= 0 or spare_of_role[task.role] <= 0 or spare_of_part.get(part, 1) <= 0:
            continue
        spare -= 1
        spare_of_role[task.role] -= 1
        if part in spare_of_part:
            spare_of_part[part] -= 1
        leaving.append(task)
    return tuple(leaving)


def _surplus_of_sub_gangs(job: Job, roles: dict[str, Role], per_role: Counter[str]) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for name, count in per_role.items():
        if name in roles:
            counts[roles[name].sub_gang] += count
    return {
        part.name: counts[part.name] - part.min_available
        for part in job.sub_gangs
        if part.min_available is not None
    }
