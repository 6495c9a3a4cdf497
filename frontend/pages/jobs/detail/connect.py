"""Commands that connect to the pods of a running job."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from clusters.models import BackendKind
from scheduling.models import Allocation, TaskState
from scheduling.selectors.jobs.task import TaskRow

PORT: Final = 8888
"""The default port of Jupyter."""
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class PodCommands:
    """The commands for the pod of one task; `key` is the id of their block on the page."""

    key: str
    name: str
    cluster: str
    text: str


def pod_commands(rows: Sequence[TaskRow]) -> list[PodCommands]:
    """Return the commands of the first running tasks; none for pods of a simulated cluster."""
    found = []
    for row, allocation in _running(rows):
        if allocation.pod_name and allocation.node.cluster.backend != BackendKind.SIMULATED:
            pod = f"-n {shlex.quote(allocation.namespace)} {shlex.quote(allocation.pod_name)}"
            text = f"kubectl exec -it {pod} -- sh\nkubectl port-forward {pod} {PORT}:{PORT}\n"
            name = f"{row.task.role.name}-{row.task.index}"
            found.append(PodCommands(f"connect-{row.task.pk}", name, allocation.node.cluster.name, text))
    return found[:_SHOWN]


def is_simulated(rows: Sequence[TaskRow]) -> bool:
    """Return whether tasks run in a simulated cluster, whose pods run no programs."""
    return any(allocation.node.cluster.backend == BackendKind.SIMULATED for _, allocation in _running(rows))


def _running(rows: Sequence[TaskRow]) -> Iterator[tuple[TaskRow, Allocation]]:
    for row in rows:
        if row.allocation is not None and row.task.state == TaskState.RUNNING:
            yield row, row.allocation
