"""Amounts as users enter them into forms."""

from __future__ import annotations

from foundation.core.quantities import parse_memory


def parse_gibibytes(text: str) -> int:
    """Return memory in MiB: a bare number is GiB, else it has a unit as in Kubernetes.

    Raises: QuantityError.
    """
    return parse_memory(f"{text}Gi" if text.replace(".", "", 1).isdecimal() else text)
