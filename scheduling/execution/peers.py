"""The variables and files with the rank of a task and its peers, under the names that programs expect.

`MASTER_ADDR` to `RANK` are PyTorch's; `frameworks` has the variables of launchers. No value has two names,
because each variable enlarges every pod object that the API server stores and sends.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from clusters.backends.base import GANG_FOLDER
from scheduling.execution import frameworks
from scheduling.models import Job, Task
from scheduling.models.pod_names import gang_name, pod_name

MASTER_PORT: Final = 23456
PEERS: Final = "peers"
_IN_VARIABLE: Final = 48 * 1024
"""The largest size of `HOSTS` in bytes: Linux starts no program with a variable longer than 128 KiB, and
limits the sum of all."""


@dataclass(frozen=True, slots=True)
class Peers:
    """The tasks that an attempt started: addresses in rank order, and the rank of each task by its key."""

    job: Job
    hosts: Sequence[str]
    ranks: Mapping[uuid.UUID, int]
    files: Mapping[str, str]
    launched: frameworks.LauncherSetup
    size: int

    def task_environment(self, own: Task) -> dict[str, str]:
        """Return the variables of the task `own` that a job file cannot set; the first task of the first role
        is the master.

        An elastic PyTorch job gets no rank and no size: its agents agree on both after each change.
        """
        found = {"ALLOTMENT_JOB": self.job.name, "ROLE": own.role.name, "TASK_INDEX": str(own.index)}
        if not self.launched.is_elastic:
            found |= {"RANK": str(self.ranks[own.pk]), "WORLD_SIZE": str(len(self.hosts))}
        found |= {"MASTER_ADDR": self.hosts[0], "MASTER_PORT": str(MASTER_PORT)}
        if PEERS in self.files:
            found["HOSTS_FILE"] = f"{GANG_FOLDER}/{PEERS}"
        else:
            found["HOSTS"] = ",".join(self.hosts)
        return found

    def launcher_environment(self, own: Task) -> dict[str, str]:
        """Return the variables of the task `own` that a launcher reads; a job file may override them."""
        return self.launched.task_environment(own, self.ranks[own.pk])


def gang_size(gang: Sequence[Task]) -> int:
    """Return how many tasks a gang has; at least two for an elastic gang, which may grow."""
    elastic = any(task.role.min_replicas < task.role.replicas for task in gang)
    return max(len(gang), 2) if elastic else len(gang)


def peers_of(
    job: Job, attempt: int, gang: Sequence[Task], pods: Mapping[uuid.UUID, str] = MappingProxyType({})
) -> Peers:
    """Return the peers of a gang, given in rank order; `pods` are the known pod names by task.

    The address of a peer is `<pod>.<gang>` within its namespace; that of a single task is its pod's name.
    """
    hosts = [pods.get(task.pk) or pod_name(job, attempt, task.role.name, task.index) for task in gang]
    service = gang_name(job, attempt)
    if gang_size(gang) > 1:
        hosts = [f"{host}.{service}" for host in hosts]
    launched = frameworks.launcher_setup(job, service, hosts, gang)
    files = launched.gang_files()
    if sum(len(host) + 1 for host in hosts) > _IN_VARIABLE:
        files[PEERS] = "".join(f"{host}\n" for host in hosts)
    ranks = {task.pk: rank for rank, task in enumerate(gang)}
    return Peers(job, hosts, ranks, files, launched, gang_size(gang))
