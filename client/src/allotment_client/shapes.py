"""The types of responses, for type checkers. Fields that a newer server adds are kept."""

from __future__ import annotations

from typing import Any, TypedDict


class Help(TypedDict, total=False):
    code: str
    numbers: dict[str, Any]


class Reason(TypedDict, total=False):
    """The reason of a pending job: a stable code, its numbers, recommendations, and since when it applies."""

    code: str
    message: str
    numbers: dict[str, Any]
    help: list[Help]
    since: str | None


class FilledDefault(TypedDict):
    field: str
    value: Any


class Job(TypedDict, total=False):
    """A job; `spec` and `position` only for a single job, `defaults` after a submission, and `demand` (by
    resource) of a dry run.
    """

    id: str
    name: str
    kind: str
    state: str
    reason: Reason | None
    workspace: str
    queue: str
    priority_class: str
    tags: list[str]
    preemptible: bool
    submitted_by: str
    cards: int
    tasks: int
    attempt: int
    end_reason: str
    submitted_at: str
    admitted_at: str | None
    started_at: str | None
    finished_at: str | None
    defaults: list[FilledDefault]
    demand: dict[str, int]
    position: dict[str, int] | None
    spec: dict[str, Any]


class Explanation(TypedDict, total=False):
    state: str
    reason: Reason | None
    position: dict[str, int] | None
    promised_until: str | None
    cause: dict[str, Any] | None
    decisions: list[dict[str, Any]]


class QuotaRow(TypedDict):
    """Amounts in the unit of the resource; None is unlimited. `queue` is empty on the workspace's rows."""

    queue: str
    cluster: str
    flavor: str
    resource: str
    nominal: int | None
    own_nominal: int | None
    distributed: int | None
    borrowing_limit: int | None
    lending_limit: int | None
    reserved: int
    borrowed: int
    lent: int
    available: int | None
    potential: int | None


class LogLine(TypedDict):
    task: str
    at: str | None
    text: str


class JobEvent(TypedDict):
    """An event of a job; `id` is the one after which a stream continues."""

    id: int
    at: str
    code: str
    actor: str
    numbers: dict[str, Any]
    job: str
    name: str
    workspace: str
