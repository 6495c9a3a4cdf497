"""Limits of one quota node, and arithmetic in which None means unlimited.

A node with an unlimited nominal borrows nothing and lends nothing: all usage below it is its own, and its
neighbours neither gain nor lose quota by it.
"""

from __future__ import annotations

from dataclasses import dataclass

Amount = int | None
"""A whole number of the resource's unit; None is unlimited."""


@dataclass(frozen=True, slots=True)
class NodeLimits:
    """The limits of one node for one resource. The default is the meaning of an absent row: no quota of its
    own.

    `own_nominal` is the node's quota without what it distributed to its children. `borrowing_limit` caps what
    its subtree may use above its quota, `lending_limit` what others may use of it. None is unlimited.

    Raises:
        ValueError: on a negative amount.
    """

    own_nominal: Amount = 0
    borrowing_limit: Amount = None
    lending_limit: Amount = None

    def __post_init__(self) -> None:
        if min(self.own_nominal or 0, self.borrowing_limit or 0, self.lending_limit or 0) < 0:
            amounts = ((name, getattr(self, name)) for name in self.__slots__)
            name, amount = next(each for each in amounts if (each[1] or 0) < 0)
            raise ValueError(f"{name} is {amount}; a limit is not negative")


NOTHING = NodeLimits()


def is_at_least(available: Amount, asked: int) -> bool:
    """Return whether an amount, possibly unlimited, is at least the requested one."""
    return available is None or available >= asked


def min_amount(one: Amount, other: Amount) -> Amount:
    """The lower of two amounts; unlimited is above everything."""
    if one is None:
        return other
    return one if other is None else min(one, other)


def add_amounts(one: Amount, other: Amount) -> Amount:
    """The sum of two amounts; unlimited absorbs everything."""
    return None if one is None or other is None else one + other


def compute_own_part(available: int, nominal: Amount, used: int) -> int:
    """The part of an available amount that a node can use without borrowing.

    That its quota is lent at the moment doesn't matter: the borrowers then borrow from another node.
    """
    return available if nominal is None else min(available, max(0, nominal - used))


def compute_local_quota(quota: Amount, lending_limit: Amount) -> Amount:
    """The part of a subtree's quota that may not be lent (Kueue: localQuota)."""
    if quota is None:
        return None
    return 0 if lending_limit is None else max(0, quota - lending_limit)


def compute_lent_quota(quota: Amount, local: Amount) -> int:
    """The part of a subtree's quota that counts for the parent."""
    return 0 if quota is None or local is None else quota - local


def compute_spilled_usage(usage: int, local: Amount) -> int:
    """The part of a subtree's usage that counts at the parent."""
    return 0 if local is None else max(0, usage - local)
