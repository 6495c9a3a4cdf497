"""Places jobs that a cluster's own engine has admitted, and records their admissions.

The cluster's engine decides only on admission; the platform's engine chooses the nodes. Each job gets into a
cycle that only places, with exactly the quota and the flavors of its admission, so that the engine either
places it or reports why no node fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cache

import structlog
from django.db import IntegrityError, transaction

from clusters.backends.delegation import WorkloadVerdict
from clusters.models import Cell, Cluster
from clusters.services.grants import NoLongerFree
from foundation.core.quantities import Resource
from foundation.messaging import outbox
from quotas.selectors.limits.tree import load_tree
from scheduling import engine
from scheduling.commit import admission
from scheduling.commit.batch import CommitBatch, write_decisions, write_events
from scheduling.commit.limits import AdmissionLimits
from scheduling.engine import model as em
from scheduling.engine_input.config import engine_config
from scheduling.engine_input.jobs import engine_job
from scheduling.models import Job, JobRole
from scheduling.snapshots import CellSnapshot
from scheduling.snapshots.cell_parts import Seeker, placement_snapshot

log = structlog.get_logger(__name__)


@cache
def _config() -> engine.EngineConfig:
    """Return a configuration that only places jobs, without preemption, fair sharing or recommendations."""
    return replace(engine_config(), actions=("allocate",), fair_sharing=None, user_shares=None, advise_for="")


def place_admitted(
    cluster: Cluster, admitted: Sequence[tuple[Job, Sequence[JobRole], WorkloadVerdict]], now: datetime
) -> list[tuple[Job, str, Mapping[str, int | str]]]:
    """Place the jobs that fit and record their admissions; return the others with reason and numbers."""
    if not admitted:
        return []
    jobs = {str(job.pk): job for job, _, _ in admitted}
    seekers = [_seeker(job, roles, verdict) for job, roles, verdict in admitted]
    taken = placement_snapshot(cluster, seekers, jobs)
    result = engine.run_cycle(taken.snapshot, _config(), em.Instant(now.timestamp()))
    verdicts = {str(job.pk): verdict for job, _, verdict in admitted}
    for decision in result.decisions:
        if decision.kind is em.DecisionKind.ADMIT:
            _write_placement(cluster, taken, decision, verdicts[decision.job], now)
    return [
        (jobs[outcome.job], outcome.reason.value, _numbers(outcome, taken))
        for outcome in result.outcomes
        if outcome.reason is not None
    ]


def _numbers(outcome: em.JobOutcome, taken: CellSnapshot) -> Mapping[str, int | str]:
    """Return the outcome's numbers with names, without the queue, which exists in this cycle only."""
    numbers = taken.with_names(outcome.numbers)
    return {key: value for key, value in numbers.items() if value != outcome.job}


def _seeker(job: Job, roles: Sequence[JobRole], verdict: WorkloadVerdict) -> Seeker:
    own = str(job.pk)
    sizes = verdict.counts
    made = engine_job(job, roles)
    sized = tuple(
        replace(role, replicas=count, min_replicas=None)
        for role in made.roles
        if (count := sizes.get(role.name, role.replicas))
    )
    flavors = sorted(set(verdict.pools.values()))
    amounts = _amounts(sized, verdict)
    quotas = tuple(
        em.Quota(flavor=flavor, resource=resource.value, own_nominal=amounts.get((flavor, resource)))
        for flavor in flavors
        for resource in Resource
    )
    return Seeker(
        job=replace(made, queue=own, roles=sized, min_available=None, backoff_until=None),
        queue=em.Queue(id=own, quota_node=own, flavors=tuple(flavors)),
        quota=em.QuotaNode(id=own, quotas=quotas),
    )


def _amounts(roles: Sequence[em.Role], verdict: WorkloadVerdict) -> Mapping[tuple[str, Resource], int]:
    """Return the admitted cards and CPU by flavor; if there are several, this decides each role's flavor."""
    found: dict[tuple[str, Resource], int] = {}
    for role in roles:
        flavor, gpu = verdict.pools.get(role.name, ""), role.request.gpu
        each = {Resource.CPU: role.request.cpu, Resource.GPU_CARDS: gpu.cards if gpu else 0}
        for resource, amount in each.items():
            key = flavor, resource
            found[key] = found.get(key, 0) + amount * role.replicas
    return found


def _write_placement(
    cluster: Cluster, taken: CellSnapshot, decision: em.Decision, verdict: WorkloadVerdict, now: datetime
) -> None:
    """Write one admission; if its nodes or cards were taken meanwhile, the next reconciliation places it."""
    try:
        with transaction.atomic():
            _write(cluster, taken, decision, verdict, now)
    except (NoLongerFree, IntegrityError) as error:
        log.info("places of an admitted job are gone", job=decision.job, why=str(error))


def _write(
    cluster: Cluster, taken: CellSnapshot, decision: em.Decision, verdict: WorkloadVerdict, now: datetime
) -> None:
    # Locks are taken in the order that every change keeps: the cell, the job, the ledger, nodes, cards.
    cell = Cell.unscoped.select_for_update(no_key=True).get(pk=cluster.cell_id)
    rows = Job.unscoped.filter(pk=decision.job).select_related("queue", "workspace")
    job = rows.select_for_update(of=("self",), no_key=True).get()
    if job.version != taken.jobs[decision.job].version:
        return
    tree = load_tree(cell.pk)
    batch = CommitBatch(cell, now, taken, tree, {decision.job: job}, AdmissionLimits((), now))
    decision = admission.with_loans(decision, tree, str(job.queue.node_id))
    explained = admission.fits_quota(batch, decision)
    if not admission.record_admission(batch, decision, admission.tasks_of([decision])):
        return
    if not explained:
        # The ledger records it nevertheless, because the cluster has admitted the job and it runs.
        log.warning("admitted beyond the quota tree", cluster=cluster.name, job=decision.job)
        numbers = {"cluster": cluster.name, "workload": f"{verdict.namespace}/{verdict.name}"}
        batch.add_event(job, "beyond_quota", numbers)
    admission.write_admissions(batch)
    write_events(batch.events)
    write_decisions(batch.decisions)
    outbox.add_hint(outbox.Topic.EXECUTE, cluster.pk)
