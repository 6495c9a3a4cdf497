"""Meters and tiles: allocation and utilisation stay two facts."""

from __future__ import annotations

from frontend.components.capacity import GpuTile, Meter


def test_used_lies_within_allocated() -> None:
    meter = Meter(nominal=100, allocated=80, used=50)
    assert [(s.kind, s.start, s.width) for s in meter.build_segments()] == [
        ("used", 0, 50),
        ("allocated", 50, 30),
    ]
    assert meter.free == 20


def test_borrowing_goes_beyond_the_nominal_mark() -> None:
    meter = Meter(nominal=64, allocated=72, used=49, borrowed=8)
    assert meter.nominal_mark == 88.89
    assert meter.build_segments()[-1].kind == "borrowed"
    assert meter.free == 0
    assert round(sum(s.width for s in meter.build_segments())) == 100


def test_lent_and_held_quota_are_not_free() -> None:
    meter = Meter(nominal=96, allocated=51, used=42, lent=20, held=6)
    assert meter.free == 19
    assert meter.description() == "51 of 96 allocated, 42 used, 20 lent, 6 reserved, 19 free"


def test_nothing_at_all_draws_nothing() -> None:
    assert Meter(nominal=0).build_segments() == []


def test_slices_share_a_card_side_by_side() -> None:
    tile = GpuTile(name="GPU 3", allocated=60, used=30, slices=(30, 30))
    assert [(bar.start, bar.width) for bar in tile.bars] == [(0, 30), (30, 30)]
    assert tile.used_height == 50  # half of what is handed out is at work


def test_a_free_card_has_no_bars() -> None:
    tile = GpuTile(name="GPU 0", healthy=False)
    assert (tile.bars, tile.used_height) == ([], 0)
    assert tile.description() == "GPU 0, unhealthy, 0 % allocated"


def test_borrowing_beside_free_quota_of_another_queue_leaves_the_free_part_empty() -> None:
    meter = Meter(nominal=6, allocated=6, borrowed=3)
    assert meter.free == 3
    assert meter.nominal_mark == 66.67
    assert [(s.kind, s.start, s.width) for s in meter.build_segments()] == [
        ("allocated", 0, 33.33),
        ("borrowed", 66.67, 33.33),
    ]


def test_use_that_is_measured_on_a_part_is_a_lower_bound_in_words() -> None:
    assert "0.4 used" in Meter(nominal=8, allocated=8, used=0.4).description()
    assert "≥ 0.4 used" in Meter(nominal=8, allocated=8, used=0.4, is_partly_measured=True).description()
