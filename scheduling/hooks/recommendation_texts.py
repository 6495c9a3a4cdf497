"""The recommendations of pending jobs as text, which a package in a higher layer provides."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

DescribeRecommendations = Callable[[str, Mapping[str, Any], Iterable[Any]], Sequence[str]]
"""A function from a reason code, its numbers and the engine's recommendations to plain sentences."""
_describers: list[DescribeRecommendations] = []


def register_describer(describer: DescribeRecommendations) -> None:
    """Register the texts; the package that has them calls it once at start."""
    _describers[:] = [describer]


def describe_recommendations(code: str, numbers: Mapping[str, Any], found: Iterable[Any]) -> Sequence[str]:
    """Return recommendations for a job that waits for `code` as sentences; empty without a describer."""
    return _describers[0](code, numbers, found) if _describers else ()
