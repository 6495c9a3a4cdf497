"""Checks of the sums of quota over all pools: tiles, bars by pool, and workspaces with the lowest rates."""

from __future__ import annotations

from clusters.models import Device, Flavor
from tests.truth.pages.console import Console, same_percent
from tests.truth.pages.installations import Installation
from tests.truth.pages.ledger import Ledger
from tests.truth.pages.reading import PageText, number_of


def check_quota_totals(console: Console) -> None:
    """Compare the page of the platform admin with sums over rows."""
    page = console.operate("/ops/quotas/charts")
    _check_tiles(console.ledger, console.made, page)
    _check_bars(console.ledger, console.made, page)
    _check_rates(console.ledger, console.made, page)


def _check_tiles(ledger: Ledger, made: Installation, page: PageText) -> None:
    nominals = [ledger.nominal(ledger.node_of(made.root), pool) for pool in made.pools]
    held = sum(ledger.reserved(made.root, pool) for pool in made.pools)
    capacity = sum(map(_capacity, made.pools))
    nominal = None if None in nominals else sum(amount or 0 for amount in nominals)
    tiles = page.tiles()
    share = None if nominal is None else 100 * nominal / capacity
    assert same_percent(tiles["Quota / capacity"][0], share), (tiles, nominal, capacity)
    assert same_percent(tiles["Allocated / quota"][0], 100 * held / nominal if nominal else None), tiles
    assert number_of(tiles["Pending jobs"][0]) == ledger.pending(made.root)


def _check_bars(ledger: Ledger, made: Installation, page: PageText) -> None:
    drawn = {row[0]: row[1:] for row in page.chart_table("quota-pools")}
    assert drawn.keys() == {pool.name for pool in made.pools}
    for pool in made.pools:
        capacity, nominal, allocated, pending = drawn[pool.name]
        quota = ledger.nominal(ledger.node_of(made.root), pool)
        assert _is(capacity, _capacity(pool)), (pool.name, capacity)
        assert nominal == "–" if quota is None else _is(nominal, quota), (pool.name, nominal, quota)
        assert _is(allocated, ledger.reserved(made.root, pool)), (pool.name, allocated)
        assert _is(pending, 100 * ledger.asked_gpus(made.root, pool)), (pool.name, pending)


def _check_rates(ledger: Ledger, made: Installation, page: PageText) -> None:
    rates = {}
    for workspace in made.workspaces:
        pairs = [
            (amount, ledger.reserved(workspace, pool))
            for pool in made.pools
            if (amount := ledger.nominal(ledger.node_of(workspace), pool)) is not None
        ]
        if nominal := sum(amount for amount, _held in pairs):
            rates[workspace.name] = 100 * sum(held for _amount, held in pairs) / nominal
    lines = page.lines("Workspace", "Allocation rate") if rates else []
    assert {line.name for line in lines} == rates.keys()
    assert all(same_percent(line.cells["Allocation rate"], rates[line.name]) for line in lines), rates
    assert [rates[line.name] for line in lines] == sorted(rates.values())


def _capacity(pool: Flavor) -> int:
    """The GPUs of a pool, in hundredths."""
    return 100 * Device.unscoped.filter(node__flavor=pool).count()


def _is(text: str, hundredths: int) -> bool:
    return abs((number_of(text) or 0.0) - hundredths / 100) <= 0.0501
