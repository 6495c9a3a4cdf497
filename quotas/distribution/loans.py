"""Loans of one flavor and resource: what is planned over time, what is lent now, and how it returns.

Pure arithmetic; None is unlimited.

Every node has quota *of its own*, which only decisions change. Its own nominal at a moment is its own quota
plus what it was lent minus what it has lent out. A decision can distribute more than a node has available of
its own; the difference is lent quota and is recorded as *passed on*, so that it returns along the same nodes.
Therefore the end of a loan takes nothing from the own quota of any node, and there is always enough to
return.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from quotas.distribution.division import Amounts, children_first, compute_nominals
from quotas.distribution.node_order import NodeId, Parents
from quotas.tree.limits import Amount, add_amounts

LoanId = NodeId
Passed = dict[tuple[NodeId, NodeId], int]
"""Lent quota that one node handed on to another, by (source, target); no zeros."""


@dataclass(frozen=True, slots=True)
class Flow:
    """A change of a node's own nominal by `amount` at the moment `at`."""

    at: datetime
    amount: int


def least_own_nominal(own: Amount, flows: Iterable[Flow], start: datetime, end: datetime) -> Amount:
    """Compute the lowest own nominal of a node, which is `own` now, from `start` until before `end`.

    All flows of one moment take effect together: quota that returns then can be lent again from then on.
    """
    if own is None:
        return None
    ordered = sorted(flows, key=lambda flow: flow.at)
    at_start = own + sum(flow.amount for flow in ordered if flow.at <= start)
    least, now = at_start, at_start
    moments = sorted({flow.at for flow in ordered if start < flow.at < end})
    for moment in moments:
        now += sum(flow.amount for flow in ordered if flow.at == moment)
        least = min(least, now)
    return least


@dataclass(frozen=True, slots=True)
class Loan:
    """A running loan."""

    lender: NodeId
    borrower: NodeId
    amount: int


class StillLent(ValueError):
    """A node would have less than it was lent. `node` is that node, with what it was lent and passed on by
    others.
    """

    def __init__(self, node: NodeId, lent: int) -> None:
        super().__init__(f"{node} was lent {lent}")
        self.node, self.lent = node, lent


class LoanLedger:
    """The own nominal of each node, the running loans, and what of them was passed on; changed by its
    methods.

    Invariant: `count_own` of every node is zero or more. Running loans are ordered by their start.
    """

    def __init__(
        self,
        parents: Parents,
        own_nominal: Amounts,
        loans: Mapping[LoanId, Loan],
        passed: Mapping[tuple[NodeId, NodeId], int],
    ) -> None:
        self.parents = parents
        self.own_nominal: dict[NodeId, Amount] = {node: own_nominal.get(node, 0) for node in parents}
        self.loans = dict(loans)
        self.passed: Passed = dict(passed)
        self._received: Counter[NodeId] = Counter()  # from loans and passed on, minus what was passed back
        self._lent_out: Counter[NodeId] = Counter()  # by loans alone
        for loan in self.loans.values():
            self._note_loan(loan, 1)
        for (source, target), amount in self.passed.items():
            self._received[target] += amount
            self._received[source] -= amount

    def count_own(self, node: NodeId) -> Amount:
        """Return what a node has of its own, without loans and quota passed on from them."""
        own = self.own_nominal[node]
        return None if own is None else own - self._received[node]

    # Loans

    def start_loan(self, pk: LoanId, loan: Loan) -> None:
        """Lend from the lender's own nominal."""
        self.loans[pk] = loan
        self._note_loan(loan, 1)
        self._shift(loan.lender, loan.borrower, loan.amount)

    def end_loan(self, pk: LoanId) -> list[LoanId]:
        """End a loan; return the other loans that ended with it, because the quota that they lend is gone.

        Where the borrower's own nominal is not enough, quota that it passed on returns to it first. Only if
        that is not enough, loans by the borrower end, the latest first.
        """
        ended: list[LoanId] = []
        below_zero = [self._return(pk)]
        while below_zero:
            node = below_zero.pop()
            below_zero += self._recall(node)
            for other in reversed(list(self.loans)):
                if (self.own_nominal[node] or 0) >= 0:
                    break
                if self.loans[other].lender == node:
                    below_zero.append(self._return(other))
                    ended.append(other)
        self._settle()
        return ended

    def _return(self, pk: LoanId) -> NodeId:
        loan = self.loans.pop(pk)
        self._note_loan(loan, -1)
        self._shift(loan.borrower, loan.lender, loan.amount)
        return loan.borrower

    def _recall(self, node: NodeId) -> list[NodeId]:
        """Return to a node the quota that it passed on, as far as its own nominal is negative.

        Nodes that still have that quota available return it first. Returns all nodes to which the node passed
        quota.
        """
        given = sorted((target for source, target in self.passed if source == node), key=str)
        for at_hand in (True, False):
            for target in given:
                missing, keeps = -(self.own_nominal[node] or 0), self.own_nominal[target]
                part = min(missing, self.passed.get((node, target), 0))
                if at_hand and keeps is not None:
                    part = min(part, keeps)
                if part > 0:
                    self._note_passed(node, target, -part)
                    self._shift(target, node, part)
        return given

    # Decisions

    def apply_decision(self, after: Amounts, *, creators: Collection[NodeId] = ()) -> None:
        """Set own nominals as decided. What a node gains is moved along the tree from the nodes that lose
        quota.

        At the root, and at `creators`, it is created or destroyed instead of taken from above. Raises:
        StillLent where quota that is only lent would be destroyed, or limited.
        """
        for node, amount in after.items():
            if amount is None:
                self.own_nominal[node] = None
        limited = {
            node: amount
            for node, amount in after.items()
            if amount is not None and self.own_nominal[node] is None
        }
        gets: Counter[NodeId] = Counter()
        made: Counter[NodeId] = Counter()
        order = children_first(self.parents)
        for node in order:
            own, above = self.own_nominal[node], self.parents[node]
            if own is None:
                gets[node] = 0
                continue
            gets[node] += (after.get(node, own) or 0) - own
            if above is None or node in creators:
                made[node] = gets.pop(node)
            else:
                gets[above] += gets[node]
        self._carry_out(order, gets, made)
        for node, amount in limited.items():
            self.own_nominal[node] = amount
        self._settle()
        for node in (*made, *limited):
            if (self.count_own(node) or 0) < 0 or (node in limited and self._lent_out[node]):
                raise StillLent(node, max(self._received[node], self._lent_out[node]))

    def _carry_out(
        self, order: Iterable[NodeId], gets: Mapping[NodeId, int], made: Mapping[NodeId, int]
    ) -> None:
        """Move what each node gains from its parent, or loses to it, unless the node creates it itself."""
        upwards = list(order)
        for node, amount in made.items():
            self._make(node, max(0, amount))
        for node in upwards:
            above = self.parents[node]
            if above is not None and gets.get(node, 0) < 0:
                self._hand_on(node, above, -gets[node])
        for node in reversed(upwards):
            above = self.parents[node]
            if above is not None and gets.get(node, 0) > 0:
                self._hand_on(above, node, gets[node])
        for node, amount in made.items():
            self._make(node, min(0, amount))

    def _make(self, node: NodeId, amount: int) -> None:
        self.own_nominal[node] = add_amounts(self.own_nominal[node], amount)

    def _hand_on(self, source: NodeId, target: NodeId, amount: int) -> None:
        """Move quota: first what was passed on in the opposite direction, then what the source has of its
        own.
        """
        back = min(amount, self.passed.get((target, source), 0))
        if back:
            self._note_passed(target, source, -back)
            self._shift(source, target, back)
        own = self.count_own(source)
        if own is not None:
            at_hand = max(0, own - self._lent_out[source])
            if amount - back > at_hand:
                self._note_passed(source, target, amount - back - at_hand)
        self._shift(source, target, amount - back)

    def _settle(self) -> None:
        """Replace quota that a node passed on by quota of its own; what it passed on is then given
        permanently.
        """
        changed = True
        while changed:
            changed = False
            for (source, target), amount in list(self.passed.items()):
                own = self.count_own(source)
                part = amount if own is None else min(amount, own - self._lent_out[source])
                if part > 0:
                    self._note_passed(source, target, -part)
                    changed = True

    # Data of earlier releases

    def infer_passed(self, gained: Callable[[], Mapping[NodeId, int]]) -> None:
        """Infer what was passed on where a release that did not record it has changed quotas.

        A node whose own quota would be negative has passed quota on: to the nodes below it that `gained`,
        otherwise to its parent, otherwise to any node above or below it.
        """
        if all((self.count_own(node) or 0) >= 0 for node in self.parents):
            return
        upwards, more = children_first(self.parents), gained()
        for node in reversed(upwards):
            self._pass_below(node, more)
        for node in upwards:
            above = self.parents[node]
            if above is not None:
                part = min(-(self.count_own(node) or 0), self.count_own(above) or 0)
                if part > 0:
                    self._note_passed(node, above, part)
        owns = compute_nominals(self.parents, {node: self.count_own(node) for node in self.parents})
        for node in upwards:
            above, has = self.parents[node], owns[node]
            if above is not None and has is not None and has < 0:
                self._note_passed(node, above, -has)
        for node in reversed(upwards):
            self._pass_below(node)

    def _pass_below(self, node: NodeId, most: Mapping[NodeId, int] | None = None) -> None:
        """Record that a node passed the quota that it lacks to the nodes below it, to each at most its
        `most`.
        """
        if (self.count_own(node) or 0) >= 0:
            return
        owns = compute_nominals(self.parents, {each: self.count_own(each) for each in self.parents})
        below = [each for each, above in self.parents.items() if above == node]
        for child in sorted(below, key=lambda each: (-(most or {}).get(each, 0), str(each))):
            missing, has = -(self.count_own(node) or 0), owns[child]
            part = missing if has is None else min(missing, has)
            if most is not None:
                part = min(part, most.get(child, 0))
            if part > 0:
                self._note_passed(node, child, part)

    # Bookkeeping

    def _shift(self, source: NodeId, target: NodeId, amount: int) -> None:
        self.own_nominal[source] = add_amounts(self.own_nominal[source], -amount)
        self.own_nominal[target] = add_amounts(self.own_nominal[target], amount)

    def _note_loan(self, loan: Loan, sign: int) -> None:
        self._received[loan.borrower] += sign * loan.amount
        self._received[loan.lender] -= sign * loan.amount
        self._lent_out[loan.lender] += sign * loan.amount

    def _note_passed(self, source: NodeId, target: NodeId, amount: int) -> None:
        left = self.passed.get((source, target), 0) + amount
        if left:
            self.passed[source, target] = left
        else:
            self.passed.pop((source, target), None)
        self._received[target] += amount
        self._received[source] -= amount
