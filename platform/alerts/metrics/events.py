"""Metrics that count the stored events of jobs and nodes."""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from django.utils.functional import Promise
from django.utils.translation import gettext_lazy as _

from alerts.metrics.base import AlertMetric, Observation, Unit
from clusters.models import Node, NodeEvent
from scheduling.engine_input.job_history import PREEMPTED
from scheduling.models import OWN_END_REASONS, Job, JobEvent
from scheduling.selectors.events.feed import event_latest

WITHIN: Final = timedelta(minutes=15)
_NEWEST: Final = 200_000
"""The newest events that are read. They have keys and no index by time, so older ones are not read."""
_PREEMPTED: Final = frozenset(rule.value for rule in PREEMPTED)
Fits = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class _Kind:
    """Events of one kind: their codes, and the condition that their facts must meet."""

    name: str
    label: str | Promise
    codes: tuple[str, ...]
    fits: Fits = lambda _facts: True
    help: str | Promise = ""


_OF_JOBS: Final = (
    _Kind(
        "job.evictions",
        _("Evictions of a job in 15 minutes"),
        ("evicting",),
        lambda facts: facts.get("rule") not in OWN_END_REASONS,
        _("For others or because of a node; not failed tasks, restarts or cancellation."),
    ),
    _Kind(
        "job.preemptions",
        _("Preemptions of a job in 15 minutes"),
        ("evicting", "shrunk"),
        lambda facts: facts.get("rule") in _PREEMPTED,
    ),
    _Kind("job.failures", _("Failures of a job in 15 minutes"), ("failed",)),
    _Kind(
        "job.oom_kills",
        _("Out-of-memory kills of a job in 15 minutes"),
        ("evicting", "failed", "stopping"),
        lambda facts: facts.get("reason") == "OOMKilled",
        _("Containers that the cluster ended with the reason OOMKilled."),
    ),
    _Kind(
        "job.start_problems",
        _("Problems that keep a job from starting in 15 minutes"),
        ("held_up",),
        help=_("Reported by the cluster, for example an image that can't be pulled."),
    ),
)
_OF_NODES: Final = (
    _Kind("node.not_ready_events", _("Outages of a node in 15 minutes"), ("not-ready",)),
    _Kind("node.removals", _("Removals of a node in 15 minutes"), ("left",)),
    _Kind("node.cordons", _("Cordons of a node in 15 minutes"), ("cordoned",)),
    _Kind(
        "node.pressures",
        _("Pressure on a node in 15 minutes"),
        ("pressure",),
        help=_("Memory, disk or PID pressure, as the cluster reports it."),
    ),
    _Kind("node.gpu_losses", _("GPUs of a node that became unhealthy in 15 minutes"), ("cards-lost",)),
)


@dataclass(frozen=True, slots=True)
class PastEvents:
    """The times of events by subject; a time occurs as often as the event counts.

    `since`: events of the span before it are not read, because too many are stored.
    """

    times: Mapping[Any, Sequence[datetime]]
    since: datetime | None = None


def read_past_events(
    name: str, tenant_path: str, cluster_id: uuid.UUID | None, start: datetime, end: datetime
) -> PastEvents:
    """Read the events of a tenant or a cluster that a metric counts at some time of a span."""
    span = {"at__gt": start - WITHIN, "at__lte": end}
    found: defaultdict[Any, list[datetime]] = defaultdict(list)
    if kind := next((each for each in _OF_NODES if each.name == name), None):
        events = NodeEvent.unscoped.filter(**span, code__in=kind.codes)
        if cluster_id is not None:
            events = events.filter(node__cluster_id=cluster_id)
        for node, at, facts in events.order_by("at").values_list("node_id", "at", "numbers"):
            found[node] += [at] * int(facts.get("cards", 1))
        return PastEvents(found)
    kind = next(each for each in _OF_JOBS if each.name == name)
    oldest = event_latest() - _NEWEST
    of_jobs = JobEvent.unscoped.filter(pk__gt=oldest, **span, code__in=kind.codes)
    of_jobs = of_jobs.filter(job__workspace__path__startswith=tenant_path)
    for job, at, facts in of_jobs.order_by("at").values_list("job_id", "at", "numbers"):
        if kind.fits(facts):
            found[job].append(at)
    first = JobEvent.unscoped.filter(pk__gt=oldest).order_by("pk").values_list("at", flat=True).first()
    has_older = JobEvent.unscoped.filter(pk__lte=oldest).exists()
    return PastEvents(found, first if has_older and first is not None and first > start - WITHIN else None)


def _make_job_reader(kind: _Kind) -> Callable[[datetime], list[Observation]]:
    """Return a reader of the jobs with such events; the others have no observation."""

    def read_events(now: datetime) -> list[Observation]:
        lately = JobEvent.unscoped.filter(
            pk__gt=event_latest() - _NEWEST, at__gt=now - WITHIN, code__in=kind.codes
        )
        rows = lately.order_by().values_list("job_id", "numbers")
        counts = Counter(job for job, facts in rows if kind.fits(facts))
        jobs = Job.unscoped.filter(pk__in=counts).select_related("workspace").order_by("pk")
        return [
            Observation(
                subject=str(job.pk),
                label=f"{job.workspace.slug}/{job.name}",
                value=float(counts[job.pk]),
                tenant_id=job.workspace_id,
                tenant_path=job.workspace.path,
                path=f"/w/{job.workspace.slug}/jobs/{job.pk}",
            )
            for job in jobs
        ]

    return read_events


def _make_node_reader(kind: _Kind) -> Callable[[datetime], list[Observation]]:
    """Return a reader of the nodes with such events; the others have no observation."""

    def read_events(now: datetime) -> list[Observation]:
        lately = NodeEvent.unscoped.filter(at__gt=now - WITHIN, code__in=kind.codes)
        counts: Counter[Any] = Counter()
        for node, facts in lately.order_by().values_list("node_id", "numbers"):
            counts[node] += int(facts.get("cards", 1))
        return [
            Observation(
                subject=str(node.pk),
                label=node.name,
                value=float(counts[node.pk]),
                cluster_id=node.cluster_id,
                path=f"/ops/nodes/{node.name}",
            )
            for node in Node.unscoped.filter(pk__in=counts).order_by("pk")
        ]

    return read_events


JOB_EVENTS: Final = tuple(
    AlertMetric(
        kind.name, kind.label, kind.help, Unit.COUNT, _make_job_reader(kind), suggested=0, for_tenants=True
    )
    for kind in _OF_JOBS
)
NODE_EVENTS: Final = tuple(
    AlertMetric(
        kind.name, kind.label, kind.help, Unit.COUNT, _make_node_reader(kind), suggested=0, of_cluster=True
    )
    for kind in _OF_NODES
)
