"""The sums of the requests of pending jobs by queue, without names of jobs."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from django.db.models import Count, Q, QuerySet, Sum

from clusters.models import Flavor, GpuMode
from foundation.core.quantities import Resource
from foundation.sql.products import multiply_columns
from quotas.hooks.job_effects import PendingDemand
from quotas.models import QueueFlavor
from scheduling.models import PENDING_STATES, GpuRequestMode, Job

_NARROW: Final = 200
"""The number of queues up to which a query filters by queue; beyond it, reading all queues is faster."""


def pending_demand(nodes: Sequence[uuid.UUID]) -> Mapping[uuid.UUID, PendingDemand]:
    """Return the number of pending jobs and their requests, by the quota node of their queue; four queries.

    The caller has checked permissions.
    """
    jobs = Job.unscoped.filter(state__in=PENDING_STATES).order_by()
    if len(nodes) <= _NARROW:
        jobs = jobs.filter(queue__node__in=nodes)
    wanted = set(nodes)
    counts = dict(jobs.values_list("queue__node").annotate(count=Count("pk")))
    cards: Counter[uuid.UUID] = Counter()
    by_flavor: defaultdict[uuid.UUID, Counter[uuid.UUID]] = defaultdict(Counter)
    amounts: defaultdict[uuid.UUID, Counter[tuple[uuid.UUID, Resource]]] = defaultdict(Counter)
    flavors = _flavors_of(counts.keys() & wanted)
    for node, mode, models, _asks, gpus, compute, cpu, memory in _asked(jobs):
        if node not in wanted:
            continue
        cards[node] += gpus
        for flavor in flavors[node]:
            if gpus and not flavor_suits(flavor, mode, models):
                continue
            by_flavor[node][flavor.pk] += gpus
            amounts[node][flavor.pk, Resource.GPU_CORES] += compute
            amounts[node][flavor.pk, Resource.CPU] += cpu
            amounts[node][flavor.pk, Resource.MEMORY] += memory
    return {
        node: PendingDemand(node, count, cards[node], +by_flavor[node], amounts[node])
        for node, count in counts.items()
        if node in wanted
    }


def flavor_suits(flavor: Flavor, mode: str, models: Collection[str]) -> bool:
    """Return whether a flavor has the kind of GPU that a role requests; an instance's profile is not
    compared.

    A whole GPU may come from a pool of whole GPUs or of slices, a slice only from a pool of slices.
    """
    given = (
        flavor.gpu_mode in (GpuMode.WHOLE, GpuMode.SLICE)
        if mode == GpuRequestMode.WHOLE
        else flavor.gpu_mode == mode
    )
    return given and (not models or flavor.card_model in models)


def can_borrow_now(job: Job) -> bool:
    """Return whether a pending job may borrow: it is preemptible and its reason names no limit on evicted
    jobs.

    Such limits are the eviction cap (`capped`) and the rules for evicted or drained jobs (`rule`).
    """
    return job.preemptible and not {"capped", "rule"} & job.reason_numbers.keys()


def _asked(jobs: QuerySet[Job]) -> QuerySet[Job, tuple[uuid.UUID, str, list[str], bool, int, int, int, int]]:
    """Return the requested cards, compute, CPU and memory by quota node of the queue and kind of GPU."""
    asking = jobs.filter(roles__replicas__gt=0).annotate(asks=Q(roles__gpu_cards__gt=0))
    groups = asking.values_list("queue__node", "roles__gpu_mode", "roles__gpu_models", "asks")
    factors = {
        "cards": ["gpu_cards"],
        "compute": ["gpu_cards", "gpu_cores"],
        "cpu": ["cpu_millicores"],
        "memory": ["memory_mib"],
    }
    sums = {
        name: Sum(multiply_columns("roles__replicas", *(f"roles__{column}" for column in columns)))
        for name, columns in factors.items()
    }
    return groups.annotate(**sums)


def _flavors_of(nodes: Collection[uuid.UUID]) -> Mapping[uuid.UUID, list[Flavor]]:
    rows = QueueFlavor.unscoped.order_by()
    if len(nodes) <= _NARROW:
        rows = rows.filter(queue__node__in=nodes)
    pairs = list(rows.values_list("queue__node", "flavor_id"))
    flavors = Flavor.unscoped.in_bulk({flavor for _node, flavor in pairs})
    found: defaultdict[uuid.UUID, list[Flavor]] = defaultdict(list)
    for node, flavor in pairs:
        found[node].append(flavors[flavor])
    return found
