"""The table of the tenants that hold GPUs: its end is the sum of those that it leaves out."""

from __future__ import annotations

import uuid

from clusters.selectors.grid import GridCard, GridNode
from foundation.core import clock
from frontend.pages.operations.overview.gpu_tenants import ROWS_MAX, describe_gpu_tenants
from scheduling.selectors.allocations.holding import LiveSlice
from telemetry.series import CardNow


def grid(cards: int) -> GridNode:
    """A node with so many GPUs."""
    pk, words = uuid.uuid4(), ("sim", "node", uuid.uuid4(), "a100", "A100", "r1")
    made = [GridCard(uuid.uuid4(), n, True, 100, 100, 1, 1, 1, 0, 0, 1) for n in range(cards)]
    return GridNode(pk, pk, *words, True, False, False, False, made)


def hold(card: GridCard, name: str, cores: int = 100) -> LiveSlice:
    """Return what a workspace of this name holds of a GPU."""
    pk = uuid.uuid5(uuid.NAMESPACE_DNS, name)
    return LiveSlice(card.id, cores, cores == 100, pk, "job", pk, name)


def test_the_last_row_sums_up_the_others() -> None:
    node = grid(ROWS_MAX + 50)
    first, *cards = node.cards
    held = [hold(first, "largest"), hold(first, "largest", 40)]
    held += [hold(card, f"team-{n:03d}", 100 if n % 2 else 30) for n, card in enumerate(cards)]
    now = {card.id: CardNow(clock.now(), 50.0, 100, 0, 0, None, None) for card in cards}

    rows = describe_gpu_tenants([node], now, held).rows

    assert (len(rows), rows[0].name, rows[0].gpus) == (ROWS_MAX, "largest", "1.4")
    assert rows[-1].name == f"{ROWS_MAX + 50 - (ROWS_MAX - 1)} others"
    assert (rows[-1].utilization, rows[0].utilization) == (None, None)
    assert sum(row.whole for row in rows) == sum(part.exclusive for part in held)
    assert sum(row.slices for row in rows) == sum(not part.exclusive for part in held)
    gpus = sum(float(row.gpus.replace(",", "")) for row in rows)
    assert round(gpus, 6) == sum(part.cores for part in held) / 100


def test_no_row_is_added_where_all_fit() -> None:
    node = grid(ROWS_MAX)
    held = [hold(card, f"team-{n:03d}") for n, card in enumerate(node.cards)]
    rows = describe_gpu_tenants([node], {}, held).rows
    assert {row.name for row in rows} == {part.workspace for part in held}
    assert describe_gpu_tenants([node], {}, []).rows == []
