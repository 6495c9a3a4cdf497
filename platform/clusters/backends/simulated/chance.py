"""Numbers that look random and are the same every time, because they are derived from names."""

from __future__ import annotations

import hashlib


def random_fraction(*names: object) -> float:
    """Return a number in [0, 1) that depends only on `names`."""
    text = "\x1f".join(map(str, names)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=6).digest()) / 2**48


def random_between(low: float, high: float, *names: object) -> float:
    """Return a number in [low, high) that depends only on `names`."""
    return low + (high - low) * random_fraction(*names)
