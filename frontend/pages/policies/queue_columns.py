"""The columns and filters of the list of queues."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from django.utils.translation import gettext_lazy

from foundation.web.listing import Column
from frontend.lists.declaration import FilterField, ListColumn, ListDeclaration
from quotas.models import Queue
from quotas.selectors.queues.queue import COLUMNS
from scheduling.selectors.jobs.row import QueueWork


@dataclass(frozen=True, slots=True)
class QueuePolicyLine:
    """A queue in the list, as text; `work` is None for a viewer who may not see its jobs.

    `cohort` is the folder in which its workspace lends and borrows quota.
    """

    queue: Queue
    url: str
    preset: str
    stop: str
    tone: str
    strategy: str
    pools: Sequence[str]
    cohort: str
    work: QueueWork | None
    oldest_wait: timedelta | None

    @property
    def id(self) -> uuid.UUID:
        return self.queue.pk

    @property
    def title(self) -> str:
        return self.queue.name


QUEUE_ORDERS: Final = {
    "name": ("name", "workspace__name", "pk"),
    "-name": ("-name", "workspace__name", "pk"),
    "workspace": ("workspace__name", "name", "pk"),
    "-workspace": ("-workspace__name", "name", "pk"),
}
QUEUES: Final = ListDeclaration(
    key="queues",
    title=gettext_lazy("Queues"),
    columns=(
        ListColumn(key="name", label=gettext_lazy("Queue"), sort="name", text=lambda line: line.queue.name),
        ListColumn(
            key="workspace",
            label=gettext_lazy("Workspace"),
            sort="workspace",
            text=lambda line: line.queue.workspace.name,
        ),
        ListColumn(
            key="cohort",
            label=gettext_lazy("Cohort"),
            shown=False,
            text=lambda line: line.cohort,
        ),
        ListColumn(
            key="cell",
            label=gettext_lazy("Scheduling domain"),
            shown=False,
            text=lambda line: line.queue.cell.name,
        ),
        ListColumn(key="pools", label=gettext_lazy("Pools"), text=lambda line: ", ".join(line.pools)),
        ListColumn(
            key="pending",
            label=gettext_lazy("Pending jobs"),
            number=True,
            text=lambda line: line.work.waiting if line.work else None,
        ),
        ListColumn(
            key="oldest",
            label=gettext_lazy("Longest wait"),
            number=True,
            text=lambda line: None if line.oldest_wait is None else round(line.oldest_wait.total_seconds()),
        ),
        ListColumn(
            key="running",
            label=gettext_lazy("Running jobs"),
            number=True,
            text=lambda line: line.work.running if line.work else None,
        ),
        ListColumn(
            key="failed",
            label=gettext_lazy("Failed (24 h)"),
            number=True,
            shown=False,
            text=lambda line: line.work.failed if line.work else None,
        ),
        ListColumn(key="preset", label=gettext_lazy("Preset"), text=lambda line: line.preset),
        ListColumn(
            key="strategy",
            label=gettext_lazy("Queueing strategy"),
            shown=False,
            text=lambda line: line.strategy,
        ),
        ListColumn(
            key="preemption",
            label=gettext_lazy("Preemption"),
            shown=False,
            text=lambda line: line.queue.preemption,
        ),
        ListColumn(key="state", label=gettext_lazy("State"), text=lambda line: line.stop),
    ),
    filters={
        "name": FilterField(label=gettext_lazy("Queue")),
        "workspace": FilterField(label=gettext_lazy("Workspace")),
        "cell": FilterField(label=gettext_lazy("Scheduling domain")),
        "strategy": FilterField(
            label=gettext_lazy("Queueing strategy"),
            choices=[
                ("best-effort-fifo", gettext_lazy("Best-effort FIFO")),
                ("strict-fifo", gettext_lazy("Strict FIFO")),
            ],
        ),
        "stop_policy": FilterField(
            label=gettext_lazy("State"),
            choices=[
                ("none", gettext_lazy("Active")),
                ("hold", gettext_lazy("Hold")),
                ("hold-and-drain", gettext_lazy("Hold and drain")),
            ],
        ),
        "preemption": FilterField(label=gettext_lazy("Preemption")),
        "backfill": FilterField(label=gettext_lazy("Backfill")),
    },
    fields={**COLUMNS, "workspace": Column("workspace.name")},
    default_sort="workspace",
)
WORKSPACE_QUEUES: Final = replace(
    QUEUES,
    key="workspace-queues",
    columns=[column for column in QUEUES.columns if column.key != "workspace"],
    filters={name: field for name, field in QUEUES.filters.items() if name != "workspace"},
    fields=COLUMNS,
    default_sort="name",
)
"""The list of the queues of one workspace."""
