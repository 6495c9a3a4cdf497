"""Stars in the patterns of policies: what they match, and what matching costs."""

from __future__ import annotations

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from scheduling.policy.violations import _matches

_TEXT = st.text("ab*", max_size=12)


@given(value=_TEXT, pattern=_TEXT)
def test_a_pattern_matches_what_the_same_regular_expression_does(value: str, pattern: str) -> None:
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))

    assert _matches(value, [pattern]) is bool(re.fullmatch(expression, value))


def test_no_pattern_costs_more_than_its_length_and_that_of_the_value() -> None:
    start = time.process_time()

    for stars in range(1, 100):
        assert not _matches("a" * 4096, ["*a" * stars + "b"])
        assert not _matches("a" * 4096, ["a*" * stars + "b*"])
        assert _matches("ab" * 2048, ["*b" * stars + "*"])

    assert time.process_time() - start < 1
