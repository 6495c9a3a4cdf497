"""The metrics that rules can use. A new metric is one entry here and its reader."""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Final

from django.utils.translation import gettext_lazy as _

from alerts.metrics import agents, hardware, jobs, platform, quotas, sources
from alerts.metrics.base import AlertMetric, MetricReading, Unit
from alerts.metrics.events import JOB_EVENTS, NODE_EVENTS
from alerts.metrics.gpu_measures import GPU_MEASURES
from alerts.metrics.promql import read_query
from tenants.access.permissions import Permission

CLUSTER_UNREACHABLE: Final = "cluster.unreachable_s"
"""A firing alert of this metric inhibits the notifications of all other alerts of its cluster."""

PROMQL: Final = "promql.value"

METRICS: Final = (
    AlertMetric(
        "job.pending_s",
        _("Waiting time of a pending job"),
        _("Since its submission, its last run or its resume. Suspended jobs aren't counted."),
        Unit.SECONDS,
        jobs.read_pending_times,
        suggested=3600,
        for_tenants=True,
    ),
    AlertMetric(
        "job.idle_gpus",
        _("Idle GPUs of a running job"),
        _(
            "GPUs and slices below 3 percent utilization for 5 minutes. "
            "Jobs without samples aren't evaluated."
        ),
        Unit.COUNT,
        jobs.read_idle_gpus,
        suggested=0,
        for_tenants=True,
    ),
    AlertMetric(
        "job.idle_warning",
        _("Idle warning of a running job"),
        _("1 while the idle policy is about to suspend the job, scale it down or make it preemptible."),
        Unit.COUNT,
        jobs.read_idle_warnings,
        suggested=0,
        for_tenants=True,
    ),
    AlertMetric(
        "job.memory_percent",
        _("GPU memory usage of a running job"),
        _("Percentage of the GPU memory that the job was allocated."),
        Unit.PERCENT,
        jobs.read_memory_shares,
        suggested=95,
        for_tenants=True,
    ),
    AlertMetric(
        "job.utilization_percent",
        _("GPU utilization of a running job"),
        _("Percentage of the compute that the job was allocated."),
        Unit.PERCENT,
        jobs.read_utilization,
        suggested=80,
        for_tenants=True,
    ),
    AlertMetric(
        "job.memory_used_mib",
        _("Used GPU memory of a running job"),
        "",
        Unit.MEBIBYTES,
        jobs.read_memory_used,
        suggested=70_000,
        for_tenants=True,
    ),
    AlertMetric(
        "job.slices_over_allocation",
        _("Slices of a job with more than their allocation"),
        _("Slices that use more GPU memory or compute than allocated, or whose memory limit was changed."),
        Unit.COUNT,
        jobs.read_over_use,
        suggested=0,
        for_tenants=True,
    ),
    *JOB_EVENTS,
    AlertMetric(
        "quota.reserved_percent",
        _("Reserved GPU quota of a tenant"),
        _("Percentage of the nominal quota in each pool. Above 100%, quota is borrowed."),
        Unit.PERCENT,
        quotas.read_quota_shares,
        suggested=90,
        for_tenants=True,
        permission=Permission.QUOTA_VIEW,
        of_cluster=True,
    ),
    AlertMetric(
        "budget.used_percent",
        _("Used budget"),
        _("Percentage of the GPU-hours of the calendar month (UTC)."),
        Unit.PERCENT,
        quotas.read_budget_shares,
        suggested=80,
        for_tenants=True,
        permission=Permission.QUOTA_VIEW,
    ),
    AlertMetric(
        "gpu.utilization_percent",
        _("Utilization of a GPU"),
        _("Measured compute utilization."),
        Unit.PERCENT,
        hardware.make_gpu_reader(lambda sample, _device: sample.utilisation_percent),
        suggested=95,
        of_cluster=True,
    ),
    AlertMetric(
        "gpu.memory_percent",
        _("Memory usage of a GPU"),
        _("Percentage of the GPU's memory."),
        Unit.PERCENT,
        hardware.make_gpu_reader(hardware.read_memory_share),
        suggested=95,
        of_cluster=True,
    ),
    AlertMetric(
        "gpu.temperature_c",
        _("Temperature of a GPU"),
        "",
        Unit.CELSIUS,
        hardware.make_gpu_reader(lambda sample, _device: sample.temperature_c),
        suggested=85,
        of_cluster=True,
    ),
    AlertMetric(
        "gpu.power_w",
        _("Power of a GPU"),
        "",
        Unit.WATTS,
        hardware.make_gpu_reader(lambda sample, _device: sample.power_w),
        suggested=600,
        of_cluster=True,
    ),
    *GPU_MEASURES,
    AlertMetric(
        "gpu.unhealthy",
        _("Unhealthy GPU"),
        _("1 while the cluster reports the GPU as unhealthy."),
        Unit.COUNT,
        hardware.read_unhealthy_gpus,
        suggested=0,
        of_cluster=True,
    ),
    AlertMetric(
        "gpu.xid_errors",
        _("XID errors of a GPU in 15 minutes"),
        _("Needs the node agent."),
        Unit.COUNT,
        agents.read_xid_errors,
        suggested=0,
        of_cluster=True,
    ),
    AlertMetric(
        "gpu.faults",
        _("Driver faults of a GPU in 15 minutes"),
        _("GPU lost, reset required or driver mismatch. Needs the node agent."),
        Unit.COUNT,
        agents.read_device_faults,
        suggested=0,
        of_cluster=True,
    ),
    AlertMetric(
        "gpu.unknown_processes",
        _("Processes on a GPU without an allocation"),
        _("Processes of the last minute that belong to no pod of the platform. Needs the node agent."),
        Unit.COUNT,
        agents.read_unknown_processes,
        suggested=0,
        of_cluster=True,
    ),
    AlertMetric(
        "node.unready_s",
        _("Time since a node became not ready"),
        "",
        Unit.SECONDS,
        hardware.read_unready_times,
        suggested=120,
        of_cluster=True,
    ),
    AlertMetric(
        "node.utilization_percent",
        _("GPU utilization of a node"),
        _("Mean of its measured GPUs."),
        Unit.PERCENT,
        hardware.read_node_utilization,
        suggested=95,
        of_cluster=True,
    ),
    *NODE_EVENTS,
    AlertMetric(
        "cluster.utilization_percent",
        _("GPU utilization of a cluster"),
        _("Mean of its measured GPUs."),
        Unit.PERCENT,
        hardware.read_cluster_utilization,
        suggested=90,
        of_cluster=True,
    ),
    AlertMetric(
        "cluster.allocated_percent",
        _("Allocated GPU compute of a cluster"),
        "",
        Unit.PERCENT,
        hardware.read_cluster_allocation,
        suggested=95,
        of_cluster=True,
    ),
    AlertMetric(
        CLUSTER_UNREACHABLE,
        _("Time since a cluster became unreachable"),
        _("While this alert fires, other alerts of the cluster send no notifications."),
        Unit.SECONDS,
        hardware.read_unreachable_times,
        suggested=60,
        of_cluster=True,
    ),
    AlertMetric(
        "cluster.no_samples_s",
        _("Time since the last GPU sample of a cluster"),
        "",
        Unit.SECONDS,
        hardware.read_sample_gaps,
        suggested=120,
        of_cluster=True,
    ),
    AlertMetric(
        "source.silent_s",
        _("Time since a data source stopped answering"),
        _("0 while it answers; disabled sources aren't evaluated."),
        Unit.SECONDS,
        sources.read_source_outages,
        suggested=120,
        of_cluster=True,
    ),
    AlertMetric(
        PROMQL,
        _("Value of a PromQL query"),
        _("Each series of the answer is a subject. Needs a Prometheus server among the data sources."),
        Unit.COUNT,
        lambda _now: (),
        suggested=0,
        of_cluster=True,
        read_query=read_query,
    ),
    AlertMetric(
        "platform.failed_check",
        _("Failed readiness check of the platform"),
        _("1 while a check of /readyz/platform fails."),
        Unit.COUNT,
        platform.read_failed_checks,
        suggested=0,
    ),
)

BY_NAME: Final = {metric.name: metric for metric in METRICS}


def read_metric(name: str, query: str, cluster_id: uuid.UUID | None, now: datetime) -> MetricReading:
    """Read a metric by its name; `query` and `cluster_id` are for a metric with queries."""
    metric = BY_NAME[name]
    if metric.read_query is None:
        return MetricReading(metric.read(now))
    return metric.read_query(query, cluster_id, now)
