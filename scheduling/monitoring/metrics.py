"""Figures of jobs, cards and cycles for `/metrics`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from django.db.models import Count, Sum
from prometheus_client.core import GaugeMetricFamily

from clusters.models import Cell, Cluster, ClusterHealth, Device
from foundation.core import clock
from scheduling.models import TERMINAL_STATES, Job, JobState

_LIVE: Final = tuple(state for state in JobState.values if state not in TERMINAL_STATES)


def collect_figures() -> Iterable[GaugeMetricFamily]:
    """Jobs by state and reason, age of the oldest wait and of the last cycle, clusters, cards by flavor."""
    yield from _jobs()
    yield from _cells()
    yield from _clusters()
    yield from _cards()


def _jobs() -> Iterable[GaugeMetricFamily]:
    live = Job.unscoped.exclude(state__in=TERMINAL_STATES)
    states = GaugeMetricFamily("allotment_jobs", "Jobs that have not ended.", labels=["state"])
    counted = dict(live.order_by("state").values_list("state").annotate(Count("id")))
    for state in _LIVE:
        states.add_metric([state], counted.get(state, 0))
    yield states
    queued = Job.unscoped.filter(state=JobState.QUEUED)
    reasons = GaugeMetricFamily("allotment_waiting_jobs", "Queued jobs by why they wait.", labels=["reason"])
    for reason, count in queued.order_by("reason").values_list("reason").annotate(Count("id")):
        reasons.add_metric([reason], count)
    yield reasons
    oldest = GaugeMetricFamily(
        "allotment_oldest_wait_seconds", "Age of the oldest queued job; none where nobody waits.", labels=[]
    )
    first = queued.order_by("submitted_at").values_list("submitted_at", flat=True).first()
    if first is not None:
        oldest.add_metric([], (clock.now() - first).total_seconds())
    yield oldest


def _clusters() -> Iterable[GaugeMetricFamily]:
    reachable = GaugeMetricFamily(
        "allotment_cluster_up", "Whether the cluster answered when it was last asked.", labels=["cluster"]
    )
    ages = GaugeMetricFamily(
        "allotment_cluster_observed_age_seconds", "Since a look at the cluster succeeded.", labels=["cluster"]
    )
    for cluster in Cluster.unscoped.order_by("name"):
        if cluster.health != ClusterHealth.UNKNOWN:
            reachable.add_metric([cluster.name], float(cluster.health == ClusterHealth.HEALTHY))
        if cluster.observed_at is not None:
            ages.add_metric([cluster.name], (clock.now() - cluster.observed_at).total_seconds())
    yield reachable
    yield ages


def _cells() -> Iterable[GaugeMetricFamily]:
    cycles = GaugeMetricFamily("allotment_cycle_number", "Engine cycles of a cell.", labels=["cell"])
    ages = GaugeMetricFamily("allotment_cycle_age_seconds", "Since a cell's last cycle.", labels=["cell"])
    for cell in Cell.unscoped.order_by("name"):
        cycles.add_metric([cell.name], cell.cycle_number)
        if cell.last_cycle_at is not None:
            ages.add_metric([cell.name], (clock.now() - cell.last_cycle_at).total_seconds())
    yield cycles
    yield ages


def _cards() -> Iterable[GaugeMetricFamily]:
    labels = ["cluster", "flavor"]
    total = GaugeMetricFamily("allotment_cards", "Cards, healthy or not.", labels=labels)
    allocated = GaugeMetricFamily(
        "allotment_cards_allocated", "Cards handed out; slices count in part.", labels=labels
    )
    present = Device.unscoped.filter(node__present=True).order_by("node__cluster__name", "node__flavor__name")
    rows = present.values_list("node__cluster__name", "node__flavor__name")
    for cluster, flavor, cards, cores in rows.annotate(Count("id"), Sum("cores_granted")):
        total.add_metric([cluster, flavor or ""], cards)
        allocated.add_metric([cluster, flavor or ""], cores / 100)
    yield total
    yield allocated
