"""An alert fires after its condition held for long enough, and resolves after it did not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from alerts.evaluation.transitions import AlertProgress, Step, choose_step, compare_value

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


@dataclass
class Rule:
    comparison: str = "above"
    threshold: float = 10.0
    hold_s: int = 60
    resolve_s: int = 120


def test_a_value_equal_to_the_threshold_is_neither_above_nor_below() -> None:
    assert not compare_value(Rule("above"), 10.0)
    assert not compare_value(Rule("below"), 10.0)
    assert compare_value(Rule("above"), 10.1)
    assert compare_value(Rule("below"), 9.9)


@given(
    st.lists(st.tuples(st.integers(1, 90), st.sampled_from([None, 5.0, 15.0, "gone"])), max_size=40),
    st.sampled_from([0, 30, 60]),
    st.sampled_from([0, 60, 120]),
)
def test_firing_and_resolution_follow_the_definition(
    seen: list[tuple[int, float | str | None]], hold_s: int, resolve_s: int
) -> None:
    """An oracle over the history: fired when the condition held at each known value for `hold_s`."""
    rule = Rule(hold_s=hold_s, resolve_s=resolve_s)
    standing: AlertProgress | None = None
    now, since_true, since_false, firing = START, None, None, False
    for after, value in seen:
        now += timedelta(seconds=after)
        present, known = value != "gone", value if isinstance(value, float) else None
        step, clear = choose_step(rule, standing, present=present, value=known, now=now)
        # The definition.
        expected = firing
        if value == "gone":
            since_true = since_false = None
            expected = False
        elif known is not None and known > rule.threshold:
            since_true, since_false = since_true or now, None
            expected = firing or (now - since_true).total_seconds() >= hold_s
        elif known is not None:
            since_true = since_true if firing else None
            since_false = (since_false or now) if firing else None
            expected = firing and (now - (since_false or now)).total_seconds() < resolve_s
        firing = expected
        if not firing and since_false is not None:
            since_true = since_false = None
        # The code.
        if step in (Step.BEGIN, Step.FIRE):
            began = standing.started_at if standing is not None else now
            standing = AlertProgress("firing" if step is Step.FIRE else "pending", began, clear)
        elif step in (Step.DROP, Step.RESOLVE):
            standing = None
        elif standing is not None:
            standing = AlertProgress(standing.state, standing.started_at, clear)
        assert (standing is not None and standing.state == "firing") == firing
