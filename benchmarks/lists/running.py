"""Running jobs on their GPUs, and the rows of ended jobs: attempts, events, usage and measured use."""

from __future__ import annotations

import random
import uuid
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from typing import Final

from django.db import connection
from django.db.models import F, Sum

from clusters.gpu.report import read_report
from clusters.models import Device, Flavor, Node
from foundation.core import clock
from foundation.core.months import month_of
from quotas.models import GpuUse, LedgerEntry, Queue
from scheduling.models import Allocation, Attempt, DeviceSlice, Job, JobRole, JobState
from telemetry.store.ingest import store_batches

BATCH: Final = 5000
SIZES: Final = ((8,), (4, 2, 1, 1), (4, 2, 1, 1), (8,), (4, 2, 1, 1))
"""The GPUs of the jobs on a node, node by node: 3.5 jobs on ten GPUs."""
_ROUNDS: Final = 2
_ROUND_MS: Final = 15_000
_NODES_AT_ONCE: Final = 50
# Running and pending jobs were submitted within the last three days.
_LATELY: Final = """
UPDATE scheduling_job SET
    submitted_at = now() - (now() - submitted_at) / 120,
    admitted_at = now() - (now() - admitted_at) / 120,
    started_at = now() - (now() - started_at) / 120,
    reason_at = now() - (now() - reason_at) / 120
WHERE state IN ('queued', 'suspended', 'running')
"""
_ATTEMPTS: Final = """
INSERT INTO scheduling_attempt (id, created_at, job_id, number, epoch, admitted_at, started_at, ended_at,
    end_reason, borrowed, shrinks, metered_at)
SELECT gen_random_uuid(), admitted_at, id, 1, 1, admitted_at, started_at, finished_at,
    CASE WHEN hashtext(name) % 50 = 0 THEN 'RECLAIM_NOMINAL' WHEN state = 'succeeded' THEN ''
         ELSE end_reason END,
    '{}', 0, finished_at
FROM scheduling_job WHERE state IN ('succeeded', 'failed', 'cancelled')
"""
_LATEST: Final = """
UPDATE scheduling_job j SET attempt_number = a.number FROM scheduling_attempt a WHERE a.job_id = j.id
"""
_PAST_ALLOCATIONS: Final = """
INSERT INTO scheduling_allocation (id, created_at, attempt_id, task_id, node_id, flavor_id, cpu_millicores,
    memory_mib, charge, revision, namespace, pod_name, pod_uid, restarts, restarting, ensure_failures,
    ensured_at, removed_at, released_at)
SELECT gen_random_uuid(), a.admitted_at, a.id, t.id, n.id, n.flavor_id, 8000, 65536,
    '{"gpu.cards": 1, "gpu.cores": 100}', 0, 'team-' || j.workspace_id, 'pod-' || a.id, '', 0, false, 0,
    a.started_at, a.ended_at, a.ended_at
FROM scheduling_attempt a JOIN scheduling_job j ON j.id = a.job_id JOIN scheduling_task t ON t.job_id = j.id
JOIN (SELECT id, flavor_id, row_number() OVER (ORDER BY name) AS place, count(*) OVER () AS count
      FROM clusters_node) n ON n.place = 1 + abs(hashtext(a.id::text)) % n.count
WHERE a.ended_at IS NOT NULL
"""
_EVENTS: Final = """
INSERT INTO scheduling_jobevent (job_id, at, code, actor, numbers)
SELECT id, at, code, '', '{}' FROM scheduling_job, LATERAL (VALUES
    ('submitted', submitted_at), ('admitted', admitted_at), ('running', started_at), (state, finished_at)
) story(code, at) WHERE at IS NOT NULL ORDER BY at
"""
_INTERVALS: Final = """
INSERT INTO scheduling_usageinterval (workspace_id, queue_id, user_id, job_id, job_name, attempt_id,
    flavor_id, sliced, begin_ms, end_ms, cores, billed, borrowed, lost)
SELECT j.workspace_id, j.queue_id, j.submitted_by_id, j.id, j.name, a.id, %(flavor)s, false,
    extract(epoch FROM a.admitted_at) * 1000, extract(epoch FROM a.ended_at) * 1000, 100, 100, 0,
    CASE WHEN a.end_reason = 'RECLAIM_NOMINAL' THEN 100 ELSE 0 END
FROM scheduling_attempt a JOIN scheduling_job j ON j.id = a.job_id WHERE a.ended_at IS NOT NULL
ORDER BY a.ended_at
"""
_MEASURED: Final = """
INSERT INTO telemetry_measureduse (workspace_id, job_id, flavor_id, day, measured, used)
SELECT workspace_id, job_id, flavor_id, begin_ms / 86400000,
    decode(repeat('00', 96 * 8), 'hex'), decode(repeat('00', 96 * 8), 'hex')
FROM scheduling_usageinterval
"""


def fill_history(flavor: Flavor) -> None:
    """Write the rows of ended jobs, and move the others to the last days."""
    with connection.cursor() as cursor:
        for statement in (_LATELY, _ATTEMPTS, _PAST_ALLOCATIONS, _EVENTS):
            cursor.execute(statement)
        cursor.execute(_INTERVALS, {"flavor": flavor.pk})
        cursor.execute(_MEASURED)


def run_jobs(flavor: Flavor) -> None:
    """Put running jobs on GPUs, node by node, until jobs or GPUs are used up; the ledger counts them."""
    jobs = iter(Job.unscoped.filter(state=JobState.RUNNING).order_by("pk").prefetch_related("tasks", "roles"))
    attempts, holds, slices, roles = [], [], [], []
    nodes = list(Node.unscoped.filter(flavor=flavor).order_by("name").prefetch_related("devices"))
    for job, node, cards in _places(jobs, nodes):
        attempt = Attempt(
            job=job,
            number=1,
            epoch=1,
            admitted_at=job.admitted_at or job.submitted_at,
            started_at=job.started_at,
        )
        role, task = job.roles.all()[0], job.tasks.all()[0]
        role.gpu_cards, role.cpu_millicores, role.memory_mib = len(cards), 8000 * len(cards), 65_536
        hold = Allocation(
            attempt=attempt, task=task, node=node, flavor=flavor, cpu_millicores=role.cpu_millicores,
            memory_mib=role.memory_mib, namespace=f"team-{job.workspace_id}", pod_name=f"pod-{attempt.pk}",
            charge={"gpu.cards": len(cards), "gpu.cores": 100 * len(cards)}, pod_uid=str(uuid.uuid4()),
            ensured_at=job.started_at,
        )  # fmt: skip
        attempts.append(attempt)
        holds.append(hold)
        roles.append(role)
        slices += [
            DeviceSlice(
                allocation=hold, device=card, cores=100, memory_mib=card.memory_capacity, exclusive=True
            )
            for card in cards
        ]
    Attempt.unscoped.bulk_create(attempts, batch_size=BATCH)
    Allocation.unscoped.bulk_create(holds, batch_size=BATCH)
    DeviceSlice.unscoped.bulk_create(slices, batch_size=BATCH)
    JobRole.unscoped.bulk_update(roles, ["gpu_cards", "cpu_millicores", "memory_mib"], batch_size=500)
    with connection.cursor() as cursor:
        cursor.execute(_LATEST)
    _count_grants(flavor)


def _places(jobs: Iterator[Job], nodes: Sequence[Node]) -> Iterator[tuple[Job, Node, list[Device]]]:
    for number, node in enumerate(nodes):
        cards = sorted(node.devices.all(), key=lambda card: card.index)
        for size in SIZES[number % len(SIZES)]:
            job = next(jobs, None)
            if job is None:
                return
            yield job, node, cards[:size]
            cards = cards[size:]


def _count_grants(flavor: Flavor) -> None:
    held = DeviceSlice.unscoped.values("device_id")
    Device.unscoped.filter(pk__in=held).update(
        cores_granted=100, memory_granted=F("memory_capacity"), holders=1
    )
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE clusters_node n SET cpu_granted = s.cpu, memory_granted = s.memory FROM "
            "(SELECT node_id, sum(cpu_millicores) cpu, sum(memory_mib) memory "
            "FROM scheduling_allocation WHERE released_at IS NULL GROUP BY 1) s WHERE s.node_id = n.id"
        )
    sums = (
        Allocation.unscoped.filter(released_at__isnull=True)
        .values("attempt__job__queue__node")
        .annotate(cpu=Sum("cpu_millicores"), memory=Sum("memory_mib"))
    )
    cards = dict(
        DeviceSlice.unscoped.values_list("allocation__attempt__job__queue__node").annotate(n=Sum("cores"))
    )
    month = month_of(clock.now())
    LedgerEntry.unscoped.bulk_create(
        LedgerEntry(node_id=node, flavor=flavor, resource=resource, reserved=amount, month=month)
        for node, cpu, memory in sums.values_list("attempt__job__queue__node", "cpu", "memory")
        for resource, amount in (
            ("gpu.cards", cards[node] // 100),
            ("gpu.cores", cards[node]),
            ("gpu.memory", cards[node] // 100 * flavor.card_memory_mib),
            ("cpu", cpu),
            ("memory", memory),
        )
    )
    GpuUse.unscoped.bulk_create(
        GpuUse(node_id=queue.node_id, flavor=flavor, month=past, core_ms=10**10)
        for queue in Queue.unscoped.all()
        for past in (date(month.year - 1, number, 1) for number in range(1, 13))
    )


def measure_gpus(cluster_id: uuid.UUID) -> None:
    """Store the latest measurements of every GPU and of the jobs on it."""
    dice, now = random.Random(1), clock.now()
    moment = int((now - timedelta(seconds=30)).timestamp() * 1000)
    names = list(Node.unscoped.order_by("name").values_list("name", flat=True))
    uuids = defaultdict(list)
    for name, each in Device.unscoped.values_list("node__name", "uuid"):
        uuids[name].append(each)
    for number in range(_ROUNDS):
        at_ms = moment + number * _ROUND_MS
        for start in range(0, len(names), _NODES_AT_ONCE):
            reports = [
                read_report(_report(name, uuids[name], at_ms, dice), at_ms)
                for name in names[start : start + _NODES_AT_ONCE]
            ]
            store_batches(cluster_id, [batch for report in reports for batch in report.batches])


def _report(node: str, uuids: Sequence[str], at_ms: int, dice: random.Random) -> object:
    devices = [
        {
            "uuid": each,
            "parent": None,
            "values": {
                "utilization_percent": round(dice.uniform(0, 99), 1),
                "power_w": round(dice.uniform(60, 400), 1),
            },
        }
        for each in uuids
    ]
    batch = {"at_ms": at_ms, "interval_ms": _ROUND_MS, "devices": devices}
    return {"version": 1, "node": node, "sent_at_ms": at_ms, "batches": [batch]}
