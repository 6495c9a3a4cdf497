"""Parses Kubernetes quantities to integers: CPU in thousandths, other resources in their base unit.

Kueue uses 64-bit integers with saturation, and so does this module: a larger amount is the largest integer,
and such a limit is no limit.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from typing import Final

CEILING: Final = 2**63 - 1
UNLIMITED_WORD: Final = "unlimited"
CPU: Final = "cpu"

_PATTERN = re.compile(r"^([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?[0-9]+))?$")
_FACTORS: Final[dict[str, Decimal]] = {
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    **{suffix: Decimal(10 ** (3 * power)) for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Decimal(2 ** (10 * power)) for power, suffix in enumerate("KMGTPE", start=1)},
}


class KueueQuantityError(ValueError):
    """A text that isn't a quantity, or is negative."""


def value_of(text: str | int) -> Decimal:
    """Return the exact value of a quantity, in base units.

    Raises:
        KueueQuantityError: when it cannot be read or is negative.
    """
    if isinstance(text, int) and not isinstance(text, bool):
        number = Decimal(text)
    else:
        match = _PATTERN.match(str(text))
        if match is None:
            raise KueueQuantityError(f"{text!r} is not a quantity")
        number = Decimal(match[1])
        if match[2]:
            number *= _FACTORS[match[2]]
        elif match[3]:
            number = number.scaleb(int(match[3]))
    if number < 0:
        raise KueueQuantityError(f"{text!r} is negative")
    return number


def parse_amount(text: str | int, resource: str) -> int:
    """Return an amount of a resource in canonical units, rounded up, at most `CEILING`."""
    if text == UNLIMITED_WORD:
        return CEILING
    return _whole(value_of(text) * 1000 if resource == CPU else value_of(text))


def parse_limit(text: str | int, resource: str) -> int | None:
    """Return a quota or a limit in canonical units; None if it is `CEILING` or more."""
    found = parse_amount(text, resource)
    return None if found >= CEILING else found


def parse_thousandths(text: str | int) -> int:
    """Return a weight in thousandths, rounded up."""
    return _whole(value_of(text) * 1000)


def cap_amount(number: int) -> int:
    """Return a sum or product of amounts, at most `CEILING`."""
    return min(number, CEILING)


def _whole(number: Decimal) -> int:
    return cap_amount(int(number.to_integral_value(rounding=ROUND_CEILING)))
