"""Numbers that people send as text."""

from __future__ import annotations

import pytest

from foundation.core.numbers import read_whole
from foundation.core.quantities import QuantityError, parse_cpu, parse_memory, parse_percent


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("1000", 1000), ("1001", None), ("", None), ("-1", None), ("1.0", None),
     ("٣", None), ("²", None), (" 1", None), ("9" * 5000, None), ("0" * 5000, None)],
)  # fmt: skip
def test_only_plain_digits_up_to_the_most_are_a_number(text: str, number: int | None) -> None:
    assert read_whole(text, most=1000) == number


@pytest.mark.parametrize("parse", [parse_cpu, parse_memory, parse_percent])
@pytest.mark.parametrize(
    "text", ["9" * 5000, "9" * 5000 + "m", "0." + "1" * 5000, " " * 5000 + "x", "1" + "m" * 5000]
)
def test_a_quantity_of_thousands_of_characters_is_refused_shortly(parse: object, text: str) -> None:
    with pytest.raises(QuantityError) as caught:
        parse(text)  # type: ignore[operator]

    assert len(str(caught.value)) < 200
