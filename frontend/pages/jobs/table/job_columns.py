"""The columns and filters of the list of jobs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy, pgettext_lazy

from foundation.core import clock
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from frontend.pages.jobs import job_facts
from frontend.pages.jobs.job_facts import Actions
from frontend.pages.jobs.job_tags import TagLink
from frontend.texts import labels
from frontend.texts.reasons import reason_title
from scheduling.job_file.parsing.tags import join_tags
from scheduling.models import Job, PriorityClass
from scheduling.selectors.jobs.job import DEFAULT_SORT
from scheduling.selectors.jobs.job_filter import ALL_COLUMNS, COLUMNS
from scheduling.selectors.jobs.row import JobListRow
from telemetry.series import UseNow


@dataclass(frozen=True, slots=True)
class JobListLine:
    """One row of the list; `gpu_hours`, `cost`, `clusters`, `idle` and `stops_at` are empty unless their
    columns are shown and known.

    A `fixed` row is one of a workspace in which the viewer may stop no job. `jobs_url` is the list of the
    jobs of its workspace, and `new_url` the form of a new one; `priority_classes` returns those that the
    workspace may use.
    """

    job: Job
    url: str
    jobs_url: str
    new_url: str
    row: JobListRow
    use: UseNow | None
    actions: Actions
    cards: int
    size: str
    waited: timedelta | None
    ran: timedelta | None
    nodes: list[tuple[str, str]]
    tags: Sequence[TagLink]
    gpu_hours: float | None
    cost: Decimal | None
    clusters: Sequence[str]
    images: Sequence[str]
    idle: timedelta | None
    stops_at: datetime | None
    fixed: bool
    priority_classes: Callable[[], Sequence[PriorityClass]]

    @property
    def id(self) -> uuid.UUID:
        return self.job.pk

    @property
    def key(self) -> SafeString:
        """Return the ID as text that needs no escaping: a menu names it up to ten times."""
        return escape(self.job.pk)

    @property
    def lost_work(self) -> list[str]:
        """Return what ends with the job's attempt, for its dialogs."""
        return job_facts.list_losses(self.job, clock.now())

    @property
    def saved_work(self) -> str:
        """Return what remains after it, for its dialogs."""
        return job_facts.describe_saved_work(self.job)


COSTS: Final = frozenset({"gpu_hours", "cost"})
"""The columns that need what jobs held so far."""
CLUSTER: Final = "cluster"
"""The column that needs the clusters on which jobs ran last."""
IDLE: Final = frozenset({"idle", "stops_at"})
"""The columns that need how long GPUs were idle."""
_TIME: Final = pgettext_lazy("column", "Started")


def _seconds(span: timedelta | None) -> int | None:
    return None if span is None else round(span.total_seconds())


def _reason(line: JobListLine) -> str:
    return reason_title(line.job.reason) if line.job.reason else labels.rule_word(line.job.end_reason)


JOBS: Final = ListDeclaration(
    key="jobs",
    title=gettext_lazy("Jobs"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Name"), sort="name", text=lambda line: line.job.name),
        ListColumn(
            key="state",
            label=gettext_lazy("Status"),
            sort="state",
            text=lambda line: labels.state_word("job", line.job.state).text,
        ),
        ListColumn(key="reason", label=gettext_lazy("Reason"), shown=False, text=_reason),
        ListColumn(
            key="kind",
            label=gettext_lazy("Type"),
            shown=False,
            text=lambda line: labels.kind_word(line.job.kind),
        ),
        ListColumn(
            key="submitted_by",
            label=gettext_lazy("Created by"),
            shown=False,
            text=lambda line: line.job.submitted_by.get_username(),
        ),
        ListColumn(key="queue", label=gettext_lazy("Queue"), text=lambda line: line.job.queue.name),
        ListColumn(
            key="position", label=gettext_lazy("Position"), number=True, text=lambda line: line.row.position
        ),
        ListColumn(
            key="priority",
            label=gettext_lazy("Priority"),
            number=True,
            sort="priority",
            text=lambda line: line.job.priority_class.name,
        ),
        ListColumn(
            key="preemptible",
            label=gettext_lazy("Preemptible"),
            shown=False,
            text=lambda line: line.job.preemptible,
        ),
        ListColumn(key="gpus", label=gettext_lazy("GPUs"), number=True, text=lambda line: line.size),
        ListColumn(
            key="allocated",
            label=gettext_lazy("GPUs allocated / requested"),
            number=True,
            shown=False,
            text=lambda line: f"{line.row.cards} / {line.cards}",
        ),
        ListColumn(
            key="tasks",
            label=gettext_lazy("Tasks"),
            number=True,
            text=lambda line: f"{line.row.running} / {line.row.tasks}",
        ),
        ListColumn(
            key="submitted_at",
            label=pgettext_lazy("column", "Submitted"),
            number=True,
            sort="submitted_at",
            text=lambda line: line.job.submitted_at,
        ),
        ListColumn(
            key="waited",
            label=gettext_lazy("Wait time"),
            number=True,
            text=lambda line: _seconds(line.waited),
        ),
        ListColumn(
            key="started_at", label=_TIME, number=True, shown=False, text=lambda line: line.job.started_at
        ),
        ListColumn(
            key="ran", label=gettext_lazy("Run time"), number=True, text=lambda line: _seconds(line.ran)
        ),
        ListColumn(
            key="nodes",
            label=gettext_lazy("Node"),
            text=lambda line: ", ".join(name for name, _url in line.nodes),
        ),
        ListColumn(
            key="used",
            label=gettext_lazy("Utilization"),
            number=True,
            text=lambda line: line.use.utilisation_of_grant_percent if line.use else None,
        ),
        ListColumn(
            key="gpu_hours",
            label=gettext_lazy("GPU-hours"),
            number=True,
            shown=False,
            text=lambda line: line.gpu_hours,
        ),
        ListColumn(
            key="cost", label=gettext_lazy("Cost"), number=True, shown=False, text=lambda line: line.cost
        ),
        ListColumn(
            key="image", label=gettext_lazy("Image"), shown=False, text=lambda line: ", ".join(line.images)
        ),
        ListColumn(
            key="idle",
            label=gettext_lazy("Idle for"),
            number=True,
            shown=False,
            text=lambda line: _seconds(line.idle),
        ),
        ListColumn(
            key="stops_at",
            label=gettext_lazy("Stops"),
            number=True,
            shown=False,
            text=lambda line: line.stops_at,
        ),
        ListColumn(
            key="attempt",
            label=gettext_lazy("Attempts"),
            number=True,
            shown=False,
            text=lambda line: line.job.attempt_number,
        ),
        ListColumn(
            key="tags",
            label=gettext_lazy("Tags"),
            shown=False,
            text=lambda line: join_tags(tag.name for tag in line.tags),
        ),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Name")),
        "state": FilterField(
            label=gettext_lazy("Status"),
            choices=[(state, word.text) for state, word in labels.JOB_STATES.items()],
        ),
        "reason": FilterField(
            label=gettext_lazy("Reason"),
            choices=[(code, word.text) for code, word in labels.REASON_WORDS.items()],
        ),
        "tags": FilterField(label=gettext_lazy("Tag"), suggestions="known-tags"),
        "kind": FilterField(label=gettext_lazy("Type"), choices=list(labels.JOB_KINDS.items())),
        "queue": FilterField(label=gettext_lazy("Queue")),
        "submitted_by": FilterField(label=gettext_lazy("Created by")),
        "priority_class": FilterField(label=gettext_lazy("Priority")),
        "priority": FilterField(label=gettext_lazy("Priority value")),
        "preemptible": FilterField(label=gettext_lazy("Preemptible")),
        "attempt": FilterField(label=gettext_lazy("Attempts")),
        "submitted_at": FilterField(label=gettext_lazy("Submission time")),
        "started_at": FilterField(label=_TIME),
        "finished_at": FilterField(label=pgettext_lazy("column", "Finished")),
    },
    fields=COLUMNS,
    parameters=("state", "q", "queue", "who", "gpu_model", "range"),
    default_sort=DEFAULT_SORT,
    unfiltered=("who", "all"),
    every_s=5,
)

_LESS: Final = frozenset({"position", "priority", "tasks"})
"""The columns of a workspace's list that are hidden to make room for others."""


def _columns_of_all() -> Iterator[ListColumn]:
    """Yield the columns of a workspace's list with those that distinguish jobs of several workspaces."""
    for column in JOBS.columns:
        if column.key == "nodes":
            yield ListColumn(
                key=CLUSTER, label=gettext_lazy("Cluster"), text=lambda line: ", ".join(line.clusters)
            )
        yield replace(column, shown=False) if column.key in _LESS else column
        if column.key == "name":
            yield ListColumn(
                key="workspace",
                label=gettext_lazy("Workspace"),
                text=lambda line: line.job.workspace.name,
            )


ALL_JOBS: Final = replace(
    JOBS,
    key="all-jobs",
    columns=tuple(_columns_of_all()),
    filters={"workspace": FilterField(label=gettext_lazy("Workspace ID")), **JOBS.filters},
    fields=ALL_COLUMNS,
    parameters=("state", "q", "tenant", "cluster", "pool", "who", "gpu_model", "range"),
    unfiltered=("state", "all"),
)
"""The list of the jobs of all workspaces in sight."""

_OF_NOTEBOOKS: Final = ("name", "state", "image", "gpus", "started_at", "idle", "stops_at", "nodes", "used")
NOTEBOOKS: Final = replace(
    JOBS,
    key="notebooks",
    title=gettext_lazy("Notebooks and services"),
    columns=tuple(replace(column, shown=column.key in _OF_NOTEBOOKS) for column in JOBS.columns),
    unfiltered=("state", "all"),
)
"""The list of interactive jobs and services: what they run, and when they are stopped."""
