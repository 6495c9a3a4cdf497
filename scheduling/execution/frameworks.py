"""The environment variables that launchers read: torchrun and those of MPI implementations.

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
"""The host file in the format of Open MPI and DeepSpeed: `<address> slots=<n>`."""
MACHINEFILE: Final = "machinefile"
"""The host file in the format of MPICH and Intel MPI: `<address>:<n>`. Neither family reads the other
format."""
TORCH_PORT: Final = 29500
RENDEZVOUS_PORT: Final = 29400
_RESTARTS: Final = 3
"""How often workers of an elastic job restart after a failure; changes of membership do not count."""
_RETRY: Final = "-o ConnectionAttempts=10"
"""The options of ssh for one attempt per second: a launcher may start before the sshd of its peers."""
_INTERFACE: Final = "eth0"
"""The interface that container runtimes give every pod. Hydra's proxies connect to the launcher by its
address; without it they get the launcher's short host name, which other pods cannot resolve."""
_MPI: Final = {
    "OMPI_MCA_orte_default_hostfile": f"{GANG_FOLDER}/{HOSTFILE}",
    "PRTE_MCA_prte_default_hostfile": f"{GANG_FOLDER}/{HOSTFILE}",
    # By default Open MPI cuts names at the first dot, and DNS can't resolve the rest.
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
    """The launcher set-up of kinds of jobs without a launcher: no variables and no files."""

    @property
    def is_elastic(self) -> bool:
        """Return whether the tasks agree on ranks and size among themselves."""
        return False

    def task_environment(self, own: Task, rank: int) -> dict[str, str]:
        """Return the variables of one task."""
        return {}

    def gang_files(self) -> dict[str, str]:
        """Return the files of the gang by name."""
        return {}


@dataclass(frozen=True, slots=True)
class Torchrun(LauncherSetup):
    """The set-up of torchrun: agents rendezvous at the first task, a fixed number of them or `least` to
    `most`.

    `name` is the gang's name, which is unique to the attempt.
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
        # An agent detects that it hosts the rendezvous only if the address is its own full name.
        hosting = f"is_host={'true' if rank == 0 else 'false'}"
        found |= {"PET_NNODES": f"{self.least}:{self.most}", "PET_MAX_RESTARTS": str(_RESTARTS)}
        found |= {"PET_RDZV_BACKEND": "c10d", "PET_RDZV_ENDPOINT": f"{self.hosts[0]}:{RENDEZVOUS_PORT}"}
        return found | {"PET_RDZV_ID": self.name, "PET_RDZV_CONF": hosting}


@dataclass(frozen=True, slots=True)
class Mpi(LauncherSetup):
    """The set-up of MPI: hosts with their numbers of processes (slots).

    If some tasks have cards, tasks without cards only launch and are left out; if none has, each gets one
    slot.
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
    """Return the launcher set-up of the job's kind for a gang of this name; `gang` is in rank order."""
    if job.kind == JobKind.PYTORCH:
        roles: dict[object, JobRole] = {task.role.pk: task.role for task in gang}
        least = sum(role.min_replicas for role in roles.values())
        return Torchrun(name, hosts, least, sum(role.replicas for role in roles.values()))
    if job.kind == JobKind.MPI:
        return Mpi(hosts, [task.role.gpu_cards for task in gang])
    return LauncherSetup()
