"""Computes means, percentiles and slowdowns of the records of a replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scheduling.simulation.clock import Record

HOUR_S = 3600


@dataclass(frozen=True, slots=True)
class ValueSpread:
    """Mean and percentiles of times in seconds; percentile p is the sorted value at index ⌊p·n⌋."""

    mean: float
    p50: float
    p95: float
    p99: float

    @classmethod
    def of_values(cls, values: Sequence[int]) -> ValueSpread:
        """Return the spread of values; zeros if there are none."""
        if not values:
            return cls(0.0, 0.0, 0.0, 0.0)
        ranked = sorted(values)
        at = [float(ranked[len(ranked) * percent // 100]) for percent in (50, 95, 99)]
        return cls(round(sum(ranked) / len(ranked), 3), *at)

    def to_json(self) -> dict[str, float]:
        """Return the keys mean, p50, p95, p99."""
        return {"mean": self.mean, "p50": self.p50, "p95": self.p95, "p99": self.p99}


@dataclass(frozen=True, slots=True)
class TenantFigures:
    """The figures of one tenant: mean queue and completion times, and completion relative to a private
    cluster."""

    queue_s: float
    jct_s: float
    rho_mean: float
    rho_max: float

    def to_json(self) -> dict[str, float]:
        """Return the keys queue_s, jct_s (means in seconds), rho_mean, rho_max."""
        return {
            "queue_s": self.queue_s,
            "jct_s": self.jct_s,
            "rho_mean": self.rho_mean,
            "rho_max": self.rho_max,
        }


def queue_times(records: Sequence[Record]) -> list[int]:
    """Return the queue times of the finished jobs, in seconds."""
    return [queue for record in records if (queue := record.queue_s) is not None]


def completion_times(records: Sequence[Record]) -> list[int]:
    """Return the completion times of the finished jobs, in seconds."""
    return [jct for record in records if (jct := record.jct_s) is not None]


def tenant_figures(records: Sequence[Record], private: Mapping[str, Record]) -> TenantFigures:
    """Return the figures of one tenant's finished jobs; `private` are the same jobs in private clusters."""
    rhos = [
        jct / alone
        for record in records
        if (jct := record.jct_s) is not None and (alone := private[record.job.name].jct_s)
    ]
    return TenantFigures(
        ValueSpread.of_values(queue_times(records)).mean,
        ValueSpread.of_values(completion_times(records)).mean,
        round(sum(rhos) / len(rhos), 4) if rhos else 1.0,
        round(max(rhos, default=1.0), 4),
    )


def count_harmed(records: Sequence[Record], private: Mapping[str, Record], grace_s: int) -> int:
    """Return the number of jobs that waited longer than in their tenant's private cluster plus `grace_s`."""
    return sum(
        1
        for record in records
        if (queue := record.queue_s) is not None
        and (alone := private[record.job.name].queue_s) is not None
        and queue > alone + grace_s
    )


def compute_makespan(records: Sequence[Record]) -> int:
    """Return the seconds from the first submission to the last finish."""
    ends = [record.finished_s for record in records if record.finished_s is not None]
    return max(ends) - min(record.job.submit_s for record in records) if ends else 0


def compute_utilisation(records: Sequence[Record], gpus: int) -> float:
    """Return the card-seconds of finished jobs divided by the available card-seconds, 0 to 1."""
    available = gpus * compute_makespan(records)
    run = sum(record.job.gpus * record.job.duration_s for record in records if record.finished_s is not None)
    return round(run / available, 6) if available else 0.0


def lost_gpu_hours(records: Sequence[Record]) -> float:
    """Return the lost run time multiplied by cards, in hours."""
    return round(sum(record.job.gpus * record.lost_s for record in records) / HOUR_S, 3)
