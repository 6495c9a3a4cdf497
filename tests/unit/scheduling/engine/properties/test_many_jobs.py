"""Shares depend neither on how many jobs a tenant submits, nor on their priorities."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduling.engine.model import Job, PreemptionPolicy
from tests.unit.scheduling.engine.actions.stage import TAKE_BACK, Stage
from tests.unit.scheduling.engine.builders import job, role
from tests.unit.scheduling.engine.properties.laws import law
from tests.unit.scheduling.engine.properties.test_guarantee import CARDS, TENANTS, TOP, land, size

TEN, MANY = 10, 10_000
GREEDY, RIVAL, MODEST = TENANTS
POLICIES: Mapping[str, PreemptionPolicy] = dict.fromkeys(TENANTS, TAKE_BACK)


def line(tenant: str, count: int, *, at: int, priority: int = 0) -> list[Job]:
    """Return that many jobs of one card."""
    return [job(f"{tenant}{index}", tenant, role(), at=at, priority=priority) for index in range(count)]


def rest(stage: Stage, waves: list[list[Job]]) -> dict[str, int]:
    """Return what each tenant holds once all have arrived in turn, and nothing changes any more."""
    for wave in waves:
        stage.submit(*wave)
        stage.cycle()
    for _ in range(40):
        for name in [name for name, entry in stage.snapshot.jobs.items() if stage.snapshot.count_tasks(name)]:
            stage.end_evicted(name)
        stage.now += 30
        if not stage.cycle().decisions:
            return {name: stage.snapshot.quota.usage(name, CARDS) for name in TENANTS}
    raise AssertionError("it does not come to rest")


@st.composite
def neighbours(draw: st.DrawFn) -> tuple[dict[str, int], int, list[str], bool]:
    """Nominal quotas, the demand of the modest tenant, the order of arrival, and whether sharing is fair."""
    nominal = {name: draw(st.integers(0, 3)) for name in TENANTS}
    # The rest divides evenly among the two that want it: an odd card has no meaning.
    nominal[RIVAL] = nominal[GREEDY]
    nominal[MODEST] += 1
    wanted = nominal[MODEST] - 2 * draw(st.integers(0, nominal[MODEST] // 2))
    return nominal, wanted, draw(st.permutations(TENANTS)), draw(st.booleans())


@given(neighbours(), st.integers(TEN, 30), st.sampled_from((0, TOP)))
@law
def test_more_jobs_or_a_higher_rank_give_no_more(
    drawn: tuple[dict[str, int], int, list[str], bool], many: int, priority: int
) -> None:
    nominal, wanted, order, fair = drawn
    held = []
    for count, rank in ((TEN, 0), (many, priority)):
        lines = {
            GREEDY: line(GREEDY, count, at=1, priority=rank),
            RIVAL: line(RIVAL, TEN, at=1),
            MODEST: line(MODEST, wanted, at=1),
        }
        held.append(rest(land(nominal, POLICIES, fair=fair), [lines[tenant] for tenant in order]))
    usual, greedy = held
    assert greedy[MODEST] == usual[MODEST] == wanted
    assert greedy[RIVAL] >= nominal[RIVAL]
    if fair:
        assert greedy == usual


@pytest.mark.parametrize(("first", "priority"), [(GREEDY, 0), (RIVAL, TOP)])
def test_ten_thousand_jobs_get_what_ten_get(first: str, priority: int) -> None:
    nominal = {GREEDY: 4, RIVAL: 4, MODEST: 6}
    lines = {
        GREEDY: line(GREEDY, MANY, at=1, priority=priority),
        RIVAL: line(RIVAL, TEN, at=1),
        MODEST: line(MODEST, 4, at=2),
    }
    assert sum(map(size, lines[RIVAL])) > nominal[RIVAL] + 1
    order = [first, *(tenant for tenant in TENANTS if tenant != first)]
    # All at once: a borrower doesn't preempt another borrower that came before.
    wave = [entry for tenant in order for entry in lines[tenant]]
    assert rest(land(nominal, POLICIES, fair=True), [wave]) == {GREEDY: 5, RIVAL: 5, MODEST: 4}
