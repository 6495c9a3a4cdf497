"""The plan of a quota change, computed before anything is written."""

from __future__ import annotations

import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Self

from django.utils.translation import gettext as _

from clusters.models import Flavor
from foundation.core.errors import FieldError, Invalid
from foundation.core.quantities import Resource
from quotas.distribution.division import Amounts, Division, Excess, Keep, compute_nominals, divide_nominal
from quotas.distribution.loans import LoanLedger, Passed, StillLent
from quotas.hooks.job_effects import OverQuota
from quotas.models import FlavorKey, QuotaKey, QuotaNode
from quotas.selectors.changes.lent_quota import LentRows, read_lent_rows, sum_changes_since
from quotas.selectors.limits.tree import TreeRows, read_tree_rows, reserved_in_subtrees
from quotas.selectors.pools.pool_size import OF_NODES
from quotas.selectors.tables.node_names import node_names
from quotas.services.errors import ExceedsParent, QuotaLent
from quotas.texts.amounts import format_amount
from quotas.tree.limits import NOTHING, Amount, NodeLimits

AMOUNT_MAX: Final = 2**62
"""The maximum of an amount: the sum of two larger ones would not fit a column."""


@dataclass(frozen=True, slots=True)
class QuotaAmount:
    """Limits of one flavor and resource. None is unlimited; zero is nothing; `Keep` leaves the limit
    unchanged.

    `nominal` includes that of the node's children after the change. `place` is the prefix of field names in
    errors.
    """

    flavor: Flavor
    resource: Resource
    nominal: int | Keep | None
    borrowing_limit: int | Keep | None = Keep.AS_IS
    lending_limit: int | Keep | None = Keep.AS_IS
    place: str = ""


@dataclass(frozen=True, slots=True)
class NodeAmounts:
    """The new limits of one node. `version` is the one that the caller read, None for any version."""

    node: QuotaNode
    amounts: Sequence[QuotaAmount]
    version: int | None = None


@dataclass(frozen=True, slots=True)
class QuotaLimits:
    """The limits of a node as users set and read them; `nominal` includes its children's. None: unlimited."""

    nominal: Amount
    borrowing_limit: Amount
    lending_limit: Amount

    @classmethod
    def of_total(cls, nominal: Amount, limits: NodeLimits) -> Self:
        """Return the limits of a node whose nominal, its children's included, is `nominal`."""
        return cls(nominal, limits.borrowing_limit, limits.lending_limit)


@dataclass(frozen=True, slots=True)
class PlannedQuota:
    """A change of the limits of one node for one resource of one flavor."""

    node: QuotaNode
    flavor: Flavor
    resource: Resource
    before: QuotaLimits
    after: QuotaLimits

    @property
    def key(self) -> QuotaKey:
        """The quota that the limits apply to."""
        return QuotaKey(self.node.pk, self.flavor.pk, self.resource)


@dataclass(frozen=True, slots=True)
class QuotaPlan:
    """A planned change: `changes` are shown to users, `rows` and `passed` are to be stored.

    `over_quota` has what is reserved beyond the new nominals. `passed` is all quota that is passed on, of
    each flavor and resource of which something is lent.
    """

    cell_id: uuid.UUID
    changes: Sequence[PlannedQuota]
    rows: Mapping[QuotaKey, NodeLimits]
    over_quota: Sequence[OverQuota]
    passed: Mapping[FlavorKey, Passed] = field(default_factory=dict)


class QuotaTables:
    """The rows of a cell by (flavor, resource)."""

    def __init__(self, cell_id: uuid.UUID, rows: TreeRows | None = None) -> None:
        """Index the rows of the cell, which are read unless they are given."""
        self.cell_id = cell_id
        rows = rows or read_tree_rows(cell_id)
        self.nodes = {node.pk: node for node in rows.nodes}
        self.parents = {node.pk: node.parent_id for node in rows.nodes}
        self.quotas = {quota.key: quota for of in rows.quotas.values() for quota in of}
        self.reserved = reserved_in_subtrees(rows)

    def get_limits(self, key: QuotaKey) -> NodeLimits:
        """Return the limits of a node as they are stored."""
        row = self.quotas.get(key)
        return NOTHING if row is None else row.limits

    def get_own_nominals(self, flavor_id: uuid.UUID, resource: Resource) -> dict[uuid.UUID, Amount]:
        """Return the own nominal of each node."""
        return {
            node: self.get_limits(QuotaKey(node, flavor_id, resource)).own_nominal for node in self.parents
        }

    @cached_property
    def lent(self) -> LentRows:
        """The loans of the cell."""
        return read_lent_rows(self.cell_id)

    def build_loan_ledger(self, key: FlavorKey) -> LoanLedger:
        """Build a ledger of the loans of one flavor and resource."""
        loans = self.lent.loans.get(key, {})
        ledger = LoanLedger(self.parents, self.get_own_nominals(*key), loans, self.lent.passed.get(key, {}))
        if loans:
            ledger.infer_passed(lambda: sum_changes_since(loans, key))
        return ledger

    @property
    def passed(self) -> list[tuple[uuid.UUID, uuid.UUID]]:
        """The pairs of nodes between which lent quota was passed on."""
        return [pair for key in self.lent.loans for pair in self.build_loan_ledger(key).passed]

    def compute_passed(
        self, key: FlavorKey, after: Amounts, creators: Collection[uuid.UUID] = ()
    ) -> dict[FlavorKey, Passed]:
        """Compute what is passed on with these own nominals; empty where nothing of this is lent.

        Raises: StillLent.
        """
        if key not in self.lent.loans and key not in self.lent.passed:
            return {}
        ledger = self.build_loan_ledger(key)
        ledger.apply_decision(
            {node: n for node, n in after.items() if n != ledger.own_nominal[node]}, creators=creators
        )
        return {key: ledger.passed}

    def get_nominal(self, key: QuotaKey) -> Amount:
        """Return the nominal of a node, its children's included."""
        return compute_nominals(self.parents, self.get_own_nominals(*key.flavor_key))[key.node_id]

    def get_quota_limits(self, key: QuotaKey) -> QuotaLimits:
        """Return the limits of a node as people read them."""
        return QuotaLimits.of_total(self.get_nominal(key), self.get_limits(key))


def quota_plan(cell_id: uuid.UUID, changes: Sequence[NodeAmounts], *, on_top: bool = False) -> QuotaPlan:
    """Compute what would be stored, from the present rows.

    Raises: Invalid for a negative or huge amount, a flavor of another cell or one limit named twice;
    ExceedsParent with every sum that does not hold; QuotaLent for quota that is only lent.
    """
    wanted = wanted_amounts(cell_id, changes)
    tables = QuotaTables(cell_id)
    planned: list[PlannedQuota] = []
    rows: dict[QuotaKey, NodeLimits] = {}
    refused: list[tuple[Excess, QuotaAmount]] = []
    divisions: dict[FlavorKey, Division] = {}
    for (flavor_id, resource), of in wanted.items():
        own = tables.get_own_nominals(flavor_id, resource)
        before = compute_nominals(tables.parents, own)
        nominal = {node: a.nominal for node, a in of.items() if not isinstance(a.nominal, Keep)}
        division = divide_nominal(tables.parents, own, nominal, on_top=on_top)
        refused += [(excess, _blamed(excess, of)) for excess in division.excesses]
        for node, amount in of.items():
            was = QuotaLimits.of_total(before[node], tables.get_limits(QuotaKey(node, flavor_id, resource)))
            now = QuotaLimits(nominal.get(node, before[node]), *_lending(amount, was))
            if now != was:
                planned.append(PlannedQuota(tables.nodes[node], amount.flavor, resource, was, now))
        rows |= _rows(tables, division, of, flavor_id, resource)
        divisions[flavor_id, resource] = division
    if refused:
        raise _exceeds(refused)
    passed = _passed(tables, divisions, wanted, on_top=on_top)
    return QuotaPlan(cell_id, planned, rows, find_over_quota(planned, tables), passed)


def _passed(
    tables: QuotaTables,
    divisions: Mapping[FlavorKey, Division],
    wanted: Mapping[FlavorKey, Mapping[uuid.UUID, QuotaAmount]],
    *,
    on_top: bool,
) -> dict[FlavorKey, Passed]:
    """Compute what is passed on after these divisions. Raises: QuotaLent."""
    found: dict[FlavorKey, Passed] = {}
    for key, division in divisions.items():
        # Where a node and its parent are set together, quota moves from one to the other.
        named = {node for node, amount in wanted[key].items() if not isinstance(amount.nominal, Keep)}
        creators = [node for node in named if tables.parents[node] not in named] if on_top else []
        try:
            found |= tables.compute_passed(key, division.own_nominal, creators)
        except StillLent as error:
            raise _still_lent(error, key, wanted[key]) from error
    return found


def wanted_amounts(
    cell_id: uuid.UUID, changes: Sequence[NodeAmounts]
) -> dict[FlavorKey, dict[uuid.UUID, QuotaAmount]]:
    """Group the wanted amounts by flavor and resource, then by node.

    Raises: Invalid for a negative or huge amount, a flavor of another cell or one limit named twice.
    """
    found: defaultdict[FlavorKey, dict[uuid.UUID, QuotaAmount]] = defaultdict(dict)
    for change in changes:
        for amount in change.amounts:
            _check(cell_id, amount)
            of = found[amount.flavor.pk, amount.resource]
            if change.node.pk in of:
                raise _wrong(amount, "TWICE", _("Duplicate limit."))
            of[change.node.pk] = amount
    return dict(sorted(found.items(), key=lambda item: (str(item[0][0]), item[0][1])))


def _check(cell_id: uuid.UUID, amount: QuotaAmount) -> None:
    if amount.flavor.cluster.cell_id != cell_id:
        message = _("Pool %(flavor)s belongs to another scheduling domain.") % {"flavor": amount.flavor}
        raise _wrong(amount, "OTHER_CELL", message, "flavor")
    for name in ("nominal", "borrowing_limit", "lending_limit"):
        limit = getattr(amount, name)
        if isinstance(limit, int) and limit < 0:
            message = _("Quota can't be negative. Leave empty for unlimited.")
            raise _wrong(amount, "NEGATIVE", message, name)
        if isinstance(limit, int) and limit > AMOUNT_MAX:
            raise _wrong(amount, "TOO_LARGE", _("The quota is too large."), name)


def _wrong(amount: QuotaAmount, code: str, message: str, name: str = "nominal") -> Invalid:
    return Invalid(message, errors=[FieldError(f"{amount.place}{name}", code, message)])


def _lending(amount: QuotaAmount, was: QuotaLimits | NodeLimits) -> tuple[Amount, Amount]:
    borrowing, lending = amount.borrowing_limit, amount.lending_limit
    return (
        was.borrowing_limit if isinstance(borrowing, Keep) else borrowing,
        was.lending_limit if isinstance(lending, Keep) else lending,
    )


def _rows(
    tables: QuotaTables,
    division: Division,
    of: Mapping[uuid.UUID, QuotaAmount],
    flavor_id: uuid.UUID,
    resource: Resource,
) -> dict[QuotaKey, NodeLimits]:
    """Compute the rows that the division changes."""
    found: dict[QuotaKey, NodeLimits] = {}
    for node, own in division.own_nominal.items():
        key = QuotaKey(node, flavor_id, resource)
        was = tables.get_limits(key)
        now = replace(was, own_nominal=own)
        if node in of:
            now = NodeLimits(own, *_lending(of[node], was))
        if now != was:
            found[key] = now
    return found


def find_over_quota(planned: Iterable[PlannedQuota], tables: QuotaTables) -> list[OverQuota]:
    """Find what is reserved beyond lowered nominals."""
    found = []
    for change in planned:
        reserved, limit, had = tables.reserved[change.key], change.after.nominal, change.before.nominal
        if limit is not None and (had is None or limit < had) and reserved > limit:
            found.append(OverQuota(change.key, reserved, limit))
    return found


def _blamed(excess: Excess, of: Mapping[uuid.UUID, QuotaAmount]) -> QuotaAmount:
    """Return the entered amount to which an excess is reported: a child's, else the node's own."""
    named = [child for child in excess.children if child in of]
    return of[named[0] if named else excess.node]


def _exceeds(refused: Sequence[tuple[Excess, QuotaAmount]]) -> ExceedsParent:
    names = node_names({pk for excess, _ in refused for pk in (excess.node, *excess.children)})
    errors, first = [], None
    # The sums of GPUs are reported first, because those of CPU and memory follow from them.
    for excess, amount in sorted(refused, key=lambda pair: pair[1].resource in OF_NODES):
        sentence, numbers = _sums(excess, amount, names)
        first = first or (sentence, numbers)
        errors.append(FieldError(f"{amount.place}nominal", ExceedsParent.code, sentence))
    sentence, numbers = first or ("", {})
    return ExceedsParent(sentence, numbers=numbers, errors=errors)


def _sums(
    excess: Excess, amount: QuotaAmount, names: Mapping[uuid.UUID, str]
) -> tuple[str, dict[str, int | str | None]]:
    """Return one sentence with both sums, and the numbers in it."""
    limited = [child for child in excess.children.values() if child is not None]
    total = None if len(limited) < len(excess.children) else sum(limited)
    parts = sorted((names[child], n) for child, n in excess.children.items() if n != 0)
    sentence = _(
        "Insufficient quota: children of %(node)s would have %(total)s of %(flavor)s, %(node)s has "
        "%(has)s (%(parts)s)."
    ) % {
        "node": names[excess.node],
        "has": format_amount(amount.resource, excess.has),
        "flavor": amount.flavor.name,
        "total": format_amount(amount.resource, total),
        "parts": _(", ").join(f"{name} {format_amount(amount.resource, n)}" for name, n in parts),
    }
    numbers: dict[str, int | str | None] = {"has": excess.has, "asked": total}
    return sentence, numbers | {"flavor": amount.flavor.name, "resource": amount.resource.value}


def _still_lent(error: StillLent, key: FlavorKey, of: Mapping[uuid.UUID, QuotaAmount]) -> QuotaLent:
    amount = of[error.node] if error.node in of else next(iter(of.values()))
    sentence = _("Active transfers use %(lent)s of %(flavor)s of %(node)s. End them first.") % {
        "lent": format_amount(key[1], error.lent),
        "flavor": amount.flavor.name,
        "node": node_names([error.node])[error.node],
    }
    fault = FieldError(f"{amount.place}nominal", QuotaLent.code, sentence)
    return QuotaLent(sentence, numbers={"lent": error.lent, "resource": key[1].value}, errors=[fault])
