"""The variables and files by which a task finds itself and its peers, in the words that programs expect.

`MASTER_ADDR` to `RANK` are PyTorch's; what launchers read by themselves is in `frameworks`. Each thing has
one name: a variable costs the API server as much as any other line of a pod, with each of its changes.
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
"""Bytes: Linux starts no program with a longer variable than 128 KiB, nor with many that are half of it."""


@dataclass(frozen=True, slots=True)
class Peers:
    """The tasks that an attempt started: their addresses in rank order, and the rank of each by its key."""

    job: Job
    hosts: Sequence[str]
    ranks: Mapping[uuid.UUID, int]
    files: Mapping[str, str]
    launched: frameworks.LauncherSetup
    size: int

    def task_environment(self, own: Task) -> dict[str, str]:
        """The variables of the task `own` that a job file cannot set; the first task of the first role is the
        master.

        An elastic job of PyTorch is told no rank and no size: its agents agree on both, each time anew.
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
        """The variables of the task `own` that a launcher reads, for which a job file may say otherwise."""
        return self.launched.task_environment(own, self.ranks[own.pk])


def gang_size(gang: Sequence[Task]) -> int:
    """Return how many tasks a gang has; an elastic one may get more, and is told of as two at least."""
    elastic = any(task.role.min_replicas < task.role.replicas for task in gang)
    return max(len(gang), 2) if elastic else len(gang)


def peers_of(
    job: Job, attempt: int, gang: Sequence[Task], pods: Mapping[uuid.UUID, str] = MappingProxyType({})
) -> Peers:
    """The peers of a gang, given in rank order; `pods` are names of pods by task, where they are known.

    Each is found at `<pod>.<gang>` in its own namespace, and one that stays alone by its own name.
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
