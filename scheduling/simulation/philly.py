"""Reads multi-tenant job traces in the format of the Philly files: jobs and tenants with their partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scheduling.simulation.errors import InputError, UsageError
from scheduling.simulation.tables import TableRow, read_table

SUBMIT = "submit_s_since_2017_10_01_est"
WINDOW = "in_helios_window"


@dataclass(frozen=True, slots=True)
class TraceJob:
    """One job: times in whole seconds; `row` is its row in the file and breaks ties."""

    row: int
    name: str
    tenant: str
    submit_s: int
    gpus: int
    duration_s: int


@dataclass(frozen=True, slots=True)
class TraceTenant:
    """A tenant and the nodes that are guaranteed to it."""

    name: str
    nodes: int
    cards_per_node: int

    @property
    def gpus(self) -> int:
        """The number of cards that are guaranteed to the tenant."""
        return self.nodes * self.cards_per_node


def read_tenants(file: Path, nodes: Mapping[str, int] | None = None) -> list[TraceTenant]:
    """Return the tenants in file order; `nodes` overrides numbers of nodes by name.

    Raises:
        InputError: naming line and field, also when tenants have nodes of different sizes.
        UsageError: when an override names no tenant of the file.
    """
    rows = read_table(file, ("vc", "nodes", "gpus"))
    tenants: dict[str, TraceTenant] = {}
    for row in rows:
        tenant = _tenant(row)
        if tenant.name in tenants:
            raise row.cell_error("vc", f"{tenant.name} stands twice")
        if tenants and tenant.cards_per_node != next(iter(tenants.values())).cards_per_node:
            raise row.cell_error("gpus", "all tenants need nodes of the same size")
        tenants[tenant.name] = tenant
    for name, count in (nodes or {}).items():
        if name not in tenants:
            raise UsageError(f"--nodes-per-tenant names {name}, the tenants are {', '.join(tenants)}")
        tenants[name] = replace(tenants[name], nodes=count)
    return list(tenants.values())


def read_jobs(file: Path, tenants: Sequence[TraceTenant]) -> list[TraceJob]:
    """Return the jobs in file order; if the file marks a window, only those inside it.

    Raises:
        InputError: naming line and field.
    """
    rows = read_table(file, ("vc", "vc_job_no", SUBMIT, "num_gpu", "duration_s"))
    known = {tenant.name for tenant in tenants}
    jobs: list[TraceJob] = []
    names: set[str] = set()
    for number, row in enumerate(rows):
        if row.read_text(WINDOW, "1") == "0":
            continue
        job = _job(number, row, known)
        if job.name in names:
            raise row.cell_error("vc_job_no", f"{job.name} stands twice")
        names.add(job.name)
        jobs.append(job)
    if not jobs:
        raise InputError("has no jobs inside the window", file=file)
    return jobs


def compress_jobs(jobs: Sequence[TraceJob], factor: float) -> list[TraceJob]:
    """Return the jobs with their submission times divided by `factor` and truncated to whole seconds.

    Raises:
        UsageError: when the factor is not above zero.
    """
    if not 0 < factor < float("inf"):
        raise UsageError(f"--compress is {factor:g}; it is above 0")
    return [replace(job, submit_s=int(job.submit_s / factor)) for job in jobs]


def _tenant(row: TableRow) -> TraceTenant:
    nodes, gpus = row.read_whole("nodes", least=1), row.read_whole("gpus", least=1)
    if gpus % nodes:
        raise row.cell_error("gpus", f"{gpus} GPUs are not divisible by {nodes} nodes")
    return TraceTenant(row.read_text("vc"), nodes, gpus // nodes)


def _job(number: int, row: TableRow, tenants: set[str]) -> TraceJob:
    tenant = row.read_text("vc")
    if tenant not in tenants:
        raise row.cell_error("vc", f"{tenant!r} is not among the tenants")
    return TraceJob(
        row=number,
        name=f"{tenant}-{row.read_text('vc_job_no')}",
        tenant=tenant,
        submit_s=row.read_whole(SUBMIT, least=None),
        gpus=row.read_whole("num_gpu", least=1),
        duration_s=row.read_whole("duration_s"),
    )
