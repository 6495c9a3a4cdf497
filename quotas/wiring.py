"""Row policies of this package's tables where they do not follow from a column."""

from __future__ import annotations

from quotas.models import Budget, Override, PassedQuota, QuotaChange, QuotaNode, QuotaRevision
from tenants.access.row_policies import Rule, declare_rule, reads_above


def _node(column: str) -> str:
    return f"EXISTS (SELECT 1 FROM {QuotaNode._meta.db_table} n WHERE n.id = {{row}}.{column})"


_CHANGE = f"EXISTS (SELECT 1 FROM {QuotaChange._meta.db_table} c WHERE c.revision_id = {{row}}.id)"


def declare_own() -> None:
    """Declare the row policies of this package's tables.

    A change belongs to the tenant of its node. A revision belongs to the tenants of its changes, and is
    written before them. A loan, and quota passed on from it, belongs to both sides. A budget applies below
    its folder too.
    """
    declare_rule(QuotaChange, Rule(_node("node_id")))
    declare_rule(QuotaRevision, Rule(_CHANGE, append="true"))
    declare_rule(Override, Rule(f"({_node('lender_id')} OR {_node('borrower_id')})"))
    declare_rule(PassedQuota, Rule(f"({_node('source_id')} OR {_node('target_id')})"))
    reads_above(Budget)
