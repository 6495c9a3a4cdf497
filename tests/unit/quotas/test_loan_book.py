"""The ledger of loans: no loan changes what a node owns, whatever was decided meanwhile."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quotas.distribution.division import divide_nominal
from quotas.distribution.loans import Loan, LoanLedger, StillLent

NAMES = ("root", "east", "west", "a", "b", "c", "d", "a1", "a2", "c1")
PARENTS = {"east": "root", "west": "root", "a": "east", "b": "east", "c": "west", "d": "west"} | {
    "a1": "a", "a2": "a", "c1": "c",
}  # fmt: skip
NODE = {name: uuid.uuid5(uuid.NAMESPACE_URL, name) for name in NAMES}
TREE = {NODE[name]: NODE[PARENTS[name]] if name in PARENTS else None for name in NAMES}
A_LOAN, B_LOAN, C_LOAN = (uuid.UUID(int=number) for number in (1, 2, 3))


def book(**own: int | None) -> LoanLedger:
    return LoanLedger(TREE, {NODE[name]: amount for name, amount in own.items()}, {}, {})


def own_nominals(of: LoanLedger) -> dict[str, int | None]:
    return {name: of.own_nominal[NODE[name]] for name in NAMES if of.own_nominal[NODE[name]] != 0}


def lend(of: LoanLedger, pk: uuid.UUID, lender: str, borrower: str, amount: int) -> None:
    of.start_loan(pk, Loan(NODE[lender], NODE[borrower], amount))


def decide(of: LoanLedger, *, on_top: bool = False, **wanted: int | None) -> None:
    """Set totals as a change of quota does; what the parents keep follows."""
    amounts = {NODE[name]: amount for name, amount in wanted.items()}
    division = divide_nominal(TREE, of.own_nominal, amounts, on_top=on_top)
    assert not division.excesses
    creators = [node for node in amounts if TREE[node] not in amounts] if on_top else []
    of.apply_decision(division.own_nominal, creators=creators)


def test_what_was_passed_on_returns_the_way_it_went() -> None:
    loans = book(west=5, a=2)
    lend(loans, A_LOAN, "west", "east", 5)
    decide(loans, a=7)
    decide(loans, a1=6)
    assert own_nominals(loans) == {"a": 1, "a1": 6}

    assert loans.end_loan(A_LOAN) == []
    assert own_nominals(loans) == {"west": 5, "a1": 2}
    assert loans.passed == {}


def test_who_takes_lent_quota_from_a_borrower_pays_it_back() -> None:
    loans = book(west=5, east=4)
    lend(loans, A_LOAN, "west", "a", 5)
    decide(loans, a=0)
    assert own_nominals(loans) == {"east": 9}

    loans.end_loan(A_LOAN)
    assert own_nominals(loans) == {"west": 5, "east": 4}


def test_own_quota_that_returned_replaces_what_was_passed_on() -> None:
    loans = book(root=3, west=3)
    lend(loans, A_LOAN, "west", "east", 3)
    decide(loans, a=3)
    decide(loans, east=6)
    assert loans.passed == {}

    loans.end_loan(A_LOAN)
    assert own_nominals(loans) == {"west": 3, "a": 3}


def test_a_loan_of_what_is_no_longer_there_ends_with_what_it_came_from() -> None:
    loans = book(west=3)
    lend(loans, A_LOAN, "west", "east", 3)
    decide(loans, a=3)
    lend(loans, B_LOAN, "a", "d", 3)

    assert loans.end_loan(A_LOAN) == [B_LOAN]
    assert own_nominals(loans) == {"west": 3}


def test_own_quota_that_is_lent_out_is_not_what_is_passed_on() -> None:
    """Otherwise the end of one loan would shorten another one, whose lender had guaranteed it."""
    loans = book(west=3, east=5)
    lend(loans, A_LOAN, "west", "east", 3)
    lend(loans, B_LOAN, "east", "d", 5)
    decide(loans, a=3)

    assert loans.end_loan(A_LOAN) == []
    assert own_nominals(loans) == {"west": 3, "d": 5}
    loans.end_loan(B_LOAN)
    assert own_nominals(loans) == {"west": 3, "east": 5}


def test_lent_quota_is_not_destroyed() -> None:
    loans = book(west=5, a=2)
    lend(loans, A_LOAN, "west", "a", 5)
    with pytest.raises(StillLent) as refused:
        decide(loans, on_top=True, a=4)
    assert (refused.value.node, refused.value.lent) == (NODE["a"], 5)


def test_an_unlimited_lender_is_not_limited_before_its_loan_ends() -> None:
    loans = book(root=None, west=None)
    lend(loans, A_LOAN, "west", "a", 5)
    with pytest.raises(StillLent):
        decide(loans, west=3)
    loans.end_loan(A_LOAN)
    decide(loans, west=3)
    assert own_nominals(loans) == {"root": None, "west": 3}


def test_passing_on_from_and_to_what_is_unlimited() -> None:
    loans = book(root=None, west=3)
    lend(loans, A_LOAN, "west", "east", 3)
    decide(loans, a=3)
    decide(loans, a=None, east=None)
    loans.end_loan(A_LOAN)
    assert own_nominals(loans) == {"root": None, "west": 3, "a": None, "east": None}


@pytest.mark.parametrize("where", ["a1", "east"])
def test_unrecorded_passes_are_inferred(where: str) -> None:
    """A version before this record could pass a borrower's quota on, or take it away."""
    loans = LoanLedger(
        TREE,
        {NODE["a2"]: 2, NODE["b"]: 4, NODE[where]: 3},
        {A_LOAN: Loan(NODE["west"], NODE["a"], 3)},
        {},
    )
    loans.infer_passed(lambda: {NODE[where]: 3})
    assert all((loans.count_own(node) or 0) >= 0 for node in TREE)
    loans.end_loan(A_LOAN)
    assert own_nominals(loans) == {"west": 3, "a2": 2, "b": 4}


_AMOUNT = st.integers(0, 12)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("lend"), st.sampled_from(NAMES), st.sampled_from(NAMES), _AMOUNT),
        st.tuples(st.just("set"), st.sampled_from(NAMES[1:]), st.just(""), _AMOUNT),
        st.tuples(st.just("make"), st.sampled_from(NAMES), st.just(""), _AMOUNT),
        st.tuples(st.just("end"), st.just(""), st.just(""), _AMOUNT),
    ),
    max_size=40,
)


@settings(max_examples=150)
@given(st.lists(st.integers(0, 9), min_size=len(NAMES), max_size=len(NAMES)), _STEPS)
def test_lending_and_returning_change_nothing_of_ones_own(amounts: list[int], steps: list[Any]) -> None:
    loans = book(**dict(zip(NAMES, amounts, strict=True)))
    total = sum(amounts)
    for number, (kind, one, other, amount) in enumerate(steps):
        total += step(loans, number + 1, kind, one, other, amount)
        check(loans, total)
    for pk in list(loans.loans):
        if pk in loans.loans:
            end(loans, pk)
    assert loans.passed == {}
    check(loans, total)


def step(loans: LoanLedger, number: int, kind: str, one: str, other: str, amount: int) -> int:
    """Do one step, if it is possible; return how much was created."""
    if kind == "lend":
        if one != other and 0 < amount <= (loans.own_nominal[NODE[one]] or 0):
            lend(loans, uuid.UUID(int=number), one, other, amount)
        return 0
    if kind == "end":
        if loans.loans:
            end(loans, list(loans.loans)[amount % len(loans.loans)])
        return 0
    wanted, on_top = {NODE[one]: amount}, kind == "make"
    division = divide_nominal(TREE, loans.own_nominal, wanted, on_top=on_top)
    if division.excesses:
        return 0
    before = LoanLedger(TREE, loans.own_nominal, loans.loans, loans.passed)
    try:
        loans.apply_decision(division.own_nominal, creators=list(wanted) if on_top else [])
    except StillLent:
        loans.__dict__.update(before.__dict__)
        return 0
    near = {one} if on_top else {one, PARENTS[one]}
    assert changed(before, loans) <= near | between(before) | between(loans)
    return sum(n or 0 for n in loans.own_nominal.values()) - sum(n or 0 for n in before.own_nominal.values())


def end(loans: LoanLedger, pk: uuid.UUID) -> None:
    """End a loan; only nodes that passed lent quota on may own less, and by no more than that."""
    before = LoanLedger(TREE, loans.own_nominal, loans.loans, loans.passed)
    loans.end_loan(pk)
    assert changed(before, loans) <= between(before)
    for node in TREE:
        most = sum(amount for (source, _), amount in before.passed.items() if source == node)
        assert (loans.count_own(node) or 0) >= (before.count_own(node) or 0) - most


def changed(before: LoanLedger, after: LoanLedger) -> set[str]:
    """Return the nodes that own more or less than before."""
    return {name for name in NAMES if before.count_own(NODE[name]) != after.count_own(NODE[name])}


def between(loans: LoanLedger) -> set[str]:
    return {name for name in NAMES if any(NODE[name] in pair for pair in loans.passed)}


def check(loans: LoanLedger, total: int) -> None:
    assert sum(amount or 0 for amount in loans.own_nominal.values()) == total
    assert min(amount or 0 for amount in loans.own_nominal.values()) >= 0
    assert min(loans.count_own(node) or 0 for node in TREE) >= 0
