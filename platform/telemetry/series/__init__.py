"""The data of charts and lists: always on behalf of a viewer, with allocation and use kept separate."""

from telemetry.series.levels.cluster import cluster_series, pool_series
from telemetry.series.levels.gpu import gpu_series
from telemetry.series.levels.job import job_gpus, job_series
from telemetry.series.levels.node import node_series
from telemetry.series.levels.workspace import workspace_series
from telemetry.series.measures.measures import measure_series
from telemetry.series.query import SeriesQuery, read_series
from telemetry.series.readings.idle import IdleAllocated, IdleSlice, idle_allocated
from telemetry.series.readings.now import (
    CardNow,
    GpuNow,
    PoolUse,
    UseNow,
    jobs_now,
    jobs_use_by_pool,
    measures_now,
    pools_now,
    queues_use_by_pool,
    slices_now,
    utilisation_now,
)
from telemetry.series.readings.sight import MeasuredThing
from telemetry.series.windows.types import Point, Series, SeriesGap, SeriesSet
from telemetry.series.windows.window import POINTS

__all__ = [
    "POINTS",
    "CardNow",
    "GpuNow",
    "IdleAllocated",
    "IdleSlice",
    "MeasuredThing",
    "Point",
    "PoolUse",
    "Series",
    "SeriesGap",
    "SeriesQuery",
    "SeriesSet",
    "UseNow",
    "cluster_series",
    "gpu_series",
    "idle_allocated",
    "job_gpus",
    "job_series",
    "jobs_now",
    "jobs_use_by_pool",
    "measure_series",
    "measures_now",
    "node_series",
    "pool_series",
    "pools_now",
    "queues_use_by_pool",
    "read_series",
    "slices_now",
    "utilisation_now",
    "workspace_series",
]
