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
    """The present value of a metric for one subject.

    `value` is None while the value is unknown: the state of an alert then stays as it is. A subject without
    an observation no longer exists, or no longer has the property that the metric measures. `label` is the
    name of the subject for users, `path` is the address of its page in the console. If `is_supported` is
    false, no value is expected either: the subject sends data, but not this figure.
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

    `unread_clusters` names the clusters of that part, and `error`, a `RuleError`, is the reason; the keys of
    its subjects begin with one of `unread_subjects`. The state of their alerts stays as it is.
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
    """A metric by its name; `read` returns the observations of all subjects, without a viewer's permissions.

    `name` is `<kind of subject>.<what>`. `for_tenants` says whether the subjects belong to tenants, so
    that tenants' rules may use it. `of_cluster` says whether they belong to clusters. `suggested` is the
    threshold that a new rule begins with. `permission` is what a user needs on a tenant to have a rule there
    or to see its alerts. With `read_query` each rule has its own query, of one cluster or of all clusters.
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
