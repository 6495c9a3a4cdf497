"""Figures of jobs, cards and cycles for `/metrics`."""

from __future__ import annotations

from collections.abc import Iterable

from django.db.models import Count, Sum
from prometheus_client.core import GaugeMetricFamily

from clusters.models import Cell, Device
from foundation import clock
from scheduling.models import TERMINAL_STATES, Job, JobState


def figures() -> Iterable[GaugeMetricFamily]:
    """Jobs by state and reason, age of the oldest wait and of the last cycle, cards by flavor."""
    yield from _jobs()
    yield from _cells()
    yield from _cards()


def _jobs() -> Iterable[GaugeMetricFamily]:
    live = Job.unscoped.exclude(state__in=TERMINAL_STATES)
    states = GaugeMetricFamily("allotment_jobs", "Jobs that have not ended.", labels=["state"])
    for state, count in live.order_by("state").values_list("state").annotate(Count("id")):
        states.add_metric([state], count)
    yield states
    queued = Job.unscoped.filter(state=JobState.QUEUED)
    reasons = GaugeMetricFamily("allotment_waiting_jobs", "Queued jobs by why they wait.", labels=["reason"])
    for reason, count in queued.order_by("reason").values_list("reason").annotate(Count("id")):
        reasons.add_metric([reason], count)
    yield reasons
    first = queued.order_by("submitted_at").values_list("submitted_at", flat=True).first()
    age = (clock.now() - first).total_seconds() if first else 0.0
    yield GaugeMetricFamily("allotment_oldest_wait_seconds", "Age of the oldest queued job.", value=age)


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
    granted = GaugeMetricFamily(
        "allotment_cards_allocated", "Cards handed out; slices count in part.", labels=labels
    )
    present = Device.unscoped.filter(node__present=True).order_by("node__cluster__name", "node__flavor__name")
    rows = present.values_list("node__cluster__name", "node__flavor__name")
    for cluster, flavor, cards, cores in rows.annotate(Count("id"), Sum("cores_granted")):
        total.add_metric([cluster, flavor or ""], cards)
        granted.add_metric([cluster, flavor or ""], cores / 100)
    yield total
    yield granted
