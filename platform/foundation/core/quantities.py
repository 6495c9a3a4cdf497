"""Resources and their units.

Every amount is a whole number of its resource's unit, because quota arithmetic in floats drifts:
`cpu` in millicores, `memory` and `gpu.memory` in MiB, `gpu.cores` in percent points (100 = the
compute of one whole card) and `gpu.cards` in cards. An unlimited limit is `UNLIMITED` (None) and is
always explicit; zero means that nothing is allowed.
"""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from typing import Final, NewType

Millicores = NewType("Millicores", int)
Mebibytes = NewType("Mebibytes", int)
Percent = NewType("Percent", int)
Cards = NewType("Cards", int)

UNLIMITED: Final = None
WHOLE_CARD: Final = Percent(100)

_QUANTITY = re.compile(r"([0-9]{1,30}(?:\.[0-9]{1,30})?)\s{0,10}([A-Za-z%]{0,10})")
_SHOWN: Final = 60
_MEBI = 2**20
_MEMORY_FACTORS: Final[dict[str, Decimal]] = {
    "": Decimal(1),
    **{suffix: Decimal(10 ** (3 * power)) for power, suffix in enumerate("kMGTP", start=1)},
    **{f"{suffix}i": Decimal(2 ** (10 * power)) for power, suffix in enumerate("KMGTP", start=1)},
}


class Resource(StrEnum):
    """The resources that quota counts. The value is the name used in the API, in files and on screens."""

    CPU = "cpu"
    MEMORY = "memory"
    GPU_CARDS = "gpu.cards"
    GPU_CORES = "gpu.cores"
    GPU_MEMORY = "gpu.memory"


class QuantityError(ValueError):
    """A quantity that cannot be parsed; the message names the input and the correct form.

    `sentence` is that message in English, with a placeholder for `values`: the code that shows it translates
    it.
    """

    def __init__(self, sentence: str, **values: str) -> None:
        super().__init__(sentence % values)
        self.sentence, self.values = sentence, values


def gettext_noop(sentence: str) -> str:
    """Mark a sentence for translation. Django is not imported, because the engine uses this module."""
    return sentence


_NO_CPU: Final = gettext_noop("Invalid CPU amount %(text)s. Examples: 8, 0.5, 500m")
_NO_MEMORY: Final = gettext_noop("Invalid memory amount %(text)s. Examples: 64Gi, 20480Mi")
_NO_SHARE: Final = gettext_noop("Invalid GPU share %(text)s. Enter a whole percentage from 1 to 100.")


def _split(text: str | int | float, refusal: str) -> tuple[Decimal, str]:
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None:
        raise QuantityError(refusal, text=_quoted(text))
    return Decimal(match[1]), match[2]


def _quoted(text: object) -> str:
    """Return the input in quotes, cut to `_SHOWN` characters."""
    return repr(text)[:_SHOWN]


def _ceil(value: Decimal) -> int:
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def parse_cpu(text: str | int | float) -> Millicores:
    """Read a CPU amount as Kubernetes writes it (`8`, `0.5`, `500m`) into millicores, rounded up."""
    value, suffix = _split(text, _NO_CPU)
    if suffix == "m":
        return Millicores(_ceil(value))
    if suffix == "":
        return Millicores(_ceil(value * 1000))
    raise QuantityError(_NO_CPU, text=_quoted(text))


def parse_memory(text: str | int | float) -> Mebibytes:
    """Read a memory amount as Kubernetes writes it (`64Gi`, `20480Mi`, bytes) into MiB, rounded up."""
    value, suffix = _split(text, _NO_MEMORY)
    factor = _MEMORY_FACTORS.get(suffix)
    if factor is None:
        raise QuantityError(_NO_MEMORY, text=_quoted(text))
    return Mebibytes(_ceil(value * factor / _MEBI))


def parse_percent(text: str | int | float) -> Percent:
    """Read a share of one card (`30` or `30%`) as whole percent points in 1..100.

    Zero is refused: slicing layers read it as "no limit".
    """
    value, suffix = _split(text, _NO_SHARE)
    if suffix not in ("", "%") or value != value.to_integral_value() or not 1 <= value <= 100:
        raise QuantityError(_NO_SHARE, text=_quoted(text))
    return Percent(int(value))


def format_cpu(amount: int) -> str:
    """Format millicores for users: `8`, `0.5`, `1,536`."""
    return _format_decimals(amount / 1000, 3)


def format_memory(amount: int) -> str:
    """Format MiB for users: `64 GiB`, `512 MiB`, `1.5 GiB`, `1,280 GiB`."""
    if amount < 1024:
        return f"{amount} MiB"
    whole = amount / 1024
    return f"{_format_decimals(whole, 3 if whole < 10 else 2 if whole < 100 else 1)} GiB"


def _format_decimals(value: float, most: int) -> str:
    return f"{value:,.{most}f}".rstrip("0").rstrip(".") if most else f"{value:,.0f}"
