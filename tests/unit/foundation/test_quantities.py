"""Reading and showing quantities."""

from __future__ import annotations

import pytest

from foundation.core.identifiers import dns_label, is_dns_label, new_id
from foundation.core.quantities import (
    QuantityError,
    format_cpu,
    format_memory,
    parse_cpu,
    parse_memory,
    parse_percent,
)


@pytest.mark.parametrize(
    ("text", "millicores"), [("8", 8000), (8, 8000), ("0.5", 500), ("500m", 500), ("0.0001", 1), ("1.5m", 2)]
)
def test_cpu(text: str | int, millicores: int) -> None:
    assert parse_cpu(text) == millicores


@pytest.mark.parametrize(
    ("text", "mebibytes"),
    [("64Gi", 65536), ("20480Mi", 20480), ("1048576", 1), ("1", 1), ("1G", 954), ("1.5Gi", 1536), ("0", 0)],
)
def test_memory(text: str, mebibytes: int) -> None:
    assert parse_memory(text) == mebibytes


@pytest.mark.parametrize(("text", "percent"), [(30, 30), ("30%", 30), ("100", 100), (1, 1)])
def test_percent(text: str | int, percent: int) -> None:
    assert parse_percent(text) == percent


@pytest.mark.parametrize("text", ["", "eight", "-1", "1e3", "8 cores", "1,5", "nan", "inf"])
def test_what_is_not_a_cpu_amount(text: str) -> None:
    with pytest.raises(QuantityError, match="CPU"):
        parse_cpu(text)


@pytest.mark.parametrize("text", ["64GB", "64gi", "-1Gi", "lots", "5%"])
def test_what_is_not_a_memory_amount(text: str) -> None:
    with pytest.raises(QuantityError, match="memory"):
        parse_memory(text)


@pytest.mark.parametrize("text", [0, 101, "0.5", "30m", "-3", ""])
def test_what_is_not_a_share_of_a_card(text: str | int) -> None:
    with pytest.raises(QuantityError, match="share"):
        parse_percent(text)


def test_shown_for_people() -> None:
    assert format_cpu(8000) == "8"
    assert format_cpu(500) == "0.5"
    assert format_memory(512) == "512 MiB"
    assert format_memory(65536) == "64 GiB"


def test_ids_sort_by_creation_and_labels_are_labels() -> None:
    ids = [new_id() for _ in range(100)]
    assert ids == sorted(ids)
    assert {i.version for i in ids} == {7}
    for text in ("LLaMA SFT #7", "--a--", "", "ünï", "x" * 99):
        assert is_dns_label(dns_label(text, 30))
        assert len(dns_label(text, 30)) <= 30
