"""The variables that the launchers of each kind of job read: torchrun, and those of MPI.

torchrun reads the default of each of its options from `PET_<OPTION>` and from no other variable
(`torch.distributed.argparse_util`). Open MPI reads a parameter from `OMPI_MCA_<name>`, or from
`PRTE_MCA_<name>` since version 5; MPICH's hydra reads `HYDRA_<NAME>`, and Intel's reads `I_MPI_HYDRA_<NAME>`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from clusters.backends.base import GANG_FOLDER
from scheduling.models import Job, JobKind, JobRole, Task

HOSTFILE: Final = "hostfile"
"""In the format of Open MPI and DeepSpeed: `<address> slots=<n>`."""
MACHINEFILE: Final = "machinefile"
"""In the format of MPICH and Intel MPI: `<address>:<n>`. Neither reads the other's."""
TORCH_PORT: Final = 29500
RENDEZVOUS_PORT: Final = 29400
_RESTARTS: Final = 3
"""How often workers of an elastic job start again after a failure; leaving and joining count as none."""
_RETRY: Final = "-o ConnectionAttempts=10"
"""Of ssh, once a second: a launcher may start before the sshd of its peers."""
_INTERFACE: Final = "eth0"
"""Of every pod, by container runtimes. By its address hydra's proxies call back; the short host name that
they would be given otherwise is known to the launcher's own pod alone."""
_MPI: Final = {
    "OMPI_MCA_orte_default_hostfile": f"{GANG_FOLDER}/{HOSTFILE}",
    "PRTE_MCA_prte_default_hostfile": f"{GANG_FOLDER}/{HOSTFILE}",
    # By itself Open MPI cuts names at the first dot, and DNS does not know what is left.
    "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
    "PRTE_MCA_prte_keep_fqdn_hostnames": "true",
    "OMPI_MCA_plm_rsh_args": _RETRY,
    "PRTE_MCA_plm_ssh_args": _RETRY,
    "HYDRA_HOST_FILE": f"{GANG_FOLDER}/{MACHINEFILE}",
    "HYDRA_LAUNCHER_EXTRA_ARGS": _RETRY,
    "HYDRA_IFACE": _INTERFACE,
    "I_MPI_HYDRA_HOST_FILE": f"{GANG_FOLDER}/{MACHINEFILE}",
    "I_MPI_HYDRA_BOOTSTRAP_EXEC_EXTRA_ARGS": _RETRY,
    "I_MPI_HYDRA_IFACE": _INTERFACE,
}


@dataclass(frozen=True, slots=True)
class LauncherSetup:
    """A gang as the launcher of a kind without one of its own sees it: nothing is set."""

    @property
    def is_elastic(self) -> bool:
        """Return whether its tasks agree on ranks and size without help."""
        return False

    def task_environment(self, own: Task, rank: int) -> dict[str, str]:
        """The variables of one task."""
        return {}

    def gang_files(self) -> dict[str, str]:
        """Files of the gang by name."""
        return {}


@dataclass(frozen=True, slots=True)
class Torchrun(LauncherSetup):
    """Agents that meet at the first task: of a fixed number, or between `least` and `most` of them.

    `name` is that of the gang, which no other attempt has.
    """

    name: str
    hosts: Sequence[str]
    least: int
    most: int

    @property
    def is_elastic(self) -> bool:
        return self.least < self.most

    def task_environment(self, own: Task, rank: int) -> dict[str, str]:
        found = {"PET_NPROC_PER_NODE": str(own.role.gpu_cards or 1)}
        if not self.is_elastic:
            found |= {"PET_NNODES": str(len(self.hosts)), "PET_NODE_RANK": str(rank)}
            return found | {"PET_MASTER_ADDR": self.hosts[0], "PET_MASTER_PORT": str(TORCH_PORT)}
        # By itself an agent knows that it hosts the rendezvous only where the address is its own full name.
        hosting = f"is_host={'true' if rank == 0 else 'false'}"
        found |= {"PET_NNODES": f"{self.least}:{self.most}", "PET_MAX_RESTARTS": str(_RESTARTS)}
        found |= {"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": f"{self.hosts[0]}:{RENDEZVOUS_PORT}"}
        return found | {"PET_RDZV_ID": self.name, "PET_RDZV_CONF": hosting}


@dataclass(frozen=True, slots=True)
class Mpi(LauncherSetup):
    """Hosts with the number of processes that each takes.

    Where some tasks have cards, those without only launch and are left out; where none has, each takes one.
    """

    hosts: Sequence[str]
    cards: Sequence[int]

    def task_environment(self, own: Task, rank: int) -> dict[str, str]:
        return dict(_MPI)

    def gang_files(self) -> dict[str, str]:
        slots = list(zip(self.hosts, self.cards, strict=True))
        if any(self.cards):
            slots = [(host, count) for host, count in slots if count]
        return {
            HOSTFILE: "".join(f"{host} slots={max(count, 1)}\n" for host, count in slots),
            MACHINEFILE: "".join(f"{host}:{max(count, 1)}\n" for host, count in slots),
        }


def launcher_setup(job: Job, name: str, hosts: Sequence[str], gang: Sequence[Task]) -> LauncherSetup:
    """Return the launcher set-up of the job's kind for a gang of that name, given in rank order."""
    if job.kind == JobKind.PYTORCH:
        roles: dict[object, JobRole] = {task.role.pk: task.role for task in gang}
        least = sum(role.min_replicas for role in roles.values())
        return Torchrun(name, hosts, least, sum(role.replicas for role in roles.values()))
    if job.kind == JobKind.MPI:
        return Mpi(hosts, [task.role.gpu_cards for task in gang])
    return LauncherSetup()
