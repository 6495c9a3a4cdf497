"""Jobs of a cell as the engine sees them, with what limits them."""

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

# What a cycle looks at: jobs that wait for it, and those that hold what others wait for.
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
    """Return these jobs; `roles` are theirs at least, those of each in their order.

    A job submitted between the two queries has roles but is not in `jobs`, one that ended is there without
    any; the next cycle sees the one, and nobody has to see the other.
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
    """Return the limits of the jobs of a cell at this moment."""
    return AllowanceReader(_WORKSPACES(cell_id), now=clock.now())


def apply_claims(found: ClaimReader, seen: list[em.Job], rows: Mapping[str, Job]) -> list[em.Job]:
    """The jobs with the volume claims that they mount."""
    return [found.apply_claims(job, rows[job.id]) for job in seen] if found.any else seen


def apply_limits(found: AllowanceReader, seen: list[em.Job], rows: Mapping[str, Job]) -> list[em.Job]:
    """The jobs with the limits of their users and what their tenants' budgets do not let start."""
    if not found.any:
        return seen
    return [
        found.apply_limits(job, workspace_id=rows[job.id].workspace_id, user_id=rows[job.id].submitted_by_id)
        for job in seen
    ]


def most_cards(nodes: Sequence[em.Node], flavors: Sequence[em.Flavor]) -> dict[str, int]:
    """The cards of the largest node of each flavor."""
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
    """The jobs, those that their queue's own cards could never hold kept one eviction below the cap.

    At the cap a job starts inside the own nominal alone. One that can never fit there, on nodes that take
    its tasks, would wait for ever, in an empty cluster too: it goes on borrowing, and giving way.
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
