"""The metrics that a rule can use."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from tenants.access.permissions import Permission


class Unit(StrEnum):
    """The unit of the values and thresholds of a metric."""

    PERCENT = "%"
    SECONDS = "s"
    CELSIUS = "°C"
    WATTS = "W"
    MEBIBYTES = "MiB"
    MEBIBYTES_PER_SECOND = "MiB/s"
    MEGAHERTZ = "MHz"
    COUNT = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """The value of a metric for one subject now.

    `value` is None when nothing is known at the moment: the state of an alert then stays as it is. A subject
    without an observation no longer exists, or no longer has the property that the metric measures.
    `label` names the subject for people, `path` is the address of its page in the console. Without
    `is_supported` no value is expected either: the subject sends data, but not this figure.
    """

    subject: str
    label: str
    value: float | None
    cluster_id: uuid.UUID | None = None
    tenant_id: uuid.UUID | None = None
    tenant_path: str = ""
    path: str = ""
    is_supported: bool = True


@dataclass(frozen=True, slots=True)
class MetricReading:
    """The observations of a metric, and the part of its subjects that could not be read.

    `unread_clusters` names the clusters of that part, because of `error`, a `RuleError`; the keys of its
    subjects begin with one of `unread_subjects`. The state of their alerts stays as it is.
    """

    observations: Sequence[Observation]
    unread_clusters: Sequence[str] = ()
    unread_subjects: tuple[str, ...] = ()
    error: str = ""


class MetricUnread(Exception):
    """A metric that cannot be read for a reason that the owners of its rules may know: a `RuleError`."""

    def __init__(self, error: str) -> None:
        super().__init__(error)
        self.error = error


@dataclass(frozen=True, slots=True)
class AlertMetric:
    """A metric by its name; `read` returns the observations of all subjects, whoever asks.

    `name` is `<kind of subject>.<what>`. `for_tenants` says whether the subjects belong to tenants, so
    that their rules may use it. `of_cluster` says whether they belong to clusters. `suggested` is the
    threshold that a new rule begins with. Who has a rule or sees an alert about a tenant needs
    `permission` there. With `read_query` each rule has a query of its own, of a cluster or of all.
    """

    name: str
    label: Any
    help: Any
    unit: Unit
    read: Callable[[datetime], Sequence[Observation]]
    suggested: float
    for_tenants: bool = False
    of_cluster: bool = False
    permission: Permission = Permission.JOB_VIEW
    read_query: Callable[[str, uuid.UUID | None, datetime], MetricReading] | None = None
