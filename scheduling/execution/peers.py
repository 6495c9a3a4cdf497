"""How a task finds itself and its peers, by variables and by files, in the words that programs expect.

`MASTER_ADDR` to `RANK` are PyTorch's, the hostfile is Open MPI's. Each thing has one name: a variable costs
the API server as much as any other line of a pod, with each of its changes.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from clusters.backends.base import GANG_FOLDER
from scheduling.models import Job, JobKind, Task
from scheduling.naming import gang_name, pod_name

MASTER_PORT: Final = 23456
HOSTFILE: Final = "hostfile"
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

    def environment(self, own: Task) -> dict[str, str]:
        """The variables of the task `own`; the first task of the first role is the master."""
        rank, size, index = str(self.ranks[own.pk]), str(len(self.hosts)), str(own.index)
        found = {"ALLOTMENT_JOB": self.job.name, "ROLE": own.role.name, "TASK_INDEX": index}
        found |= {"RANK": rank, "WORLD_SIZE": size}
        found |= {"MASTER_ADDR": self.hosts[0], "MASTER_PORT": str(MASTER_PORT)}
        if PEERS in self.files:
            found["HOSTS_FILE"] = f"{GANG_FOLDER}/{PEERS}"
        else:
            found["HOSTS"] = ",".join(self.hosts)
        if HOSTFILE in self.files:
            # Of Open MPI 4, of Open MPI 5, of MPICH and of Intel MPI.
            names = ("OMPI_MCA_orte_default_hostfile", "PRTE_MCA_prte_default_hostfile", "HYDRA_HOST_FILE")
            found |= dict.fromkeys((*names, "I_MPI_HYDRA_HOST_FILE"), f"{GANG_FOLDER}/{HOSTFILE}")
        return found


def peers_of(job: Job, attempt: int, gang: Sequence[Task]) -> Peers:
    """The peers of a gang, given in rank order.

    Each is found at `<pod>.<gang>` in its own namespace, and one alone by its own name.
    """
    hosts = [pod_name(job, attempt, task.role.name, task.index) for task in gang]
    if len(hosts) > 1:
        service = gang_name(job, attempt)
        hosts = [f"{host}.{service}" for host in hosts]
    files = {}
    if job.kind == JobKind.MPI:
        files[HOSTFILE] = _hostfile(hosts, [task.role.gpu_cards for task in gang])
    if sum(len(host) + 1 for host in hosts) > _IN_VARIABLE:
        files[PEERS] = "".join(f"{host}\n" for host in hosts)
    return Peers(job, hosts, {task.pk: rank for rank, task in enumerate(gang)}, files)


def _hostfile(hosts: Sequence[str], cards: Sequence[int]) -> str:
    """One line per task that takes processes: `<address> slots=<cards>`.

    Where some tasks have cards, those without only launch and are left out; where none has, each takes one.
    """
    slots = list(zip(hosts, cards, strict=True))
    if any(cards):
        slots = [(host, count) for host, count in slots if count]
    return "".join(f"{host} slots={max(count, 1)}\n" for host, count in slots)
