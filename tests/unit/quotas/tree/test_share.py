"""Dominant resource shares: what counts as borrowed, the divisor, and an exact order."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quotas.tree import Branch, DominantResourceShare, NodeLimits, QuotaTree
from quotas.tree.share import HIGHEST

Key = tuple[str, str]
GPU: Key = ("h100", "gpu")
OTHER: Key = ("a100", "gpu")
CPU: Key = ("h100", "cpu")


def forest(
    weights: dict[str, int] | None = None, *, nominal: int | None = 5, lending: int | None = None
) -> QuotaTree[Key]:
    """A cohort with two queues of 5 + 5 GPUs and 100 + 100 CPUs, and a queue on its own."""
    weights = weights or {}
    own = {GPU: NodeLimits(nominal, None, lending), CPU: NodeLimits(100)}
    return QuotaTree(
        [
            Branch("all", None, {}),
            Branch("a", "all", own, weights.get("a", 1000)),
            Branch("b", "all", own, weights.get("b", 1000)),
            Branch("alone", None, own),
        ],
        lambda key: key[1],
    )


@pytest.mark.parametrize(("weight", "rounded"), [(1000, 200), (2000, 100), (500, 400), (0, HIGHEST)])
def test_two_of_ten_borrowed_are_two_hundred_thousandths_over_the_weight(weight: int, rounded: int) -> None:
    quotas = forest({"a": weight})
    quotas.add_usage("a", GPU, 7)
    share = quotas.share("a")
    assert (share.rounded, share.resource, share.borrows) == (rounded, "gpu", True)


def test_the_scarcest_resource_decides_and_the_first_by_name_where_they_are_equal() -> None:
    quotas = forest()
    assert quotas.share("a", {GPU: 7, CPU: 160}).resource == "cpu"
    assert quotas.share("a", {GPU: 8, CPU: 160}).resource == "cpu"
    assert quotas.share("a", {GPU: 9, CPU: 160}).resource == "gpu"


def test_flavors_of_one_resource_are_summed() -> None:
    quotas: QuotaTree[Key] = QuotaTree(
        [
            Branch("all", None, {}),
            Branch("a", "all", {GPU: NodeLimits(5), OTHER: NodeLimits(5)}),
            Branch("b", "all", {GPU: NodeLimits(5), OTHER: NodeLimits(5)}),
        ],
        lambda key: key[1],
    )
    assert quotas.lendable("all") == {"gpu": 20}
    assert quotas.share("a", {GPU: 7, OTHER: 3}).precise == 100


@pytest.mark.parametrize("node", ["all", "alone"])
def test_a_root_has_no_share(node: str) -> None:
    quotas = forest()
    if node == "alone":
        quotas.add_usage(node, GPU, 50)
    assert quotas.share(node, {GPU: 50}) == DominantResourceShare()


def test_what_is_not_lent_adds_no_share_but_is_borrowed() -> None:
    share = forest(lending=0).share("a", {GPU: 7})
    assert (share.zero, share.borrows, share.resource) == (True, True, "")


def test_an_unlimited_nominal_borrows_nothing() -> None:
    assert forest(nominal=None).share("a", {GPU: 10**9}) == DominantResourceShare()


def test_a_key_without_a_resource_takes_no_part() -> None:
    quotas: QuotaTree[Key] = QuotaTree(
        [Branch("all", None, {GPU: NodeLimits(10)}), Branch("a", "all", {})],
        lambda key: None if key[1] == "gpu" else key[1],
    )
    share = quotas.share("a", {GPU: 5})
    assert (share.zero, share.borrows) == (True, False)


def test_what_can_be_lent_follows_the_limits() -> None:
    quotas = forest()
    assert quotas.share("a", {GPU: 7}).rounded == 200
    quotas.set_limits("b", {GPU: NodeLimits(15)})
    assert quotas.share("a", {GPU: 7}).rounded == 100


def test_borrowers_of_weight_zero_rank_above_all_and_compare_unweighted() -> None:
    quotas = forest({"a": 0, "b": 0})
    little, much = quotas.share("a", {GPU: 6}), quotas.share("b", {GPU: 10})
    finite = forest().share("a", {GPU: 10_000})
    assert finite < little < much
    assert quotas.share("a", {GPU: 5}) < finite


def test_a_weight_is_not_negative() -> None:
    with pytest.raises(ValueError, match="not negative"):
        Branch("a", None, {}, -1)


def test_equal_shares_of_unequal_weights_are_equal() -> None:
    # 10/3 / 0.3 and 10/9 / 0.1: the same number, which floating point rounds apart.
    one, other = DominantResourceShare(10, 3 * 300), DominantResourceShare(10, 9 * 100)
    assert one == other and one <= other and not one < other


def test_shares_compare_exactly_however_large_they_are() -> None:
    less, more = DominantResourceShare(10**30, 3), DominantResourceShare(10**30 + 1, 3)
    assert less < more and less != more and more > less and more >= less and not less >= more
    assert not less > DominantResourceShare(2 * 10**30, 6) and less >= DominantResourceShare(2 * 10**30, 6)
    assert (
        DominantResourceShare(1, 2) != DominantResourceShare(1, 2, infinite=True)
        and DominantResourceShare(1, 2) != "1/2"
    )
    assert hash(DominantResourceShare(10, 900)) == hash(DominantResourceShare(20, 1_800))
    assert hash(DominantResourceShare(20, 4)) == 5


@pytest.mark.parametrize(
    ("extra", "numerator", "denominator", "resource", "borrows"),
    [
        ({GPU: 5}, 0, 1, "", False),  # exactly what it owns
        ({GPU: 6}, 1_000_000, 10 * 1_000, "gpu", True),
        ({GPU: 6, CPU: 40}, 1_000_000, 10 * 1_000, "gpu", True),
        ({OTHER: 2}, 2_000_000, 10 * 1_000, "gpu", True),  # none of that flavor is its own
        ({GPU: 6, OTHER: 2}, 3_000_000, 10 * 1_000, "gpu", True),
        ({("h100", "nic"): 4}, 0, 1, "", True),  # no queue has any of that
        ({("h100", "disk"): 4, GPU: 6}, 1_000_000, 10 * 1_000, "gpu", True),
    ],
)
def test_a_share_is_a_ratio_of_whole_numbers(
    extra: dict[Key, int], numerator: int, denominator: int, resource: str, borrows: bool
) -> None:
    share = forest().share("a", extra)
    assert (share.numerator, share.denominator) == (numerator, denominator)
    assert (share.resource, share.borrows, share.infinite) == (resource, borrows, False)


def test_a_borrower_of_weight_zero_keeps_the_unweighted_ratio() -> None:
    share = forest({"a": 0}).share("a", {GPU: 8})
    assert (share.numerator, share.denominator, share.infinite) == (3_000, 10, True)
    assert (share.precise, share.resource, share.borrows) == (None, "gpu", True)


def test_one_unit_that_can_be_lent_is_enough_for_a_share() -> None:
    quotas: QuotaTree[Key] = QuotaTree(
        [Branch("all", None, {GPU: NodeLimits(1)}), Branch("a", "all", {})], lambda key: key[1]
    )
    assert quotas.share("a", {GPU: 1}).precise == 1_000


def test_what_is_unlimited_is_passed_over_and_the_rest_counts() -> None:
    own = {CPU: NodeLimits(None), GPU: NodeLimits(5)}
    quotas: QuotaTree[Key] = QuotaTree(
        [Branch("all", None, {}), Branch("a", "all", own), Branch("b", "all", own)], lambda key: key[1]
    )
    quotas.add_usage("a", CPU, 10**6)
    quotas.add_usage("a", GPU, 7)
    assert quotas.share("a").rounded == 200


def test_a_copy_has_the_same_shares() -> None:
    quotas = forest({"a": 2_000})
    quotas.add_usage("a", GPU, 7)
    quotas.add_usage("a", CPU, 100)
    twin = quotas.copy()
    assert twin.share("a") == quotas.share("a") and twin.share("a").rounded == 100
    twin.add_usage("a", GPU, 1)
    assert twin.share("a").rounded == 150 and quotas.share("a").rounded == 100


shares = st.builds(DominantResourceShare, st.integers(0, 40), st.integers(1, 40), st.booleans())


def rank(share: DominantResourceShare) -> tuple[bool, Fraction]:
    return share.infinite, Fraction(share.numerator, share.denominator)


@given(shares, shares)
@settings(max_examples=100, deadline=None)
def test_shares_order_as_exact_fractions_do(one: DominantResourceShare, other: DominantResourceShare) -> None:
    assert (one < other, one <= other, one == other) == (
        rank(one) < rank(other),
        rank(one) <= rank(other),
        rank(one) == rank(other),
    )
    assert (one > other, one >= other) == (rank(one) > rank(other), rank(one) >= rank(other))
