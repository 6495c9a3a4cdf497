"""Checks of measured use on pages: of GPUs, nodes, jobs, tenants and reports.

A page of a kind is opened for one thing of each installation, drawn by its number; lists are read whole.
"""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from clusters.models import Device, Node
from scheduling.models import DeviceSlice, Job
from tenants.models import Tenant
from tests.truth.pages.console import MISSING, Console, same_hours, same_memory, same_percent
from tests.truth.pages.installations import is_below
from tests.truth.pages.measurements import Measurements
from tests.truth.pages.reading import Line, PageText


@dataclass(frozen=True)
class Measured:
    """An installation in the console, and its measurements until a moment."""

    console: Console
    found: Measurements
    until: datetime
    seed: int

    def used_share(self, chosen: Callable[[DeviceSlice], bool]) -> float | None:
        """Return the use of the chosen slices' compute in percent; None if none is measured."""
        parts = self.found.slices_where(chosen)
        cores = sum(part.cores for part in parts)
        return 100 * self.found.used_percent(parts) / cores if cores else None

    def gpu_seconds(self, part: DeviceSlice) -> float:
        """Return how long a slice was held until the moment, times its part of a GPU."""
        held = part.allocation
        end = min(held.released_at or self.until, self.until)
        return part.cores * (end - held.attempt.admitted_at).total_seconds() / 100

    def mean_use(self, devices: Iterable[Device]) -> float | None:
        """Return the mean use of the measured ones among GPUs, in percent."""
        uses = [self.found.gpus[device.pk].percent for device in devices if device.pk in self.found.gpus]
        return sum(uses) / len(uses) if uses else None

    def draw_workspace(self) -> Tenant:
        """Return a workspace with measured jobs, or any if there is none."""
        everyone = self.console.made.workspaces
        measured = [one for one in everyone if self.found.slices_where(below(one))] or everyone
        return measured[self.seed % len(measured)]


def job_of(part: DeviceSlice) -> Job:
    """Return the job that holds a slice."""
    return part.allocation.attempt.job


def of_one(job: Job) -> Callable[[DeviceSlice], bool]:
    """Return a function that selects the slices of a job."""
    return lambda part: job_of(part).pk == job.pk


def below(tenant: Tenant) -> Callable[[DeviceSlice], bool]:
    """Return a function that selects the slices of jobs at and below a tenant."""
    return lambda part: is_below(job_of(part).workspace, tenant)


def found_in(pattern: str, page: PageText) -> str:
    """Return the part of a page's text that a pattern's group matches. Raises: AssertionError without one."""
    match = re.search(pattern, page.text())
    assert match is not None, pattern
    return match[1]


def check_overview_use(world: Measured) -> None:
    """Check the tile of utilization, the table of tenants and the table of holders of whole GPUs."""
    ledger, found = world.console.ledger, world.found
    page = world.console.operate("/ops/overview")
    value, meaning = page.tiles()["GPU utilization"]
    devices = [device for device in Device.unscoped.all() if device.pk in found.gpus]
    assert same_percent(value, world.mean_use(devices), 1), (value, world.mean_use(devices))
    if devices:
        held = [device for device in devices if ledger.on_device(device)]
        cores = sum(map(ledger.on_device, held))
        used = sum(found.gpus[device.pk].percent for device in held)
        share, _, memory = meaning.partition(" of allocated · GPU memory ")
        assert same_percent(share, 100 * used / cores if cores else None), meaning
        true = sum(found.gpus[device.pk].memory_mib for device in devices)
        assert same_percent(memory, 100 * true / sum(device.memory_mib for device in devices), 1), meaning
    else:
        assert meaning == "No data in the last 30 s"
    check_busiest(world, page)
    lines = {line.name: line for line in page.lines("Tenant", "Utilization of allocated")}
    for tenant in world.console.made.tenants:
        share_of = world.used_share(below(tenant))
        text = lines[tenant.name].cells["Utilization of allocated"]
        assert same_percent(text, share_of), (tenant.name, text, share_of)
    if found.held:
        for line in page.lines("Workspace", "Whole GPUs", "Utilization of whole GPUs"):
            whole = [
                part.device
                for part in found.held.values()
                if part.exclusive and job_of(part).workspace.name == line.name
            ]
            text = line.cells["Utilization of whole GPUs"]
            assert same_percent(text, world.mean_use(whole)), (line, world.mean_use(whole))


def check_busiest(world: Measured, page: PageText) -> None:
    """Check that the five most used nodes are listed in this order."""
    uses = {node.name: world.mean_use(Device.unscoped.filter(node=node)) for node in Node.unscoped.all()}
    known = sorted((use for use in uses.values() if use is not None), reverse=True)[:5]
    shown = page.lines("Node", "GPU utilization") if known else []
    assert [uses[line.name] for line in shown] == known, shown
    assert all(same_percent(line.cells["GPU utilization"], uses[line.name]) for line in shown), shown


def check_nodes_use(world: Measured) -> None:
    lines = {
        line.name.split()[0]: line
        for line in world.console.operate("/ops/nodes").lines("Node", "Utilization")
    }
    for node in Node.unscoped.all():
        devices, line = list(Device.unscoped.filter(node=node)), lines[node.name]
        assert same_percent(line.cells["Utilization"], world.mean_use(devices)), line
        uses = [world.found.gpus[device.pk] for device in devices if device.pk in world.found.gpus]
        used = re.match(r"([\d.,]+) used", line.cells["GPU memory"])
        assert (used is not None) == bool(uses), line
        if used is not None:
            true = sum(use.memory_mib for use in uses) / 1024
            assert abs(float(used[1].replace(",", "")) - true) <= 0.51, (line, true)


def check_gpus_use(world: Measured) -> None:
    page = world.console.operate("/ops/gpus?size=100")
    lines = {line.name.removesuffix(" Node"): line for line in page.lines("GPU", "Utilization")}
    for device in Device.unscoped.select_related("node"):
        line, use = lines[f"{device.node.name} · GPU {device.index}"], world.found.gpus.get(device.pk)
        assert same_percent(line.cells["Utilization"], use.percent if use else None), line
        used, _, whole = line.cells["GPU memory"].partition(" / ")
        assert same_memory(whole, device.memory_mib), line
        assert same_memory(used, use.memory_mib) if use else used == MISSING, (line, use)


def check_node_page(world: Measured) -> None:
    nodes = list(Node.unscoped.order_by("name"))
    node = nodes[world.seed % len(nodes)]
    devices = list(Device.unscoped.filter(node=node).order_by("index"))
    page = world.console.operate(f"/ops/nodes/{node.name}")
    share = found_in(r"GPU utilization (–|[\d.]+ %) GPU memory used", page)
    assert same_percent(share, world.mean_use(devices), 1), (share, world.mean_use(devices))
    for device in devices:
        shown = found_in(rf"GPU {device.index} \S+ GPU utilization (–|[\d.]+ %)", page)
        assert same_percent(shown, world.mean_use([device])), (device.index, shown)
        if use := world.found.gpus.get(device.pk):
            memory = found_in(rf"GPU {device.index} \S+ GPU utilization .*?GPU memory (\S+ .iB) used", page)
            assert same_memory(memory, use.memory_mib), (device.index, memory, use)


def check_gpu_page(world: Measured) -> None:
    devices = sorted({part.device for part in world.found.held.values()}, key=lambda device: device.uuid)
    if not devices:
        return
    device = devices[world.seed % len(devices)]
    page = world.console.operate(f"/ops/gpus/{device.uuid}")
    shown = Counter(
        (line.name, line.cells["Compute used"], line.cells["GPU memory used"])
        for line in page.lines("Job", "Compute used")
    )
    on_it = [part for part in world.found.held.values() if part.device_id == device.pk]
    assert shown.total() == len(on_it)
    for part in on_it:
        use = world.found.slices.get(part.pk)
        assert any(
            name == job_of(part).name
            and same_percent(compute, use.percent if use else None)
            and (same_memory(memory, use.memory_mib) if use else memory == MISSING)
            for name, compute, memory in shown
        ), (job_of(part).name, use, shown)


def check_workspace_use(world: Measured) -> None:
    """Check the overview of a workspace, its list of jobs and the page of one of them."""
    made = world.console.made
    workspace = world.draw_workspace()
    person = made.people[workspace][0]
    page = world.console.open(person, f"/w/{workspace.slug}/overview")
    share = world.used_share(below(workspace))
    assert same_percent(page.tiles()["Utilization of allocated"][0], share), (workspace.name, share)
    lines = {
        line.cells["Name"].split()[0]: line
        for line in world.console.open(person, f"/w/{workspace.slug}/jobs?size=100").lines(
            "Name", "Utilization"
        )
    }
    held = {job_of(part).pk: job_of(part) for part in world.found.held.values()}
    for job in held.values():
        if job.workspace_id == workspace.pk:
            of_job = world.used_share(of_one(job))
            assert same_percent(lines[job.name].cells["Utilization"], of_job), (job.name, of_job)
            assert job.name not in page.text() or _is_job_shown(page, job, of_job), (job.name, of_job)
            check_job_page(world, job)


def _is_job_shown(page: PageText, job: Job, share: float | None) -> bool:
    shown = re.search(rf"GPU utilization by job .*?{re.escape(job.name)} (–|[\d.]+ %)", page.text())
    return shown is None or same_percent(shown[1], share)


def check_job_page(world: Measured, job: Job) -> None:
    page = world.console.operate(f"/w/{job.workspace.slug}/jobs/{job.pk}")
    attempt = next(part.allocation.attempt for part in world.found.held.values() if job_of(part).pk == job.pk)
    borrowed = sum(amount for key, amount in attempt.borrowed.items() if key.endswith("/gpu.cores"))
    shown_borrowed = found_in(r"Borrowed at admission (None|[\d.]+) Since", page)
    expected = "None" if not borrowed else f"{borrowed / 100:g}"
    assert shown_borrowed == expected, (job.name, shown_borrowed, borrowed)
    parts = world.found.slices_where(of_one(job))
    if not parts:
        assert "of allocated compute" not in page.text(), job.name
        return
    share = world.used_share(of_one(job))
    assert same_percent(found_in(r"Current utilization ([\d.]+ %) of allocated compute", page), share), share
    used = sum(world.found.slices[part.pk].memory_mib for part in parts)
    allocated = sum(part.memory_mib for part in parts)
    shown = re.search(r"of allocated compute GPU memory (.+?iB) of (.+?iB)", page.text())
    assert shown is not None and same_memory(shown[1], used), (shown, used)
    assert same_memory(shown[2], allocated), (shown, allocated)


def check_use_reports(world: Measured) -> None:
    """Check used, idle and unmeasured GPU-hours: of all tenants, and of the users of a workspace."""
    ledger, made, found = world.console.ledger, world.console.made, world.found
    lines = {line.name: line for line in _use_lines(world.console.operate("/ops/reports"), "Tenant")}
    for workspace in made.workspaces:
        reserved = ledger.gpu_seconds(world.until, workspace).total()
        if reserved:
            name = next(name for name in lines if name.startswith(workspace.name))
            chosen = [key for key, part in found.held.items() if job_of(part).workspace_id == workspace.pk]
            _check_hours(found, lines[name].cells, chosen, reserved)
    workspace = world.draw_workspace()
    page = world.console.open(made.people[workspace][0], f"/w/{workspace.slug}/usage")
    for user, reserved in ledger.gpu_seconds(world.until, workspace).items():
        line = next(line for line in _use_lines(page, "User") if line.name == user)
        chosen = [
            key
            for key, part in found.held.items()
            if job_of(part).workspace_id == workspace.pk and job_of(part).submitted_by.username == user
        ]
        _check_hours(found, line.cells, chosen, reserved)
    if not ledger.gpu_seconds(world.until, workspace):
        assert not _use_lines(page, "User"), workspace.slug


def _use_lines(page: PageText, heading: str) -> list[Line]:
    """Return the rows of a report; none of an empty one."""
    if "No usage in this month" in page.text():
        return []
    return page.lines(heading, "Unmeasured")


def _check_hours(found: Measurements, cells: dict[str, str], chosen: list[uuid.UUID], held_s: float) -> None:
    measured = sum(found.measured_s[key] for key in chosen) / 100
    used = sum(found.used_s[key] for key in chosen) / 100
    if not measured:
        assert (cells["Used"], cells["Unused"]) == (MISSING, MISSING), cells
    else:
        assert same_hours(cells["Used"], used), (cells, used / 3600)
        assert same_hours(cells["Unused"], measured - used), (cells, (measured - used) / 3600)
    assert same_hours(cells["Unmeasured"], held_s - measured), (cells, (held_s - measured) / 3600)


USE_CHECKS: Final[dict[str, Callable[[Measured], None]]] = {
    "use on the overview": check_overview_use,
    "use of nodes": check_nodes_use,
    "use of GPUs": check_gpus_use,
    "use on a node": check_node_page,
    "use of a GPU": check_gpu_page,
    "use of a workspace": check_workspace_use,
    "used hours": check_use_reports,
}
