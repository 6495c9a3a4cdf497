"""The jobs of a cell as jobs of the engine, with their limits."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from foundation.core import clock
from foundation.core.quantities import Resource
from foundation.sql.prepared import PreparedQuery
from scheduling.engine import model as em
from scheduling.engine_input.allowances import AllowanceReader
from scheduling.engine_input.config import engine_config
from scheduling.engine_input.jobs import Past, RoleRow, engine_job
from scheduling.engine_input.volume_claims import ClaimReader
from scheduling.models import HOLDING_STATES, Job, JobRole, JobState
from tenants.models import Tenant

# A cycle reads pending jobs and jobs with allocations.
SEEN: Final = (JobState.QUEUED, *HOLDING_STATES)
_WORKSPACES: Final = PreparedQuery(
    lambda cell: Tenant.unscoped.filter(queues__cell=cell).order_by().distinct()
)


def jobs_of(
    jobs: Iterable[Job],
    roles: Iterable[JobRole | RoleRow],
    *,
    watched: Container[uuid.UUID],
    pasts: Mapping[uuid.UUID, Past],
) -> list[em.Job]:
    """Return these jobs as jobs of the engine; `roles` includes their roles, those of each job in order.

    A job submitted between the two queries has roles but is not in `jobs`; the next cycle reads it. A job
    that ended between them has no roles, and is left out.
    """
    of: defaultdict[uuid.UUID, list[JobRole | RoleRow]] = defaultdict(list)
    for role in roles:
        of[role.job_id].append(role)
    new = Past()
    return [
        engine_job(job, of[job.pk], watched=watched, past=pasts.get(job.pk, new))
        for job in jobs
        if job.pk in of
    ]


def allowances_of(cell_id: uuid.UUID) -> AllowanceReader:
    """Return the current limits for the jobs of a cell."""
    return AllowanceReader(_WORKSPACES(cell_id), now=clock.now())


def apply_claims(found: ClaimReader, seen: list[em.Job], rows: Mapping[str, Job]) -> list[em.Job]:
    """Return the jobs with the volume claims that they mount."""
    return [found.apply_claims(job, rows[job.id]) for job in seen] if found.any else seen


def apply_limits(found: AllowanceReader, seen: list[em.Job], rows: Mapping[str, Job]) -> list[em.Job]:
    """Return the jobs with the limits of their users and the flavors that used-up budgets bar."""
    if not found.any:
        return seen
    return [
        found.apply_limits(job, workspace_id=rows[job.id].workspace_id, user_id=rows[job.id].submitted_by_id)
        for job in seen
    ]


def most_cards(nodes: Sequence[em.Node], flavors: Sequence[em.Flavor]) -> dict[str, int]:
    """Return the number of cards of the largest node of each flavor."""
    return {
        flavor.id: max(
            (
                len(node.devices)
                for node in nodes
                if node.cluster == flavor.cluster and flavor.node_labels.items() <= node.labels.items()
            ),
            default=0,
        )
        for flavor in flavors
    }


def below_cap(
    jobs: Sequence[em.Job],
    queues: Sequence[em.Queue],
    quota_nodes: Sequence[em.QuotaNode],
    most_cards: Mapping[str, int],
) -> list[em.Job]:
    """Return the jobs; those that can never fit into their queue's own quota stay one eviction below the cap.

    A job at the cap may only start within own nominal. A job that can never fit there, on nodes with enough
    cards for a task, would wait without end even in an empty cluster; so it may still borrow, and be evicted.
    """
    cap = engine_config().preemption.eviction_cap
    by_node = {node.id: [q for q in node.quotas if q.resource == Resource.GPU_CARDS] for node in quota_nodes}
    own = {queue.id: by_node.get(queue.quota_node, []) for queue in queues}

    def is_stranded(job: em.Job) -> bool:
        cards = [(role.min_count, role.request.gpu.cards) for role in job.roles if role.request.gpu]
        asked = sum(tasks * each for tasks, each in cards)
        largest = max((each for _, each in cards), default=0)
        return not any(
            most_cards.get(quota.flavor, 0) >= largest
            and (quota.own_nominal is None or quota.own_nominal >= asked)
            for quota in own.get(job.queue, ())
        )

    return [
        replace(job, evictions=cap - 1) if job.evictions >= cap and is_stranded(job) else job for job in jobs
    ]
