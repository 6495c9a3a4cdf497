"""Amounts as people type them into forms."""

from __future__ import annotations

from foundation.core.quantities import parse_memory


def parse_gibibytes(text: str) -> int:
    """Read memory into MiB: a bare number is GiB, else with a unit as Kubernetes writes it.

    Raises: QuantityError.
    """
    return parse_memory(f"{text}Gi" if text.replace(".", "", 1).isdecimal() else text)
