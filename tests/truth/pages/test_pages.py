"""Each number of quota, allocation and use on a page follows from the rows.

100 installations by `ALLOTMENT_WORLDS=100`.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final

import pytest
import time_machine

from clusters.models import Device, Flavor, Node
from scheduling.models import Job
from tenants.models import Tenant, TenantKind, User
from tests.truth.pages import queues
from tests.truth.pages.console import Console, find_faults, same_hours, same_memory, same_percent
from tests.truth.pages.holders import check_held_by, check_quota_sentences
from tests.truth.pages.installations import Installation, build_installation, has_kind
from tests.truth.pages.ledger import PENDING, RUNNING, Ledger
from tests.truth.pages.measurements import Use, measure
from tests.truth.pages.queues import check_queues, draw_usage, order_pending
from tests.truth.pages.quota_totals import check_quota_totals
from tests.truth.pages.quota_use import QUOTA_USE_CHECKS
from tests.truth.pages.reading import Line, PageText, number_of
from tests.truth.pages.timelines import check_timeline, draw_timelines
from tests.truth.pages.uses import USE_CHECKS, Measured
from tests.truth.pages.workspace_quota import check_workspace_quota

pytestmark = pytest.mark.django_db
WORLDS: Final = int(os.environ.get("ALLOTMENT_WORLDS", "6"))
_BEGIN: Final = datetime(2026, 3, 2, 8, tzinfo=UTC)
_SHOWN: Final = _BEGIN + timedelta(seconds=100)
_LATER: Final = _BEGIN + timedelta(hours=1)
"""The seconds after which measurements are shown, in which nothing was scheduled."""


def close_to(shown: float | None, hundredths: float | None, digits: int = 1) -> bool:
    """Return whether a number in GPUs is the rounded value of hundredths; a dash is nothing."""
    return abs((shown or 0.0) - (hundredths or 0) / 100) <= 0.5 * 10**-digits + 1e-9


def amount(text: str) -> float | None:
    """Return a number of quota; None is unlimited."""
    return None if text == "unlimited" else number_of(text) or 0.0


def same_amount(text: str, hundredths: int | None) -> bool:
    """Return whether a quota in GPUs is shown exactly."""
    shown = amount(text)
    return shown is None if hundredths is None else shown is not None and close_to(shown, hundredths)


def check_overview(console: Console) -> None:
    ledger, made = console.ledger, console.made
    page = console.operate("/ops/overview")
    devices = list(Device.unscoped.all())
    value, meaning = page.tiles()["Allocated"]
    held = sum(map(ledger.on_device, devices))
    assert close_to(float(meaning.split()[0]), held) and f" of {len(devices)} GPUs" in meaning
    assert abs(float(value.split()[0]) - held / len(devices)) <= 0.051
    assert number_of(page.tiles()["Pending jobs"][0]) == ledger.pending(made.root)
    running = sum(map(ledger.running, made.people))
    assert number_of(page.tiles()["Running jobs"][0]) == running
    value, meaning = page.tiles()["Ready nodes"]
    nodes, healthy = list(Node.unscoped.all()), sum(device.healthy for device in devices)
    assert number_of(value) == sum(node.ready for node in nodes)
    assert meaning == f"of {len(nodes)} · {healthy} of {len(devices)} GPUs healthy"
    for line in page.lines("Pool", "Free", "Per node"):
        name = line.name.split()[0]
        free = Counter(
            device.node_id
            for device in devices
            if device.node.flavor is not None
            and device.node.flavor.name == name
            and not ledger.on_device(device)
        )
        assert (line.number("Free"), line.number("Per node")) == (free.total(), max(free.values(), default=0))
    if held:
        check_gpu_tenants(ledger, page)
    lines = {line.name: line for line in page.lines("Tenant", "Allocated / nominal")}
    for tenant in made.tenants:
        line = lines[tenant.name]
        assert (line.number("Pending jobs") or 0) == ledger.pending(tenant), tenant.name
        pools = [pool for pool in made.pools if _is_shown(ledger, tenant, pool)]
        pairs = line.cells["Allocated / nominal"].replace(" / ", "/").replace("–", "").split()
        assert len(pairs) == len(pools), line
        for pool, pair in zip(pools, pairs, strict=True):
            allocated, _, nominal = pair.partition("/")
            assert close_to(number_of(allocated), ledger.reserved(tenant, pool)), (tenant.name, line)
            assert same_amount(nominal, ledger.nominal(ledger.node_of(tenant), pool)), (tenant.name, line)


def check_gpu_tenants(ledger: Ledger, page: PageText) -> None:
    """Check the tenants' holdings in the table of the GPU grid, in whole GPUs and slices."""
    shown = {line.name: line for line in page.lines("Workspace", "GPUs allocated", "Whole GPUs")}
    held = ledger.held_by_workspace()
    assert shown.keys() == held.keys()
    largest = page.lines("Workspace", "GPUs allocated", "Utilization of whole GPUs")[:5]
    most = sorted((cores for cores, _whole, _slices in held.values()), reverse=True)[:5]
    assert [held[line.name][0] for line in largest] == most
    for name, (cores, whole, slices) in held.items():
        line = shown[name]
        assert close_to(line.number("GPUs allocated"), cores), (name, line)
        assert (line.number("Whole GPUs"), line.number("Slices")) == (whole, slices), (name, line)


def _is_shown(ledger: Ledger, tenant: Tenant, pool: Flavor) -> bool:
    return ledger.nominal(ledger.node_of(tenant), pool) != 0 or ledger.reserved(tenant, pool) > 0


def check_quota_tree(console: Console) -> None:
    """Check that the tree and the table of each folder agree, and that what they lend adds up."""
    ledger, made = console.ledger, console.made
    for pool in made.pools:
        tree = console.operate(f"/ops/quotas/tree?pool={pool.pk}")
        lines = {_tenant_name(line, made): line for line in tree.lines("Tenant", "Unassigned")}
        assert set(lines) == {tenant.name for tenant in made.tenants}
        for tenant in made.tenants:
            line = lines[tenant.name]
            nominal = ledger.nominal(ledger.node_of(tenant), pool)
            assert same_amount(line.cells["GPUs nominal"], nominal), (tenant.name, pool.name, line)
            if line.cells["Unassigned"] != "–" or any(one.parent_id == tenant.pk for one in made.tenants):
                unassigned = ledger.unassigned(tenant, pool)
                assert same_amount(line.cells["Unassigned"], unassigned), (tenant.name, line)
            assert close_to(line.number("Allocated"), ledger.reserved(tenant, pool)), (tenant.name, line)
            assert close_to(line.number("Borrowed"), ledger.borrowed(tenant, pool)), (tenant.name, line)
            rate = 100 * ledger.reserved(tenant, pool) / nominal if nominal else None
            assert same_percent(line.cells["Allocation rate"], rate), (tenant.name, line)
            asked = ledger.asked_gpus(tenant, pool)
            assert (line.number("Pending GPUs") or 0) == asked, (tenant.name, line, asked)
            for heading, amount_asked in ledger.asked_of_nodes(tenant, pool).items():
                shown = re.search(r"([\d.,]+) pending$", line.cells[heading])
                pending = number_of(shown[1]) if shown else 0
                assert pending is not None and abs(pending - amount_asked) <= 0.051, (line, heading)
            if nominal is not None:
                free, lent = amount(line.cells["Free"]), line.number("Lent") or 0.0
                assert free is not None and abs(free + lent - (ledger.spare(tenant, pool) or 0) / 100) <= 0.11
        _check_lent(console, pool, {name: line.number("Lent") or 0.0 for name, line in lines.items()})


def _tenant_name(line: Line, made: Installation) -> str:
    """Return the tenant of a row, whose first cell may contain a mark of over-commitment."""
    return max((tenant.name for tenant in made.tenants if line.name.startswith(tenant.name)), key=len)


def _check_lent(console: Console, pool: Flavor, lent: dict[str, float]) -> None:
    """No tenant lends more than it may; a folder lends its own quota first, then that of its children."""
    ledger, made = console.ledger, console.made
    for tenant in made.tenants:
        assert lent[tenant.name] <= ledger.lendable(tenant, pool) / 100 + 0.051, (tenant.name, pool.name)
        children = [one for one in made.tenants if one.parent_id == tenant.pk]
        own = ledger.unassigned(tenant, pool)
        if not children or own is None:
            continue
        inside = sum(ledger.borrowed(one, pool) for one in children) - ledger.borrowed(tenant, pool)
        asked = inside / 100 + lent[tenant.name] - own / 100
        left = sum(ledger.lendable(one, pool) for one in children) / 100
        found = sum(lent[one.name] for one in children)
        assert abs(found - min(left, max(0.0, asked))) <= 0.051 * (2 + len(children)), (
            tenant.name,
            pool.name,
        )
    usual = console.operate("/ops/overview").lines("Tenant", "Borrowed / lent")
    for line in usual:
        tenant = next(one for one in made.tenants if one.name == line.name)
        pools = [one for one in made.pools if _is_shown(ledger, tenant, one)]
        if pools == [pool]:
            shown = -sum(number for number in line.numbers("Borrowed / lent") if number < 0)
            assert abs(shown - lent[tenant.name]) <= 0.051, (tenant.name, "two pages lend differently")


def check_quota_tables(console: Console) -> None:
    ledger, made = console.ledger, console.made
    for tenant in made.tenants:
        if has_kind(tenant, TenantKind.FOLDER):
            page = console.operate(f"/ops/quotas?tenant={tenant.slug}")
        else:
            page = console.open(made.people[tenant][0], f"/w/{tenant.slug}/quota")
        words = page.text()
        for pool in made.pools:
            if f"{pool.name} {pool.card_model}" not in words:
                assert not _is_shown(ledger, tenant, pool), (tenant.name, pool.name)
        if "No quota for this resource" in words:
            continue
        own = [line for line in page.lines("Name", "Nominal quota") if line.name.startswith(tenant.name)]
        pools = [pool for pool in made.pools if f"{pool.name} {pool.card_model}" in words]
        assert own, tenant.name
        if len(own) != len(pools):
            continue  # a page may show one pool at a time
        for pool, line in zip(pools, own, strict=True):
            assert same_amount(line.cells["Nominal quota"], ledger.nominal(ledger.node_of(tenant), pool))
            assert close_to(line.number("Allocated"), ledger.reserved(tenant, pool)), (tenant.name, line)
            assert close_to(line.number("Borrowed"), ledger.borrowed(tenant, pool)), (tenant.name, line)


def check_nodes_and_gpus(console: Console) -> None:
    ledger = console.ledger
    lines = {line.name.split()[0]: line for line in console.operate("/ops/nodes").lines("Node", "Free GPUs")}
    nodes = list(Node.unscoped.all())
    assert set(lines) == {node.name for node in nodes}
    for node in nodes:
        line, devices = lines[node.name], list(Device.unscoped.filter(node=node))
        held = [ledger.on_device(device) for device in devices]
        assert line.number("Free GPUs") == held.count(0)
        assert abs(line.numbers("Allocated")[0] - sum(held) / len(held)) <= 0.51
        assert line.numbers("Largest free")[0] == 100 - min(held)
        allocated, total = line.numbers("GPU memory")
        assert abs(allocated - ledger.memory_on(node) / 1024) <= 0.51
        assert abs(total - sum(device.memory_mib for device in devices) / 1024) <= 0.51
        assert line.number("Pods") == ledger.pods_on(node)
    page = console.operate("/ops/gpus?pageSize=100")
    gpus = [(line.name, line.numbers("Allocated")[0]) for line in page.lines("GPU", "Allocated")]
    devices = list(Device.unscoped.select_related("node"))
    true = {f"{device.node.name} · GPU {device.index}": ledger.on_device(device) for device in devices}
    for name, percent in gpus:
        assert percent == true[name.removesuffix(" Node")], name
    tenants = {
        line.name.removesuffix(" Node"): line.cells["Tenants"] for line in page.lines("GPU", "Tenants")
    }
    for device in devices:
        held = set(tenants[f"{device.node.name} · GPU {device.index}"].split(", ")) - {"–"}
        assert held == ledger.tenants_on(device), device
    states = Counter(
        "Free" if not held else "Allocated" if held >= 100 else "Partly" for held in true.values()
    )
    chips = page.chips()
    assert (chips["All"], chips["Free"]) == (len(true), states["Free"])
    assert (chips["Partly allocated"], chips["Allocated"]) == (states["Partly"], states["Allocated"])


def check_workspaces(console: Console) -> None:
    ledger, made = console.ledger, console.made
    for workspace, people in made.people.items():
        page = console.open(people[0], f"/w/{workspace.slug}/overview")
        tiles = {label: value for label, (value, _meaning) in page.tiles().items()}
        held = sum(ledger.reserved(workspace, pool) for pool in made.pools)
        assert close_to(number_of(tiles["GPUs allocated"]), held), workspace.name
        borrowed = sum(ledger.borrowed(workspace, pool) for pool in made.pools)
        assert close_to(number_of(tiles["Borrowed"]), borrowed), workspace.name
        assert number_of(tiles["Running"]) == ledger.running(workspace)
        assert number_of(tiles["Pending"]) == ledger.pending(workspace)
        memory = sum(ledger.memory_reserved(workspace, pool) for pool in made.pools)
        assert same_memory(tiles["GPU memory allocated"], memory), (workspace.name, memory)
        check_own_jobs(page, people[0], ledger.jobs_of(workspace))
        month = tiles["GPU-hours this month"]
        assert same_hours(month, ledger.gpu_seconds(_SHOWN, workspace).total()), (workspace.name, month)
        queues = {line.name: line for line in page.lines("Queue", "GPUs allocated")}
        for queue in made.queues:
            if queue.workspace_id == workspace.pk:
                line = queues[queue.name]
                counts = (line.number("Pending") or 0, line.number("Running") or 0)
                assert counts == ledger.queue_jobs(queue), line
                assert close_to(line.number("GPUs allocated"), ledger.queue_reserved(queue)), line


def check_own_jobs(page: PageText, reader: User, jobs: list[Job]) -> None:
    """Check the reader's jobs beside those of all, and the notebooks, running and all."""
    for label, states in (("Running", RUNNING), ("Pending", PENDING)):
        mine = sum(job.state in states and job.submitted_by_id == reader.pk for job in jobs)
        words = page.tiles()[label][1]
        assert words.startswith(f"{mine} mine") if mine else "mine" not in words, (words, mine)
    notebooks = [job for job in jobs if job.kind == "notebook"]
    value, words = page.tiles()["Running notebooks"]
    assert number_of(value) == sum(job.state in RUNNING for job in notebooks)
    assert number_of(words) == sum(job.finished_at is None for job in notebooks), words


def check_job_lists(console: Console) -> None:
    ledger, made = console.ledger, console.made
    for workspace, people in made.people.items():
        page = console.open(people[0], f"/w/{workspace.slug}/jobs?size=100")
        jobs = ledger.jobs_of(workspace)
        chips = page.chips()
        assert chips["All"] == len(jobs)
        assert chips["Pending"] == ledger.pending(workspace)
        assert chips["Running"] == ledger.running(workspace)
        assert chips["Succeeded"] == sum(job.state == "succeeded" for job in jobs)
        if jobs:
            shown = Counter(line.cells["Name"].split()[0] for line in page.lines("Name", "Status"))
            assert shown == Counter(job.name for job in jobs)


def check_usage(console: Console) -> None:
    ledger, made = console.ledger, console.made
    check_hours(console.operate("/ops/reports"), ledger.gpu_seconds(_SHOWN).total())
    for workspace, people in made.people.items():
        true = ledger.gpu_seconds(_SHOWN, workspace)
        page = console.open(people[0], f"/w/{workspace.slug}/usage")
        check_hours(page, true.total())
        if true:
            lines = {line.name: line for line in page.lines("User", "Reserved")}
            for user, seconds in true.items():
                assert same_hours(lines[user].cells["Reserved"], seconds), (user, lines[user], seconds)


def check_hours(page: PageText, seconds: float) -> None:
    """Check the tile of a usage page, which is absent if nothing was reserved."""
    tile = page.tiles().get("Reserved")
    assert (tile is None) == (seconds == 0), (tile, seconds)
    assert tile is None or same_hours(tile[0], seconds), (tile, seconds)


CHECKS: Final[dict[str, Callable[[Console], None]]] = {
    "overview": check_overview,
    "quota tree": check_quota_tree,
    "quota tables": check_quota_tables,
    "quota totals": check_quota_totals,
    "nodes and GPUs": check_nodes_and_gpus,
    "workspaces": check_workspaces,
    "jobs": check_job_lists,
    "usage": check_usage,
    "held by": check_held_by,
    "quota sentences": check_quota_sentences,
}


NOTICED: Final = {
    "on_device": {"overview", "nodes and GPUs"},
    "reserved": {"overview", "quota tree", "quota tables", "quota totals", "workspaces", "held by"},
    "nominal": {"overview", "quota tree", "quota tables", "quota totals"},
    "pending": {"overview", "quota totals", "workspaces", "jobs"},
    "running": {"workspaces", "jobs"},
    "pods_on": {"nodes and GPUs"},
    "queue_reserved": {"workspaces"},
}
"""The checks that fail if a sum of the ledger is wrong."""


@pytest.mark.parametrize("seed", range(WORLDS))
def test_pages_show_what_the_rows_say(seed: int) -> None:
    with time_machine.travel(_BEGIN, tick=False):
        made = build_installation(seed)
    with time_machine.travel(_SHOWN, tick=False):
        assert find_faults(Console(made, Ledger(made)), CHECKS) == {}
    with time_machine.travel(_LATER, tick=False):
        found, console = measure(seed, made, _LATER), Console(made, Ledger(made))
        checks = USE_CHECKS | QUOTA_USE_CHECKS | {"quota of a workspace": check_workspace_quota}
        assert find_faults(Measured(console, found, _LATER, seed), checks) == {}
        draw_usage(seed, console, _LATER)
        assert find_faults(console, {"queues": check_queues}) == {}
        assert find_faults(draw_timelines(seed, console, _LATER), {"timeline": check_timeline}) == {}


def test_a_wrong_number_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    with time_machine.travel(_BEGIN, tick=False):
        made = build_installation(1)
    with time_machine.travel(_SHOWN, tick=False):
        for sum_of, noticed in NOTICED.items():
            true = getattr(Ledger, sum_of)
            with monkeypatch.context() as planted:
                planted.setattr(Ledger, sum_of, _add_twenty(true))
                checks = {name: CHECKS[name] for name in noticed}
                assert set(find_faults(Console(made, Ledger(made)), checks)) == noticed, sum_of
    with time_machine.travel(_LATER, tick=False):
        found, console = measure(1, made, _LATER), Console(made, Ledger(made))
        for use in (found.gpus, found.slices):
            use.update({key: Use(one.percent + 7, one.memory_mib + 2048) for key, one in use.items()})
        found.used_s.update(dict.fromkeys(found.used_s, 360_000))
        wrong = Measured(console, found, _LATER, 1)
        use_checks = USE_CHECKS | QUOTA_USE_CHECKS
        assert find_faults(wrong, use_checks).keys() == use_checks.keys()
        with monkeypatch.context() as planted:
            planted.setattr(Ledger, "nominal", _add_twenty(Ledger.nominal))
            assert find_faults(console, {"queues": check_queues})
            planted.undo()
            planted.setattr(queues, "order_pending", lambda jobs: order_pending(jobs)[::-1])
            assert find_faults(console, {"queues": check_queues})
        times = draw_timelines(1, console, _LATER)
        for planted_times in (
            replace(times, now=_LATER + timedelta(minutes=11)),
            replace(times, bounds=dict.fromkeys(console.ledger.jobs, (60, 120, 180, 240, 300))),
        ):
            assert find_faults(planted_times, {"timeline": check_timeline})


def _add_twenty(true: Callable[..., int | None]) -> Callable[..., int | None]:
    def planted(*args: object) -> int | None:
        amount = true(*args)
        return None if amount is None else amount + 20

    return planted
